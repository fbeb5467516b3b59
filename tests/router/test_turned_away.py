"""A full queue, a client's share of it, a wait that took too long: told apart over HTTP, in the shape of each API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from router.proxy import refusal
from tests.router import process, wire

_OLLAMA, _OPENAI = "/api/chat", "/v1/chat/completions"


@asynccontextmanager
async def _held(directory: Path, **settings: str) -> AsyncIterator[tuple[process.Router, wire.Backend, asyncio.Event]]:
    """A router before a backend with one slot, whose answers wait for a gate."""
    gate = asyncio.Event()
    async with process.before(directory, wire.gated(gate), spec={"numParallel": 1}, **settings) as (router, backend):
        yield router, backend, gate


def _chat(path: str = _OLLAMA, token: str = "", priority: str = "2", **more: Any) -> bytes:
    who = wire.bearer(token) if token else []
    return wire.post(path, {"model": "m", **more}, [("X-Ollama-Priority", priority), *who])


async def _waiting(router: process.Router, raw: bytes, number: int) -> asyncio.Task[wire.Message]:
    task = asyncio.create_task(router.send(raw))
    await router.until(lambda s: s["queue"]["waiting"] + s["backends"][0]["inFlight"] == number)
    return task


def _heard(answer: wire.Message) -> tuple[int, str | None, str | None]:
    return answer.status, answer.header("X-Ollama-Router-Reason"), answer.header("Retry-After")


@pytest.mark.parametrize("path", [_OLLAMA, _OPENAI])
async def test_a_full_queue_is_ollamas_busy_and_the_next_that_fits_is_taken(tmp_path: Path, path: str) -> None:
    async with _held(tmp_path, max_waiting="2") as (router, backend, gate):
        taken = [await _waiting(router, _chat(path), number) for number in (1, 2, 3)]
        turned = await router.send(_chat(path))
        assert _heard(turned) == (503, "QueueFull", "5")
        said = turned.json()["error"]
        text = said if path == _OLLAMA else said["message"]
        assert text.startswith("server busy, please try again.")
        gate.set()
        assert [(await task).status for task in taken] == [200] * 3
        assert (await router.send(_chat(path))).status == 200
        assert len(backend.requests) == 4


async def test_the_queue_is_full_by_bytes_as_well(tmp_path: Path) -> None:
    async with _held(tmp_path, max_buffered_bytes="20000") as (router, _, gate):
        taken = [await _waiting(router, _chat(prompt="x" * 8_500), number) for number in (1, 2)]
        assert _heard(await router.send(_chat(prompt="x" * 15_000))) == (503, "QueueFull", "5")
        taken.append(await _waiting(router, _chat(), 3))
        gate.set()
        assert [(await task).status for task in taken] == [200] * 3


async def test_a_p0_is_read_and_served_before_the_bytes_of_background(tmp_path: Path) -> None:
    async with _held(tmp_path, max_buffered_bytes="40000") as (router, backend, gate):
        first = await _waiting(router, _chat(), 1)
        background = [await _waiting(router, _chat(prompt="x" * 9_000), number) for number in (2, 3, 4)]
        assert _heard(await router.send(_chat(prompt="x" * 9_000))) == (503, "QueueFull", "5")
        urgent = asyncio.create_task(router.send(_chat(prompt="x" * 9_000, priority="P0")))
        while not background[-1].done():
            assert "queue" in await router.status(), "what has no body is answered, however many bytes wait"
        assert _heard(await background.pop()) == (503, "QueueFull", "5")  # the youngest of them made way
        gate.set()
        assert [(await task).status for task in (first, urgent, *background)] == [200] * 4
        assert len(backend.requests) == 4


async def test_one_client_may_fill_its_share_and_others_still_wait(tmp_path: Path) -> None:
    settings = {
        "tokens_file": process.tokens(tmp_path, *({"name": name, "token": name * 20} for name in "ab")),
        "token_required": "false",
        "max_waiting_per_client": "1",
    }
    async with _held(tmp_path, **settings) as (router, _, gate):
        first, second = "a" * 20, "b" * 20
        taken = [await _waiting(router, _chat(token=first), number) for number in (1, 2)]
        assert _heard(await router.send(_chat(token=first))) == (429, "ClientQueueFull", "5")
        taken.append(await _waiting(router, _chat(token=second), 3))
        gate.set()
        assert [(await task).status for task in taken] == [200] * 3


@pytest.mark.parametrize("path", [_OLLAMA, _OPENAI])
async def test_a_wait_past_its_deadline_is_told_as_such_and_reaches_no_backend(tmp_path: Path, path: str) -> None:
    async with _held(tmp_path, deadlines="[600, 900, 0.3, 1800, 3600]") as (router, backend, gate):
        running = await _waiting(router, _chat(path), 1)
        late = await router.send(_chat(path))
        assert _heard(late) == (408, "Deadline", "30")
        assert "'m'" in str(late.json()["error"])
        gate.set()
        assert (await running).status == 200
        assert len(backend.requests) == 1


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/api/chat", b"application/x-ndjson"),
        ("/v1/chat/completions", b"text/event-stream"),
        ("/v1/messages", b"text/event-stream"),
    ],
)
def test_an_error_that_another_router_has_shown_is_recognised(path: str, content_type: bytes) -> None:
    shown = refusal.late(refusal.body("no", 503, path), content_type, b"", path)
    assert refusal.reported(shown)
    assert not refusal.reported(shown.replace(b"error", b"delta"))
