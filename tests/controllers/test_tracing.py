"""Spans at the wire: what a collector that speaks OTLP over HTTP gets to see."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire

from contracts import trace
from controllers import tracing
from crds.phases import Phase
from tests import httpserver
from tests.controllers import build

PARENT = f"00-{build.UID.replace('-', '')}-{trace.root_span(build.UID)}-01"


class Collector(httpserver.Server):
    """Keeps what is sent; `away` refuses it."""

    method = "POST"

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.away = False

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if not self.away and request.path == "/v1/traces":
            sent = wire.ExportTraceServiceRequest()
            sent.ParseFromString(body)
            self.requests.append(sent)
        return web.Response(status=400 if self.away else 200)

    def sent(self) -> list[Any]:
        """Every span, in the order of their beginnings."""
        found = [
            s for r in self.requests for group in r.resource_spans for part in group.scope_spans for s in part.spans
        ]
        return sorted(found, key=lambda span: int(span.start_time_unix_nano))

    def spans(self) -> dict[str, Any]:
        """Every span by its name, which no other has."""
        found = self.sent()
        assert len({span.name for span in found}) == len(found)
        return {span.name: span for span in found}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector().in_thread() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.setenv(name, "127.0.0.1")
        yield server


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_a_task_is_one_trace_with_a_span_for_each_stay(collector: Collector) -> None:
    tracer = tracing.Telemetry()
    asked = build.task(spec={"correlationId": "chat-1"})
    ready = build.task(Phase.READY_FOR_GPU, status={"phaseTimes": {"ReadyForGpu": "2027-03-01T11:59:00Z"}})
    runs = build.routed(Phase.ORCHESTRATING)
    tracer.moved(asked, Phase.NEW, Phase.READY_FOR_GPU, "Accepted", build.NOW - timedelta(minutes=1))
    tracer.moved(ready, Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU, "Dispatched", build.NOW)
    tracer.moved(runs, Phase.ORCHESTRATING, Phase.COMPLETED, "Completed", build.NOW)
    tracer.close()
    spans = collector.spans()
    assert set(spans) == {"New", "ReadyForGpu", "Orchestrating", "task EmailProcessing"}
    root = spans.pop("task EmailProcessing")
    assert {span.trace_id.hex() for span in [root, *spans.values()]} == {build.UID.replace("-", "")}
    assert (root.span_id.hex(), root.parent_span_id) == (trace.root_span(build.UID), b"")
    assert {span.parent_span_id for span in spans.values()} == {root.span_id}
    assert len({span.span_id for span in spans.values()}) == 3
    assert (spans["ReadyForGpu"].end_time_unix_nano - spans["ReadyForGpu"].start_time_unix_nano) == 60 * 10**9
    assert (root.end_time_unix_nano - root.start_time_unix_nano) == 3600 * 10**9
    assert attributes(spans["New"])["jervis.correlation_id"] == "chat-1"
    assert attributes(root)["jervis.phase"] == "Completed"
    named = {one.key: one.value.string_value for one in collector.requests[0].resource_spans[0].resource.attributes}
    assert named["service.name"] == "jervis-operator"


def test_a_restart_goes_on_with_the_same_trace_and_an_error_is_one(collector: Collector) -> None:
    for target in (Phase.READY_FOR_GPU, Phase.ERROR):
        tracer = tracing.Telemetry()
        source = Phase.QUALIFYING if target is Phase.READY_FOR_GPU else Phase.USER_TASK
        tracer.moved(build.task(source), source, target, "Because", build.NOW)
        tracer.close()
    spans = collector.spans()
    assert {span.trace_id.hex() for span in spans.values()} == {build.UID.replace("-", "")}
    assert spans["task EmailProcessing"].status.code == 2


def test_the_standard_sampler_leaves_tasks_out(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    tracer = tracing.Telemetry()
    assert tracer.trace_id(build.UID) == ""
    tracer.moved(build.routed(Phase.ORCHESTRATING), Phase.ORCHESTRATING, Phase.COMPLETED, "", build.NOW)
    tracer.close()
    assert collector.requests == []


def test_a_collector_that_refuses_costs_spans_and_nothing_else(collector: Collector) -> None:
    collector.away = True
    tracer = tracing.Telemetry()
    tracer.moved(build.routed(Phase.ORCHESTRATING), Phase.ORCHESTRATING, Phase.COMPLETED, "", build.NOW)
    tracer.close()
    assert collector.requests == []


async def test_calls_for_a_task_carry_its_trace() -> None:
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("traceparent"))
        return httpx.Response(200)

    hooks = {"request": [tracing.pass_on]}
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer), event_hooks=hooks) as http:
        await http.get("http://kb/")
        token = tracing.current.set(trace.parent(build.UID))
        await http.get("http://kb/")
        tracing.current.reset(token)
    assert seen == [None, PARENT]


def test_without_it_opentelemetry_is_not_imported() -> None:
    told = "import sys, controllers.tracing as t; t.Off(); print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
