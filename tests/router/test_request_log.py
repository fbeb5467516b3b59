"""One line and one span per inference request, whatever became of it; the log never waits for its reader."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from router.lines import Lines
from router.observer import Log, Wanted, log
from router.proxy import counts
from tests.controllers.test_tracing import Collector, attributes, collector
from tests.fakes import openai
from tests.router import process, wire

_CHAT = {"model": "m", "messages": [{"role": "user", "content": "a secret"}]}
_END = b'{"model":"m","done":true,"load_duration":2500000000,"prompt_eval_count":11,"eval_count":2}\n'
_TRACE, _CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_PARENT = ("traceparent", f"00-{_TRACE}-{_CALLER}-01")
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


async def test_a_line_says_who_asked_for_what_and_how_it_went(tmp_path: Path) -> None:
    async with process.before(tmp_path, _answer, request_log="all") as (router, _):
        headers = [_PARENT, ("X-Request-Id", "mine"), ("X-Ollama-Priority", "P1")]
        assert (await router.send(_chat("", *headers))).status == 200
        (line,) = await router.logged(1)
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
        assert (await router.post("/api/chat", large)).status == 200
        assert (await router.logged(2))[1]["outcome"] == "ok"


async def test_failures_and_refusals_are_logged_without_what_went_well(tmp_path: Path) -> None:
    async with process.before(tmp_path, _answer, request_log="errors") as (router, _):
        assert (await router.send(_chat())).status == 200
        assert (await router.send(_chat("fail"))).status == 400
        assert not (await router.send(_chat("break"))).clean
        assert (await router.post("/api/chat", {"model": "unknown"})).status == 404
        assert (await router.post("/v1/embeddings", {})).status == 400
        async with wire.connected(router.port) as (reader, writer):
            writer.write(_chat("wait"))
            await reader.readuntil(b"done")
        lines = await router.logged(5)
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
    async with process.before_two(
        tmp_path,
        wire.closing(),
        _answer,
        names=("a-bad", "b-good"),
        specs=({"weight": 100}, {"weight": 1}),
        request_log="all",
    ) as (router, _, _):
        assert (await router.send(_chat())).status == 200
        (line,) = await router.logged(1)
        assert (line["backend"], line["attempts"], line["outcome"]) == ("b-good", 2, "ok")


async def test_off_writes_nothing(tmp_path: Path) -> None:
    async with process.before(tmp_path, _answer) as (router, _):
        assert (await router.send(_chat("fail"))).status == 400
        router.terminate()
        assert await router.ended() == 0
        assert not [event for event in router.events() if event["event"] == "request"]


def test_a_sample_is_drawn_of_what_went_well_alone() -> None:
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


# How lines are written.


def test_lines_are_written_in_order() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as reader:
        with open(writing, "wb") as to:
            lines = Lines(to, lambda: None)
            for number in range(100):
                lines.put(b"%d\n" % number)
            lines.close(10)
        assert reader.read() == b"".join(b"%d\n" % number for number in range(100))


def test_a_pipe_that_is_not_read_costs_lines_and_no_time() -> None:
    reading, writing = os.pipe()
    dropped: list[int] = []
    lines = Lines(open(writing, "wb"), lambda: dropped.append(1), most=10)  # noqa: SIM115  its thread keeps it
    line = b"x" * 4095 + b"\n"
    for _ in range(200):
        lines.put(line)  # a pipe holds 64 KiB
    assert len(dropped) >= 100
    os.close(reading)


_PROGRAM = """
import asyncio
from router import __main__ as root, lifetime

async def main():
    async def breaks():
        raise KeyError("x")

    signals = lifetime.Signals()
    task = asyncio.create_task(breaks(), name="sweep")
    task.add_done_callback(lambda one: root._ended(one, signals))
    await signals.leaving.wait()

root.log_to_stderr("info")
asyncio.run(main())
"""


def test_a_job_that_breaks_is_logged_with_its_traceback() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=process.ROOT, stderr=subprocess.PIPE, check=True)
    (line,) = ran.stderr.splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"], event["job"]) == ("a job of the router broke", "critical", "sweep")
    assert event["exception"].startswith("Traceback (most recent call last)")
    assert "in breaks" in event["exception"]


# Spans, as a collector that speaks OTLP over HTTP receives them.

__all__ = ["collector"]

_COUNTED = b'{"done":true,"prompt_eval_count":30,"eval_count":12}'


async def test_a_request_is_a_span_with_its_wait_and_its_backend(tmp_path: Path, collector: Collector) -> None:
    async with process.before(tmp_path, wire.answering(wire.plain(_COUNTED)), tracing="true") as (router, backend):
        headers = [_PARENT, ("X-Ollama-Priority", "1")]
        assert (await router.post("/api/chat", {"model": "m"}, headers)).status == 200
        router.terminate()
        assert await router.ended() == 0
        spans = collector.spans()
        assert set(spans) == {"chat m", "queue", "backend"}
        root = spans["chat m"]
        assert {span.trace_id.hex() for span in spans.values()} == {_TRACE}
        assert root.parent_span_id.hex() == _CALLER
        assert spans["queue"].parent_span_id == spans["backend"].parent_span_id == root.span_id
        assert spans["queue"].end_time_unix_nano <= spans["backend"].start_time_unix_nano
        (passed,) = [request.header("traceparent") for request in backend.requests]
        assert passed == f"00-{_TRACE}-{spans['backend'].span_id.hex()}-01"
        found = attributes(root)
        assert found.pop("jervis.router.queue_seconds") >= 0
        assert found == {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "ollama",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 12,
            "http.response.status_code": 200,
            "jervis.router.backend": "raw",
            "jervis.router.outcome": "ok",
            "jervis.router.priority": "P1",
        }


@pytest.mark.parametrize(("path", "provider"), [("/v1/chat/completions", "openai"), ("/api/chat", "unknown")])
async def test_the_provider_is_the_engine_of_the_backend_that_was_chosen(
    tmp_path: Path, collector: Collector, path: str, provider: str
) -> None:
    async with openai.running() as vllm:
        specs = [process.spec("vllm", vllm.url, engine="OpenAI")]
        async with process.running(tmp_path, specs, tracing="true") as router:
            answer = await router.post(path, {"model": "m", "messages": []})
            assert answer.status == (200 if provider == "openai" else 400), "no backend is chosen for /api"
            router.terminate()
            assert await router.ended() == 0
    assert attributes(collector.spans()["chat m"])["gen_ai.provider.name"] == provider


async def test_a_refusal_is_an_error_of_its_span(tmp_path: Path, collector: Collector) -> None:
    async with process.before(tmp_path, wire.answering(wire.plain(_COUNTED)), tracing="true") as (router, _):
        assert (await router.post("/api/chat", {"model": "unknown"})).status == 404
        router.terminate()
        assert await router.ended() == 0
    root: Any = collector.spans()["chat unknown"]
    assert (root.status.code, attributes(root)["error.type"]) == (2, "UnknownModel")


@pytest.mark.parametrize("settings", [{}, {"request_log": "all"}])
async def test_without_tracing_the_client_s_parent_passes_as_it_is(tmp_path: Path, settings: dict[str, str]) -> None:
    async with process.before(tmp_path, wire.answering(wire.plain(_COUNTED)), **settings) as (router, backend):
        assert (await router.post("/api/chat", {"model": "m"}, [_PARENT])).status == 200
        assert [request.header("traceparent") for request in backend.requests] == [_PARENT[1]]
