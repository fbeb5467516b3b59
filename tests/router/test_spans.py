"""Spans of requests, as a collector that speaks OTLP over HTTP receives them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.controllers.test_tracing import Collector, attributes, collector
from tests.fakes import openai
from tests.router import process, wire

__all__ = ["collector"]

_TRACE, _CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
_PARENT = ("traceparent", f"00-{_TRACE}-{_CALLER}-01")
_END = b'{"done":true,"prompt_eval_count":30,"eval_count":12}'


async def _answer(message: wire.Message, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(wire.plain(_END))
    return True


async def test_a_request_is_a_span_with_its_wait_and_its_backend(tmp_path: Path, collector: Collector) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], tracing="true") as router,
    ):
        headers = [_PARENT, ("X-Ollama-Priority", "1")]
        assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "m"}, headers))).status == 200
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
            answer = await wire.ask(router.port, wire.post(path, {"model": "m", "messages": []}))
            assert answer.status == (200 if provider == "openai" else 400), "no backend is chosen for /api"
            router.terminate()
            assert await router.ended() == 0
    assert attributes(collector.spans()["chat m"])["gen_ai.provider.name"] == provider


async def test_a_refusal_is_an_error_of_its_span(tmp_path: Path, collector: Collector) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], tracing="true") as router,
    ):
        assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "unknown"}))).status == 404
        router.terminate()
        assert await router.ended() == 0
    root: Any = collector.spans()["chat unknown"]
    assert (root.status.code, attributes(root)["error.type"]) == (2, "UnknownModel")


@pytest.mark.parametrize("settings", [{}, {"request_log": "all"}])
async def test_without_tracing_the_client_s_parent_passes_as_it_is(tmp_path: Path, settings: dict[str, str]) -> None:
    async with (
        wire.backend(_answer) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)], **settings) as router,
    ):
        assert (await wire.ask(router.port, wire.post("/api/chat", {"model": "m"}, [_PARENT]))).status == 200
        assert [request.header("traceparent") for request in backend.requests] == [_PARENT[1]]
