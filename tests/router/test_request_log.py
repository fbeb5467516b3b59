"""One line per inference request, whatever became of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from router.observer import Log, Wanted, log
from router.proxy import counts
from tests import waiting
from tests.router import process, wire

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "a secret"}]}
_END = b'{"model":"m","done":true,"load_duration":2500000000,"prompt_eval_count":11,"eval_count":2}\n'
_TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_PARENT = ("traceparent", f"00-{_TRACE}-00f067aa0ba902b7-01")
_FAILED = b'{"error":"model is broken: its template"}'


async def _answer(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    said = message.json().get("options", {}).get("say")
    if said == "fail":
        writer.write(wire.plain(_FAILED, status="400 Bad Request"))
        return True
    writer.write(wire.chunked_head() + wire.chunk(b'{"message":{"content":"hi"},"done":false}\n' * 3))
    await writer.drain()
    if said == "break":
        return False
    if said == "wait":
        await reader.read()
        return False
    writer.write(wire.chunk(_END) + wire.chunk(b""))
    return True


def _chat(say: str = "", *headers: tuple[str, str]) -> bytes:
    return wire.post("/api/chat", {**_CHAT, "options": {"say": say}}, headers)


async def _lines(router: process.Router, number: int) -> list[dict[str, Any]]:
    def look() -> list[dict[str, Any]]:
        return [event for event in router.events() if event["event"] == "request"]

    found: list[dict[str, Any]] = await waiting.eventually(look, good=lambda lines: len(lines) >= number)
    return found


async def test_a_line_says_who_asked_for_what_and_how_it_went(tmp_path: Path) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], request_log="all") as router,
    ):
        headers = [_PARENT, ("X-Request-Id", "mine"), ("X-Ollama-Priority", "P1")]
        assert (await wire.ask(router.port, _chat("", *headers))).status == 200
        (line,) = await _lines(router, 1)
        assert all(line.pop(name) >= 0 for name in ("wait_ms", "first_byte_ms", "ms"))
        assert line.pop("timestamp").endswith("Z")
        assert line == {
            "event": "request",
            "level": "info",
            "id": "mine",
            "trace": _TRACE,
            "client": "127.0.0.1",
            "path": "/api/chat",
            "asked": "m",
            "model": "m:latest",
            "priority": "P1",
            "backend": "raw",
            "attempts": 1,
            "load_ms": 2500.0,
            "prompt_tokens": 11,
            "answer_tokens": 2,
            "bytes": 3 * 42 + len(_END),
            "status": 200,
            "outcome": "ok",
        }
        assert "secret" not in router.text()
        # A request without a need to wait takes the short way, a large one is run by a task.
        large = {**_CHAT, "messages": [{"role": "user", "content": "x" * 100_000}]}
        assert (await wire.ask(router.port, wire.post("/api/chat", large))).status == 200
        assert (await _lines(router, 2))[1]["outcome"] == "ok"


async def test_failures_and_refusals_are_logged_without_what_went_well(tmp_path: Path) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], request_log="errors") as router,
    ):
        assert (await wire.ask(router.port, _chat())).status == 200
        assert (await wire.ask(router.port, _chat("fail"))).status == 400
        assert not (await wire.ask(router.port, _chat("break"))).clean
        assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "unknown"}))).status == 404
        assert (await wire.ask(router.port, wire.post("/v1/embeddings", {}))).status == 400
        async with wire.connected(router.port) as (reader, writer):
            writer.write(_chat("wait"))
            await reader.readuntil(b"done")
        lines = await _lines(router, 5)
        kept = [{k: line.get(k) for k in ("outcome", "status", "reason", "backend", "level")} for line in lines]
        assert kept == [
            {"outcome": "error", "status": 400, "reason": None, "backend": "raw", "level": "warning"},
            {"outcome": "broken", "status": 200, "reason": None, "backend": "raw", "level": "warning"},
            {"outcome": "refused", "status": 404, "reason": "UnknownModel", "backend": None, "level": "warning"},
            {"outcome": "refused", "status": 400, "reason": None, "backend": None, "level": "warning"},
            {"outcome": "hangup", "status": 200, "reason": None, "backend": "raw", "level": "warning"},
        ]
        # What the backend did not state is estimated: a line is a token.
        assert (lines[1]["answer_tokens"], lines[1]["tokens_estimated"]) == (3, True)


async def test_a_request_that_waits_or_moves_is_one_line(tmp_path: Path) -> None:
    async def gone(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        return False

    async with (
        wire.backend(gone) as bad,
        wire.backend(_answer) as good,
        process.running(
            tmp_path,
            [process.spec("a-bad", bad.url, weight=100), process.spec("b-good", good.url, weight=1)],
            request_log="all",
        ) as router,
    ):
        assert (await wire.ask(router.port, _chat())).status == 200
        (line,) = await _lines(router, 1)
        assert (line["backend"], line["attempts"], line["outcome"]) == ("b-good", 2, "ok")


async def test_off_writes_nothing(tmp_path: Path) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)]) as router,
    ):
        assert (await wire.ask(router.port, _chat("fail"))).status == 400
        router.terminate()
        assert await router.ended() == 0
        assert not [event for event in router.events() if event["event"] == "request"]


def test_a_sample_is_drawn_of_what_went_well_alone() -> None:
    from datetime import UTC, datetime

    written: list[dict[str, Any]] = []
    draws = iter([0.1, 0.9, 0.24, 0.25])
    made = log(
        Wanted.SAMPLED,
        lambda line: written.append(json.loads(line)),
        rate=0.25,
        chance=lambda: next(draws),
        wall=lambda: datetime(2026, 1, 1, tzinfo=UTC),
    )
    assert isinstance(made, Log)
    for number in range(4):
        made.put({"n": number}, good=True)
    made.put({"n": 4}, good=False)
    assert [line["n"] for line in written] == [0, 2, 4]
    assert log(Wanted.OFF, written.append, rate=1, chance=float, wall=datetime.now) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("end", "prompt", "answer"),
    [
        (_END, 11, 2),
        (b'"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}', 5, 7),
        (b'data: {"usage":{"input_tokens":3,"output_tokens":4,"output_tokens_details":{}}}\n\n', 3, 4),
        (b'{"embeddings":[[1]],"prompt_eval_count":9}', 9, None),
        (b'{"response":"\\"eval_count\\":999"}', None, None),
        (b'{"done":true}', None, None),
    ],
)
def test_the_end_of_an_answer_states_its_tokens(end: bytes, prompt: int | None, answer: int | None) -> None:
    assert counts.read(end) == (prompt, answer)
