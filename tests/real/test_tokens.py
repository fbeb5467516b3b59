"""The middle of real tokens: who hangs up, and who gives way, ends the answer at the server, and the next one starts.

A recording stands between router and server: it says whether an answer was written to its end there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from bench.qualify import spy
from tests.real import serving
from tests.real.conftest import MODEL
from tests.router import process

_LONG = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Count from one to five hundred, in words, one number a line."}],
    # No stop would end it before some minutes are over.
    "options": {"num_predict": 6000, "seed": 7, "temperature": 0.8, "num_ctx": 8192},
}
_SHORT = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say yes."}],
    "options": {"num_predict": 4, "num_ctx": 8192},
    "stream": False,
}
_PIECES = 5


@pytest.fixture(name="between")
async def _between(ollama: serving.Ollama) -> AsyncIterator[spy.Spy]:
    async with spy.between(ollama.url, ollama.url) as between:
        yield between


@pytest.fixture(name="router")
async def _router(tmp_path: Path, between: spy.Spy) -> AsyncIterator[process.Router]:
    """As that of all tests, before the recording."""
    specs = [process.spec("real", between.url, numParallel=1, maxInFlight=1, preemption="AfterFirstByte")]
    async with process.running(tmp_path, specs) as router:
        yield router


def _ended(between: spy.Spy) -> list[bool]:
    """Of each chat in the order in which the router was through with it: whether it was written to its end."""
    return [call.counted for call in between.chats()]


async def test_a_hang_up_in_the_middle_frees_the_gpu(
    router: process.Router, asking: httpx.AsyncClient, ollama: serving.Ollama, between: spy.Spy
) -> None:
    before = len(ollama.ended("/api/chat"))
    async with asking.stream("POST", "/api/chat", json=_LONG) as answer:
        assert answer.status_code == 200, (await answer.aread()).decode()
        lines = answer.aiter_lines()
        for _ in range(_PIECES):
            assert json.loads(await anext(lines))["done"] is False
    await router.until(lambda status: status["backends"][0]["inFlight"] == 0)
    after = await asking.post("/api/chat", json=_SHORT)
    assert (after.status_code, after.json()["done"]) == (200, True)
    assert _ended(between) == [False, True]
    # The server has one slot: it was through with the first before it began the second.
    assert len(ollama.ended("/api/chat")) == before + 2
    assert (await router.backend("real"))["circuit"] == "Closed"


async def test_an_urgent_request_takes_the_gpu_in_the_middle(
    router: process.Router, asking: httpx.AsyncClient, ollama: serving.Ollama, between: spy.Spy
) -> None:
    before, begun = len(ollama.ended("/api/chat")), asyncio.Event()

    async def victim() -> list[str]:
        pieces = []
        async with asking.stream("POST", "/api/chat", json=_LONG, headers={"X-Ollama-Priority": "3"}) as answer:
            # The router ends the connection after the error.
            with contextlib.suppress(httpx.RemoteProtocolError):
                async for line in answer.aiter_lines():
                    pieces.append(line)
                    if len(pieces) == _PIECES:
                        begun.set()
        return pieces

    running = asyncio.create_task(victim())
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert begun.is_set(), running.result()
    urgent = await asking.post("/api/chat", json=_SHORT, headers={"X-Ollama-Priority": "0"})
    assert (urgent.status_code, urgent.json()["done"]) == (200, True)
    pieces = await running
    assert "preempted" in json.loads(pieces[-1])["error"]
    assert len(pieces) > _PIECES
    assert _ended(between) == [False, True]
    await router.until(lambda status: status["backends"][0]["inFlight"] == 0)
    assert len(ollama.ended("/api/chat")) == before + 2
