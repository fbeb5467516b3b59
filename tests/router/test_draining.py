"""SIGTERM: what runs ends, what comes is sent elsewhere, and the grace has an end."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests import waiting
from tests.router import process, wire


def _ask(router: process.Router) -> asyncio.Task[wire.Message]:
    return asyncio.create_task(router.post("/api/chat", {"model": "m"}))


async def _begun(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> wire.Message:
    """Ask, and return the head of the stream once its client has it."""
    writer.write(wire.post("/api/chat", {"model": "m"}))
    head = await wire.read_head(reader)
    assert head.status == 200
    return head


async def test_running_and_waiting_requests_end_properly(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with (
        process.before(tmp_path, wire.pausing(gate), spec={"numParallel": 2}) as (router, _),
        wire.connected(router.port) as (idle, _),
    ):
        tasks = [_ask(router) for _ in range(5)]
        await router.until(lambda s: s["queue"]["waiting"] == 3)
        router.terminate()
        assert await idle.read() == b""  # idle connections close at once
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", router.port)
        gate.set()
        answers = await asyncio.gather(*tasks)
        assert [(a.clean, a.status, a.body.count(b"\n")) for a in answers] == [(True, 200, 2)] * 5
        assert await router.ended() == 0


async def test_after_the_grace_streams_end_with_an_error_line(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with (
        process.before(tmp_path, wire.pausing(gate), spec={"numParallel": 1}, drain_seconds="0.3") as (router, backend),
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
    gate.set()


async def test_second_signal_ends_the_patience(tmp_path: Path) -> None:
    gate = asyncio.Event()
    async with (
        process.before(tmp_path, wire.pausing(gate)) as (router, _),
        wire.connected(router.port) as (reader, writer),
    ):
        answer = await _begun(reader, writer)
        router.terminate()
        await waiting.eventually(lambda: any(e["event"] == "draining" for e in router.events()))
        router.terminate()
        await wire.read_body(reader, answer, until_eof=True)
        assert not answer.clean
        assert await router.ended() == 0
    gate.set()
