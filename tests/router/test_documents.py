"""The router's own documents: complete, consistent with each other, and cheap in labels."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from pathlib import Path

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from router import (
    announce,
    ceilings,
    dispatch,
    documents,
    explain,
    history,
    metrics,
    page,
    report,
    scheduler,
    status,
    usage,
    usagepage,
)
from router.backends import book
from tests.router import process, wire


def test_openapi_describes_every_own_path_and_no_other() -> None:
    state = report.Report(book.Book(now=lambda: 0.0), scheduler.Scheduler(), now=lambda: 0.0)
    reserving = announce.routes(
        dispatch.Dispatcher(scheduler.Scheduler(), now=float),
        ids=str,
        now=float,
        wall=datetime.now,
        patience=1,
        ceilings=lambda: ceilings.Ceilings(()),
    )
    counters = metrics.Metrics(CollectorRegistry(), now=float)
    past = history.Recorder(counters, scheduler.Scheduler(), now=float, wall=datetime.now)
    routes = {
        **documents.routes(state, CollectorRegistry()),
        **reserving,
        **page.Page(state).routes(),
        **past.routes(),
        **explain.routes(scheduler.Scheduler(), book.Book(now=float), now=float),
        **usagepage.routes(usage.Usage(wall=lambda: datetime.now(UTC)), dict),
    }
    assert documents.description()["paths"].keys() == routes.keys()


def test_openapi_s_status_is_the_status() -> None:
    properties = documents.description()["components"]["schemas"]["Status"]["properties"]
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
        router.http() as http,
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


async def test_tokens_busy_time_and_the_scheduler_s_effects_are_counted(tmp_path: Path) -> None:
    answers = {
        "/api/chat": wire.chunked_head()
        + wire.chunk(b'{"message":{"content":"eval_count"},"done":false}\n')
        + wire.chunk(b'{"done":true,"prompt_eval_count":11,"eval_count":5}\n')
        + wire.chunk(b""),
        "/v1/chat/completions": wire.plain(b'{"choices":[],"usage":{"prompt_tokens": 100, "completion_tokens": 20}}'),
        "/api/embed": wire.plain(b'{"embeddings":[[0.1]],"prompt_eval_count":3}'),
    }

    async def script(message: wire.Message, reader: object, writer: object) -> bool:
        await asyncio.sleep(0.01)  # the router's clock, the loop's, knows whole milliseconds
        writer.write(answers[message.path])  # type: ignore[attr-defined]  # a StreamWriter
        return True

    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)]) as router,
        router.http() as http,
    ):
        for path in answers:
            assert (await http.post(path, json={"model": "m"}, headers={"X-Ollama-Priority": "0"})).status_code == 200
        families = {f.name: f for f in text_string_to_metric_families((await http.get("/metrics")).text)}
        tokens = {s.labels["of"]: s.value for s in families["jervis_router_tokens"].samples}
        assert tokens == {"prompt": 114, "answer": 25}
        assert [s.value > 0 for s in families["jervis_router_backend_busy_seconds"].samples] == [True]
        circuit = {s.labels["state"]: s.value for s in families["jervis_router_circuit"].samples}
        assert circuit == {"Closed": 1, "Open": 0, "HalfOpen": 0}
        for name in ("swaps", "loads", "preemptions_moved", "preemptions_ended", "reserved_seconds", "active"):
            assert families[f"jervis_router_{name}"].samples, name


async def test_the_table_of_metrics_names_what_is_exported(tmp_path: Path) -> None:
    async def script(message: wire.Message, reader: object, writer: object) -> bool:
        return False

    async with (
        wire.backend(script) as backend,
        process.running(tmp_path, [process.spec("raw", backend.url)]) as router,
        router.http() as http,
    ):
        text = (await http.get("/metrics")).text
    families = [f.name for f in text_string_to_metric_families(text)]
    exported = {name.removeprefix("jervis_router_") for name in families if not name.endswith("_created")}
    table = (process.ROOT / "docs" / "router.md").read_text().partition("| metric (`jervis_router_...`)")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name.removesuffix("_total") for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == exported
