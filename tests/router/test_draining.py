"""SIGTERM: what runs ends, what comes is sent elsewhere, and the grace has an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests import waiting
from tests.router import process, wire


class Held:
    """A backend that begins a stream and ends it when told."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Begin, wait, end."""
        writer.write(wire.chunked_head() + wire.chunk(b'{"done":false}\n'))
        await self.gate.wait()
        writer.write(wire.chunk(b'{"done":true}\n') + wire.chunk(b""))
        return True


def _ask(router: process.Router) -> asyncio.Task[wire.Message]:
    return asyncio.create_task(wire.ask(router.port, wire.post("/api/chat", {"model": "m"})))


async def _begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> wire.Message:
    """Ask, and return the head of the stream once its client has it."""
    writer.write(wire.post("/api/chat", {"model": "m"}))
    head = await wire.read_head(reader)
    assert head.status == 200
    return head


async def test_running_and_waiting_requests_end_properly(tmp_path: Path) -> None:
    held = Held()
    async with (
        wire.backend(held.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=2)]) as router,
        wire.connected(router.port) as (idle, _),
    ):
        tasks = [_ask(router) for _ in range(5)]
        await router.until(lambda s: s["queue"]["waiting"] == 3)
        router.terminate()
        assert await idle.read() == b""  # idle connections close at once
        refused = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", router.port),), return_exceptions=True)
        assert isinstance(refused[0], ConnectionRefusedError)
        held.gate.set()
        answers = await asyncio.gather(*tasks)
        assert [(a.clean, a.status, a.body.count(b"\n")) for a in answers] == [(True, 200, 2)] * 5
        assert await router.ended() == 0


async def test_after_the_grace_streams_end_with_an_error_line(tmp_path: Path) -> None:
    held = Held()
    async with (
        wire.backend(held.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url, numParallel=1)], drain_seconds="0.3") as router,
        wire.connected(router.port) as (reader, writer),
    ):
        answer = await _begun(reader, writer)
        waiting = _ask(router)
        await router.until(lambda s: s["queue"]["waiting"] == 1)
        router.terminate()
        turned = await waiting
        await wire.read_body(reader, answer, until_eof=True)
        assert not answer.clean
        assert "shutting down" in answer.body.decode().splitlines()[-1]
        assert (turned.status, turned.header("Retry-After")) == (503, "2")
        assert await router.ended() == 0
        assert len(backend.requests) == 1
    held.gate.set()


async def test_second_signal_ends_the_patience(tmp_path: Path) -> None:
    held = Held()
    async with (
        wire.backend(held.play) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)]) as router,
        wire.connected(router.port) as (reader, writer),
    ):
        answer = await _begun(reader, writer)
        router.terminate()

        await waiting.eventually(lambda: any(e["event"] == "draining" for e in router.events()), good=bool)
        router.terminate()
        await wire.read_body(reader, answer, until_eof=True)
        assert not answer.clean
        assert await router.ended() == 0
    held.gate.set()
