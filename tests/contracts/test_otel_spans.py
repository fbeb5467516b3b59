"""Spans at the wire: what a collector gets to see, and what is called hears of the parent."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator

import httpx
import pytest

from contracts import otel_spans
from tests.controllers.test_tracing import Collector, attributes, collector

__all__ = ["collector"]
PARENT = "00-0f9a1c2e5b7d4e219a553c2f6d8b1e00-00f067aa0ba902b7-01"


def called() -> str | None:
    """The traceparent that a server would get now."""

    async def ask() -> str | None:
        def answer(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, text=request.headers.get("traceparent", ""))

        hooks = {"request": [otel_spans.pass_on]}
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks=hooks) as http:
            return (await http.get("http://x/")).text or None

    return asyncio.run(ask())


def test_spans_lie_within_each_other_and_within_the_parent_that_came_in(collector: Collector) -> None:
    traced = otel_spans.Telemetry("test")
    with traced.span("outer", {"a.number": 7}, parent=PARENT, kind="SERVER") as tell:
        tell("a.word", "x")
        outer = called()
        with traced.span("inner"):
            inner = called()
    with pytest.raises(ValueError, match="secret"), traced.span("failed", parent="00-nonsense"):
        raise ValueError("secret")
    assert called() is None
    traced.close()
    found = collector.spans()
    assert found["outer"].trace_id.hex() == found["inner"].trace_id.hex() == PARENT[3:35]
    assert found["outer"].parent_span_id.hex() == PARENT[36:52]
    assert found["inner"].parent_span_id == found["outer"].span_id
    assert (found["outer"].kind, found["inner"].kind) == (2, 1)
    assert attributes(found["failed"]) == {"error.type": "ValueError"}
    assert attributes(found["outer"]) == {"a.number": 7, "a.word": "x"}
    assert outer == f"00-{PARENT[3:35]}-{found['outer'].span_id.hex()}-01"
    assert inner == f"00-{PARENT[3:35]}-{found['inner'].span_id.hex()}-01"
    assert found["failed"].parent_span_id == b""
    assert (found["failed"].status.code, found["failed"].status.message) == (2, "ValueError")


def test_what_is_not_sampled_is_not_sent_and_says_so(collector: Collector) -> None:
    traced = otel_spans.Telemetry("test")
    with traced.span("outer", parent=PARENT[:-2] + "00"):
        parent = called()
    traced.close()
    assert collector.requests == []
    assert parent is not None
    assert (parent[3:35], parent[-2:]) == (PARENT[3:35], "00")


def test_off_passes_a_parent_on_and_imports_nothing() -> None:
    traced = otel_spans.start(False, "test")
    with traced.span("outer", parent=PARENT), traced.span("inner"):
        assert called() == PARENT
    for wrong in ("", "00-" + "0" * 32 + "-00f067aa0ba902b7-01", PARENT.upper()):
        with traced.span("outer", parent=wrong):
            assert called() is None
    traced.close()
    told = "import sys, contracts.otel_spans as s; s.start(False, 'x'); print('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_generator_that_the_loop_closes_leaves_nothing_open() -> None:
    traced = otel_spans.Off()

    async def lines() -> AsyncGenerator[int, None]:
        with traced.span("stream", parent=PARENT):
            yield 1
            yield 2

    async def abandon() -> None:
        stream = lines()
        await anext(stream)
        await asyncio.get_running_loop().create_task(stream.aclose())

    asyncio.run(abandon())
    assert otel_spans.current() == ""
