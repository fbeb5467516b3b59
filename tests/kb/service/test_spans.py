"""A request's spans at a collector: the route, its stages within, and the router told of them."""

from __future__ import annotations

from pathlib import Path

import httpx
import prometheus_client
import pytest

from contracts import otel_spans
from kb import metrics
from router import client as router_client
from tests.controllers.test_tracing import Collector, attributes, collector
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, world
from tests.kb.service import serving

__all__ = ["collector"]
PARENT = "00-0f9a1c2e5b7d4e219a553c2f6d8b1e00-00f067aa0ba902b7-01"
_HEADERS = {"traceparent": PARENT, "Content-Type": "application/json"}


async def test_a_request_is_a_span_with_its_stages_within(
    tmp_path: Path,
    fake: process.Fake,
    clock: clocks.Clock,
    collector: Collector,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(otel_spans, "CLOSE_SECONDS", 60.0)
    traced = otel_spans.Telemetry("jervis-kb")
    meters = metrics.Metrics(prometheus_client.CollectorRegistry(), traced)
    told: list[str | None] = []

    async def note(request: httpx.Request) -> None:
        told.append(request.headers.get("traceparent"))

    hooks = {"request": [otel_spans.pass_on, note]}
    async with httpx.AsyncClient(trust_env=False, event_hooks=hooks) as out:
        router = router_client.Client(fake.url, out)
        async with (
            world.opened(tmp_path, router, clock, meters, memory.Vectors(), memory.Content()) as made,
            serving.over(made, meters) as (_, http),
        ):
            body = world.request().model_dump_json(by_alias=True)
            answer = await http.post("/api/v1/ingest/full", content=body, headers=_HEADERS)
            assert answer.status_code == 200
            assert (await http.get("/metrics")).status_code == 200
    traced.close()
    found = collector.spans()
    assert set(found) == {"POST /api/v1/ingest/full", "kb.models", "kb.vectors", "kb.graph"}
    request = found.pop("POST /api/v1/ingest/full")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (PARENT[3:35], PARENT[36:52])
    assert attributes(request)["http.response.status_code"] == 200
    assert {span.parent_span_id for span in found.values()} == {request.span_id}
    assert {parent[3:35] for parent in told if parent} == {PARENT[3:35]}
    assert None not in told
    asked = {parent[36:52] for parent in told if parent}
    assert asked == {found["kb.models"].span_id.hex(), found["kb.vectors"].span_id.hex()}
