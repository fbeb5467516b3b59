"""Two writing processes over the same stores, step by step: what one does while the other is in the middle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from crds.priority import Priority
from kb import api, errors, identity, metrics, mongo
from kb.extract import answers
from kb.graph import sqlite as graph_sqlite
from kb.ingest import document, lanes, mongo_locks, pipeline, recovery, request_record
from kb.ingest import mongo as ledger
from kb.queue import mongo as queue
from kb.upkeep import check, reconcile
from kb.vectors import embedding
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world

pytestmark = pytest.mark.services
OLD, NEW = "Petr Svoboda wrote Oldthing.java for Globex.", "Jana Novak wrote Newthing.java for Initech."


@dataclass
class Process:
    """A writer as far as documents go; `reading` is its monotonic clock."""

    pipe: pipeline.Pipeline
    reconciler: reconcile.Reconciler
    recovery: recovery.Recovery
    ledger: ledger.Ledger
    queue: queue.Queue
    graph: graph_sqlite.Store
    vectors: Any
    reading: list[float]


class Slow:
    """Vectors of one process, which stops before a call that the test names until it is let on."""

    def __init__(self, inner: memory.Vectors) -> None:
        self._inner = inner
        self.before = ""
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name != self.before:
            return found

        async def call(*args: Any, **more: Any) -> Any:
            self.reached.set()
            await self.go_on.wait()
            return await found(*args, **more)

        return call


Start = Callable[[str], Process]


@pytest.fixture
async def start(
    tmp_path: Path,
    router: router_client.Client,
    clock: clocks.Clock,
    meters: metrics.Metrics,
    database: mongo.Database,
) -> AsyncIterator[Start]:
    graph, stored, content = graph_sqlite.Store(tmp_path / "graph.sqlite"), memory.Vectors(), memory.Content()
    await graph.prepare()

    def made(name: str) -> Process:
        reading, vectors = [0.0], Slow(stored)

        async def sleep(seconds: float) -> None:
            reading[0] += seconds
            await asyncio.sleep(0)

        book = ledger.Ledger(database, clock, max_answers=100)
        jobs = queue.Queue(database, name, clock, limit=100, per_client=100)
        owners = mongo_locks.Turns(database, name, clock, lambda: reading[0], sleep=sleep)
        embedder = embedding.Embedder(router, "qwen3-embedding:8b", meters)
        held: Any = vectors
        stores = document.Stores(book, book, graph, held, content, jobs, turns=owners)
        asked = answers.Answers(router, "qwen2.5:7b", book, meters)
        pipe = pipeline.Pipeline(stores, asked, embedder, meters, clock, document.Limits())
        checker = check.Checker(graph, stored, pipe.working)
        turn, working = pipe.turn, book.working
        repairs = reconcile.Reconciler(
            checker, graph, stored, content, embedder, turn, working, book, (book, jobs), meters, clock
        )
        again = recovery.Recovery(book, pipe, lanes.Lanes(meters), meters, clock, patience=timedelta(seconds=1))
        return Process(pipe, repairs, again, book, jobs, graph, vectors, reading)

    yield made
    await graph.close()


async def shown(process: Process) -> object:
    """What a viewer can see, by the vectors and by the graph."""
    return await process.vectors.counts(scopes.SHOP), await process.graph.edges(scopes.SHOP)


async def stopped(process: Process, before: str, doing: Awaitable[object]) -> asyncio.Future[object]:
    """What the process does, once it stands before that call of its vectors."""
    process.vectors.before = before
    works = asyncio.ensure_future(doing)
    await process.vectors.reached.wait()
    return works


async def reading(process: Process, text: str, fake: process.Fake) -> tuple[asyncio.Task[api.IngestReply], str]:
    """An ingest whose extraction waits in the model until the gate is opened."""
    gate = f"reads-{uuid.uuid4()}"
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "stall": {"afterBytes": 0, "gate": gate}}])
    works = asyncio.create_task(process.pipe.ingest(world.request(text), Priority.P3))
    await waiting.eventually(lambda: fake.count(tag="kb.extract/v1") == 1)
    return works, gate


async def test_a_reconciler_leaves_alone_what_another_process_is_storing(start: Start) -> None:
    a, b = start("a"), start("b")
    await b.pipe.ingest(world.request(OLD, urn="u:other"), Priority.P3)
    # Its intent is finished before the job of the queue stores its sentences, so only its turn shows it.
    indexed = await b.pipe.index(world.request(NEW), Priority.P3)
    found = await a.queue.next(clocks.Clock()() + timedelta(days=1), skip=())
    assert found is not None
    works = await stopped(a, "put", a.pipe.perform(*found))
    assert await a.ledger.working([indexed.id]) == set()
    assert await b.reconciler.sweep("acme") == (0, 0)
    a.vectors.go_on.set()
    await works
    assert await b.reconciler.sweep("acme") == (0, 0)


async def test_a_process_that_was_frozen_overwrites_nothing(start: Start) -> None:
    """It stands before a look at its turn, or just after one, while another process takes the document over."""
    b = start("b")
    await b.pipe.ingest(world.request(NEW), Priority.P3)
    right = await shown(b)
    for stop in ("known", "put"):
        await b.pipe.ingest(world.request(OLD + f" Before {stop}."), Priority.P3)
        frozen = start(f"frozen {stop}")
        works = await stopped(frozen, stop, frozen.pipe.ingest(world.request(OLD), Priority.P3))
        # It waits for the life of the frozen one on its own clock.
        await b.pipe.ingest(world.request(NEW), Priority.P3)
        assert await shown(b) == right
        frozen.reading[0] += 60
        frozen.vectors.go_on.set()
        with pytest.raises(errors.Outrun):
            await works
        found = await b.ledger.find((await b.pipe.index(world.request(NEW), Priority.P3)).id)
        assert found is not None
        assert found[0].state is request_record.State.FINISHED
        # What it still put into the vectors is not shown, and goes.
        await b.reconciler.sweep("acme")
        assert await shown(b) == right


@pytest.mark.parametrize("after", [OLD, "Eva Mala wrote Thirdthing.java for Umbrella."])
@pytest.mark.parametrize("deed", ["ingest", "forget"])
async def test_a_process_frozen_at_its_clean_up_deletes_nothing_of_its_successor(
    start: Start, deed: str, after: str
) -> None:
    """It has looked at its turn, and its deletion arrives when another process has taken the document over.

    What that one says can be what was to be deleted: the version before, or the document that was to be forgotten.
    """
    b = start("b")
    await b.pipe.ingest(world.request(OLD), Priority.P3)
    frozen = start("frozen")
    doing: Awaitable[object]
    if deed == "ingest":
        doing = frozen.pipe.ingest(world.request(NEW), Priority.P3)
    else:
        doing = frozen.pipe.forget(scopes.SHOP, world.request(OLD).source_urn)
    works = await stopped(frozen, "drop", doing)
    await b.pipe.ingest(world.request(after), Priority.P3)
    # A turn that was given back since does not make it safe: the frozen one still has what it knew.
    c = start("c")
    await c.pipe.ingest(world.request(after + " Again."), Priority.P3)
    await c.pipe.ingest(world.request(after), Priority.P3)
    right = await shown(b)
    frozen.vectors.go_on.set()
    await works
    assert await shown(b) == right
    # No text is lost; vectors of sentences, which can be made again, may be.
    assert (await b.reconciler.sweep("acme"))[1] == 0


async def test_what_a_process_left_open_does_not_come_over_what_was_stored_since(
    start: Start, clock: clocks.Clock
) -> None:
    a, b = start("a"), start("b")
    works = await stopped(a, "put", a.pipe.ingest(world.request(OLD), Priority.P3))
    works.cancel()  # it was killed
    await asyncio.gather(works, return_exceptions=True)
    await b.pipe.ingest(world.request(NEW), Priority.P3)
    right = await shown(b)
    clock.advance(days=1)
    again = start("a, started again")
    assert await again.recovery.sweep(before=clock()) == 0
    assert await shown(b) == right
    assert await b.pipe.forget(scopes.SHOP, world.request(NEW).source_urn)
    assert await again.recovery.sweep(before=clock()) == 0
    assert await b.vectors.counts(scopes.SHOP) == (0, 0)


async def test_a_recovery_that_read_an_older_request_does_the_newer_one(start: Start, clock: clocks.Clock) -> None:
    """Between its list and its turn another process has accepted and finished a newer version."""
    a, b = start("a"), start("b")
    now = clock()
    older = world.request(OLD)
    document_id = identity.document(scopes.SHOP, older.source_urn)
    await a.ledger.open(document_id, scopes.SHOP, older.source_urn, older.model_dump_json(by_alias=True), now)
    clock.advance(days=1)
    [stale] = await a.ledger.unfinished(before=clock())
    await b.pipe.ingest(world.request(NEW), Priority.P3)
    right = await shown(b)
    assert not await a.pipe.resume(stale.document_id, Priority.P3)
    assert await shown(b) == right


async def test_another_process_resumes_what_is_read_only_when_its_reader_is_gone(
    start: Start, clock: clocks.Clock, fake: process.Fake
) -> None:
    a, b = start("a"), start("b")
    works, gate = await reading(a, NEW, fake)
    clock.advance(days=1)
    # The document's turn is free, and nothing else reads its request.
    assert await b.recovery.sweep(before=clock()) == 0
    assert fake.count(tag="kb.extract/v1") == 1
    # It is frozen, as far as the other one can see.
    b.reading[0] += 120
    fake.set_faults([])
    assert await b.recovery.sweep(before=clock()) == 1
    right = await shown(b)
    a.reading[0] += 60
    await asyncio.to_thread(fake.open_gate, gate)
    # It may repeat its call: what was finished is its own request.
    with pytest.raises(errors.Outrun):
        await works
    assert await shown(b) == right


async def test_another_process_takes_a_newer_version_while_models_read(start: Start, fake: process.Fake) -> None:
    a, b = start("a"), start("b")
    works, gate = await reading(a, OLD, fake)
    fake.set_faults([])
    await b.pipe.ingest(world.request(NEW), Priority.P3)
    right = await shown(b)
    await asyncio.to_thread(fake.open_gate, gate)
    reply = await works
    assert (reply.superseded_by, reply.chunk_ids, reply.hints.failure) == ("Version", [], "")
    assert await shown(b) == right


async def test_what_was_erased_by_others_is_not_answered_when_its_reader_was_taken_for_gone(
    start: Start, fake: process.Fake
) -> None:
    """A process that lives is waited for by an erasure; this one was frozen."""
    a, b = start("a"), start("b")
    works, gate = await reading(a, OLD, fake)
    fake.set_faults([])
    await b.pipe.drop(scopes.SHOP, identity.document(scopes.SHOP, world.request(OLD).source_urn))
    a.reading[0] += 60
    await asyncio.to_thread(fake.open_gate, gate)
    with pytest.raises(errors.Outrun):
        await works
    assert await b.vectors.counts(scopes.SHOP) == (0, 0)
