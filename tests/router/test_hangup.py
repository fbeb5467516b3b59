"""A client that hangs up: the backend notices in every phase, the slot is free, the breaker is untouched."""

from __future__ import annotations

import asyncio
import itertools
import operator
from functools import partial
from pathlib import Path

import pytest

from router.proxy import connection
from tests import waiting
from tests.router import process, wire

_MANY = 100


class Listener:
    """A backend that begins to answer or not, and counts whose connection ended under it."""

    def __init__(self, opening: bytes) -> None:
        self.opening = opening
        self.open = 0
        self.ended = 0

    async def play(self, message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the opening, then wait for the end of the connection."""
        self.open += 1
        writer.write(self.opening)
        await writer.drain()
        try:
            assert await reader.read() == b""
        except ConnectionResetError:
            pass  # how a hard close arrives when bytes were under way
        finally:
            self.ended += 1


@pytest.mark.parametrize(
    ("opening", "stream"),
    [(b"", True), (b"", False), (wire.chunked_head() + wire.chunk(b"{}\n"), True)],
    ids=["before the first byte", "not streamed", "streaming"],
)
async def test_hangup_reaches_the_backend(tmp_path: Path, opening: bytes, stream: bool) -> None:
    listener = Listener(opening)
    async with process.before(tmp_path, listener.play) as (router, backend):
        clients = []
        for _ in range(_MANY):
            reader, writer = await asyncio.open_connection("127.0.0.1", router.port)
            writer.write(wire.post("/api/chat", {"model": "m", "stream": stream}))
            if opening:
                await reader.readuntil(b"{}\n")
            clients.append(writer)
        await router.until(lambda s: s["backends"][0]["inFlight"] == _MANY)
        # The router has sent them all; the last may still be on their way.
        await waiting.eventually(lambda: listener.open, good=partial(operator.eq, _MANY))
        assert listener.ended == 0
        for writer in clients:
            writer.close()
        status = await router.until(lambda s: s["backends"][0]["inFlight"] == 0)
        assert await waiting.eventually(lambda: listener.ended, good=partial(operator.eq, _MANY))
        assert status["backends"][0]["circuit"] == "Closed"
        assert status["backends"][0]["healthy"]
        phase = "streaming" if opening else "first_byte"
        assert await router.metric(f'jervis_router_client_hangups_total{{phase="{phase}"}}') == _MANY
        assert len(backend.requests) == _MANY  # nothing was tried again for somebody who had gone


async def test_hangup_in_the_queue_never_reaches_the_backend_and_wakes_the_next(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with process.before(tmp_path, wire.gated(gate, wire.echo), spec={"numParallel": 1}) as (router, backend):

        def ask(name: str) -> asyncio.Task[wire.Message]:
            return asyncio.create_task(router.post("/api/chat", {"model": "m", "name": name}))

        first = ask("first")
        await router.until(lambda s: s["backends"][0]["inFlight"] == 1)
        leaving = ask("leaving")
        await router.until(lambda s: s["queue"]["waiting"] == 1)
        staying = ask("staying")
        await router.until(lambda s: s["queue"]["waiting"] == 2)
        leaving.cancel()
        await router.until(lambda s: s["queue"]["waiting"] == 1)
        gate.set()
        assert [(await task).json()["name"] for task in (first, staying)] == ["first", "staying"]
        assert [r.json()["name"] for r in backend.requests] == ["first", "staying"]
        # The document may be a few milliseconds old.
        await router.until(lambda s: (s["queue"]["waiting"], s["backends"][0]["inFlight"]) == (0, 0))
        assert await router.metric('jervis_router_client_hangups_total{phase="queue"}') == 1


async def test_slot_is_given_on_only_when_the_backend_has_lost_the_one_who_left(tmp_path: Path) -> None:
    """Ollama stops at the next token, or after the prompt's next batch: until then its slot is taken."""
    running, peak, stops = 0, 0, asyncio.Event()

    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if message.json()["stays"]:
            writer.write(wire.plain(b"{}"))
        else:
            assert await reader.read() == b""
            await stops.wait()
        running -= 1
        return bool(message.json()["stays"])

    async with process.before(tmp_path, script, spec={"numParallel": 1}) as (router, backend):
        loop, quick = asyncio.get_running_loop(), 0
        for number in itertools.count(1):
            peak = 0
            _, writer = await asyncio.open_connection("127.0.0.1", router.port)
            writer.write(wire.post("/api/chat", {"model": "m", "stays": False}))

            def begun() -> int:
                return running

            await waiting.eventually(begun, good=partial(operator.eq, 1))
            next_one = asyncio.create_task(router.post("/api/chat", {"model": "m", "stays": True}))
            await router.until(lambda s: s["queue"]["waiting"] == 1)
            left = loop.time()
            writer.close()
            hangups = 'jervis_router_client_hangups_total{phase="first_byte"}'
            await waiting.eventually(partial(router.metric, hangups), good=partial(operator.eq, number))
            queued = (await router.status())["queue"]["waiting"]
            stops.set()
            in_time = loop.time() < left + connection.PARTING_SECONDS
            assert (await next_one).status == 200
            await waiting.eventually(begun, good=partial(operator.eq, 0))
            stops.clear()
            assert len(backend.requests) == 2 * number
            # A backend that takes longer is not waited for, and a busy machine may be what takes the time.
            if in_time:
                assert (queued, peak) == (1, 1)
                quick += 1
            if quick == 5:
                break
            assert number < 50


async def test_slot_comes_free_although_the_backend_never_stops(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if not message.json()["stays"]:
            await asyncio.Event().wait()
        writer.write(wire.plain(b"{}"))
        return True

    async with process.before(tmp_path, script, spec={"numParallel": 1}) as (router, backend):
        _, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(wire.post("/api/chat", {"model": "m", "stays": False}))

        await waiting.eventually(lambda: len(backend.requests), good=partial(operator.eq, 1))
        writer.close()
        answer = await router.post("/api/chat", {"model": "m", "stays": True})
        assert (answer.status, len(backend.requests)) == (200, 2)


async def test_hangup_is_seen_behind_requests_that_were_sent_ahead(tmp_path: Path) -> None:
    listener = Listener(b"")
    async with process.before(tmp_path, listener.play) as (router, backend):
        _, writer = await asyncio.open_connection("127.0.0.1", router.port)
        writer.write(wire.post("/api/chat", {"model": "m"}) * 3)

        def counts() -> tuple[int, int]:
            return listener.open, listener.ended

        await waiting.eventually(counts, good=partial(operator.eq, (1, 0)))
        writer.close()
        await waiting.eventually(counts, good=partial(operator.eq, (1, 1)))
        assert len(backend.requests) == 1
