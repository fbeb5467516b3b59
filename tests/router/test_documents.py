"""The router's own documents: complete, consistent with each other, cheap in labels; and the samples of its plots."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
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
from tests.router import plans, process, wire


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
    async with process.before(tmp_path, wire.answering()) as (router, _), router.http() as http:
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

    async with process.before(tmp_path, script) as (router, _), router.http() as http:
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
    async with process.before(tmp_path, wire.closing()) as (router, _), router.http() as http:
        text = (await http.get("/metrics")).text
    families = [f.name for f in text_string_to_metric_families(text)]
    exported = {name.removeprefix("jervis_router_") for name in families if not name.endswith("_created")}
    table = (process.ROOT / "docs" / "router.md").read_text().partition("| metric (`jervis_router_...`)")[2]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = {name.removesuffix("_total") for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert named == exported


# The samples behind the plots: what the counters gained, in a ring that does not grow.

_BEGIN = datetime(2026, 11, 24, tzinfo=UTC)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now

    def wall(self) -> datetime:
        return _BEGIN + timedelta(seconds=self.now)


def _made(**more: int) -> tuple[history.Recorder, metrics.Metrics, _Clock]:
    clock = _Clock()
    counters = metrics.Metrics(CollectorRegistry(), now=clock)
    return history.Recorder(counters, plans.plan(plans.gpu()), now=clock, wall=clock.wall, **more), counters, clock


def test_a_sample_is_what_happened_since_the_one_before() -> None:
    made, counters, clock = _made()
    for model, tokens in (("m", 300), ("n", 200)):
        exchange = counters.exchange("P0", model, "gpu")
        exchange.tokens += tokens
        exchange.prompt_tokens += 50
        for waited in (0.0, 0.0, 0.0, 8.0):
            exchange.began(waited, 0.1)
    clock.now = 5.0
    made.sample()
    counters.exchange("P3", "m", "gpu").began(10_000.0, 0.1)
    clock.now = 10.0
    made.sample()
    first, second = made.document().samples
    assert (first.at, first.seconds, first.tokens_per_second) == (_BEGIN + timedelta(seconds=5), 5.0, 100.0)
    assert first.prompt_tokens_per_second == 20.0
    waits = first.waits["P0"]
    assert waits.count == 8
    assert waits.p50 <= 0.001
    assert 5.0 < waits.p95 <= 10.0
    assert (second.tokens_per_second, second.waits["P3"].p95, [*second.waits]) == (0.0, 600.0, ["P3"])


def test_the_ring_is_bounded() -> None:
    made, _, clock = _made(most=3)
    for second in range(10):
        clock.now = float(second)
        made.sample()
    assert [sample.at.second for sample in made.document().samples] == [7, 8, 9]


def test_swaps_are_counted_and_a_backend_that_goes_takes_none_back() -> None:
    clock = _Clock()
    plan = plans.plan(plans.owned())
    counters = metrics.Metrics(CollectorRegistry(), now=clock)
    made = history.Recorder(counters, plan, now=clock, wall=clock.wall)
    (host,) = plan.hosts()
    assert host.residency is not None
    host.residency.swaps += 2
    made.sample()
    plan.reconfigured([], 1.0)
    made.sample()
    assert [sample.swaps for sample in made.document().samples] == [2, 0]
