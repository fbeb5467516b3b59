"""The router's own documents: complete, consistent with each other, and cheap in labels."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from router import documents, report, scheduler, status
from router.backends import book
from tests.router import process, wire


def test_openapi_describes_every_own_path_and_no_other() -> None:
    state = report.Report(book.Book(now=lambda: 0.0), scheduler.Scheduler(), now=lambda: 0.0)
    assert documents.openapi()["paths"].keys() == documents.routes(state, CollectorRegistry()).keys()


def test_openapi_s_status_is_the_status() -> None:
    properties = documents.openapi()["components"]["schemas"]["Status"]["properties"]
    example = status.Status(backends=[], queue=status.Queue(waiting=0, by_priority={}, oldest_seconds=0))
    assert properties.keys() == example.model_dump(by_alias=True).keys()
    assert {"backends", "queue", "lastP0"} <= properties.keys()


async def test_metrics_are_readable_and_not_labelled_by_what_clients_invent(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: object, writer: object) -> bool:
        writer.write(wire.plain(b"{}"))  # type: ignore[attr-defined]  # a StreamWriter
        return True

    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)]) as router,
        httpx.AsyncClient(base_url=router.url) as http,
    ):
        for number in range(20):
            invented = {"X-Ollama-Priority": f"w{number}"}
            await http.post("/api/chat", json={"model": f"made-up-{number}"}, headers=invented)
        await http.post("/api/chat", json={"model": "M"}, headers={"X-Ollama-Priority": "0"})
        text = (await http.get("/metrics")).text
        assert "made-up" not in text
        families = {f.name: f for f in text_string_to_metric_families(text)}
        requests = {tuple(sorted(s.labels.values())): s.value for s in families["jervis_router_requests"].samples}
        assert requests == {("P0", "m:latest", "raw"): 1}
        assert [s.value for s in families["jervis_router_unknown_priority"].samples] == [20]
        histogram = families["jervis_router_first_byte_seconds"]
        assert [s.value for s in histogram.samples if s.labels.get("le") == "+Inf"] == [1]
        document = (await http.get("/router/openapi.json")).json()
        assert document["openapi"].startswith("3.1")
