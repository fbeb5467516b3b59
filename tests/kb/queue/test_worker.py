"""Indexed at once, extracted later: what is searchable when, in which order, and what a crash leaves."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from crds import priority
from crds.priority import Priority
from kb import errors, identity
from kb.extract import answers
from kb.graph import model
from kb.ingest import document, pipeline, request_record, sqlite
from kb.queue import job, worker
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import memory, scopes, world
from tests.kb.vectors import contract


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world(chunk_chars=900) as made:
        yield made


async def test_findable_before_any_model_has_read_it(kb: world.ObservedState, fake: process.Fake) -> None:
    reply = await kb.intake.take(world.request(), Priority.P3)
    assert reply.queued
    assert fake.count(path="/api/chat") == 0
    [item] = (await kb.ask("login bug")).items
    assert item.provenance.chunk_id in reply.chunk_ids
    # What the text states in its own format is there too.
    edges = {(one.edge.source, one.edge.target) for one in await kb.graph.edges(scopes.SHOP)}
    assert ("jira::JERV-123", "file:userservice.kt") in edges


async def test_the_queue_brings_it_to_where_a_full_ingest_would(
    kb: world.ObservedState, tmp_path: Path, open_world: world.Opening
) -> None:
    (tmp_path / "full").mkdir()
    async with open_world(within="full", chunk_chars=900) as full:
        await full.ingest(world.request(world.LONG))
        expected = await full.state()
    await kb.intake.take(world.request(world.LONG), Priority.P3)
    assert await kb.state() != expected
    done = await kb.workers.step()
    assert done is not None
    assert await kb.state() == expected
    assert await kb.workers.step() is None
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_the_priority_reaches_every_call(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.intake.take(world.request(), Priority.P1)
    await kb.workers.step()
    assert {asked["priority"] for asked in fake.requests()} == {"1"}


async def test_what_the_models_have_read_before_needs_no_queue(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(world.request())
    expected, asked = await kb.state(), fake.count(path="/api/chat")
    reply = await kb.intake.take(world.request(), Priority.P3)
    assert (reply.queued, reply.replaced) == (False, True)
    assert await kb.state() == expected
    assert fake.count(path="/api/chat") == asked


async def test_a_full_ingest_is_never_overtaken_by_an_older_job(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.intake.take(world.request("Zdenek Veverka wrote Oldthing.java for Initech."), Priority.P3)
    found = await kb.queue.next(clock(), skip=())
    assert found is not None
    await kb.ingest(world.request())
    expected = await kb.state()
    # A worker that had taken the job before it was dropped does nothing with it.
    await kb.pipeline.perform(*found)
    assert await kb.workers.step() is None
    assert await kb.state() == expected


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_another_process_has_replaced_or_deleted_is_left_alone(
    kb: world.ObservedState, tmp_path: Path, router: router_client.Client, deleted: bool
) -> None:
    """Two writing processes share the stores and have a queue each."""
    await kb.intake.take(world.request("Zdenek Veverka wrote Oldthing.java for Initech."), Priority.P3)
    ledger = sqlite.Ledger(tmp_path / "other.sqlite", kb.clock, max_answers=10)
    await ledger.prepare()
    asked = answers.Answers(router, "qwen2.5:7b", ledger, kb.meters)
    stores = document.Stores(ledger, ledger, kb.graph, kb.vectors, kb.content)
    other = pipeline.Pipeline(stores, asked, kb.embedder, kb.meters, kb.clock, document.Limits(chunk_chars=900))
    if deleted:
        await other.forget(scopes.SHOP, world.request().source_urn)
    else:
        await other.ingest(world.request(), Priority.P3)
    expected = await kb.state()
    assert await kb.workers.step() is not None
    assert await kb.state() == expected
    assert await kb.queue.depth() == {}
    await ledger.close()


async def test_forgetting_takes_the_job_too(kb: world.ObservedState) -> None:
    await kb.intake.take(world.request(), Priority.P3)
    await kb.pipeline.forget(scopes.SHOP, world.request().source_urn)
    assert await kb.workers.step() is None
    assert (await kb.ask("login bug")).items == []


async def test_a_busy_router_postpones_and_the_answers_it_gave_are_kept(
    kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock
) -> None:
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "nth": 2, "status": {"code": 503, "retryAfter": 40}}])
    await kb.intake.take(world.request(world.LONG), Priority.P3)
    first = await kb.workers.step()
    assert first is not None
    [waits], _ = await kb.queue.listed(scopes.SHOP, limit=5)
    assert (waits.attempts, waits.not_before) == (1, clock() + timedelta(seconds=40))
    assert "503" in waits.reason
    assert await kb.workers.step() is None
    asked = fake.count(tag="kb.extract/v1")
    clock.advance(seconds=40)
    await kb.workers.step()
    assert fake.count(tag="kb.extract/v1") == asked + 1
    assert await kb.queue.depth() == {}


@asynccontextmanager
async def thinking(kb: world.ObservedState, fake: process.Fake) -> AsyncIterator[asyncio.Task[job.Job | None]]:
    """A worker whose job waits for a model; at the end the model goes on, and the worker with it."""
    gate = f"thinks-{uuid.uuid4()}"
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "nth": 2, "stall": {"afterBytes": 0, "gate": gate}}])
    await kb.intake.take(world.request(world.LONG), Priority.P3)
    working = asyncio.create_task(kb.workers.step())
    try:
        await waiting.eventually(lambda: fake.count(tag="kb.extract/v1") >= 2)
        yield working
    finally:
        await asyncio.to_thread(fake.open_gate, gate)
        fake.set_faults([])
        await working


async def test_a_newer_version_does_not_wait_for_models_that_read_the_older(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    async with thinking(kb, fake) as working:
        newer = await waiting.done(kb.intake.take(world.request(), Priority.P0))
        assert not working.done()
        assert (newer.queued, newer.replaced) == (True, True)
    while await kb.workers.step() is not None:
        pass
    state = await kb.state()
    chunks = fake.count(tag="kb.extract/v1")
    await kb.ingest(world.request())
    assert await kb.state() == state, "and nothing of the older one came after it"
    assert fake.count(tag="kb.extract/v1") == chunks


async def test_what_is_deleted_while_models_read_it_stays_deleted(kb: world.ObservedState, fake: process.Fake) -> None:
    async with thinking(kb, fake):
        assert await waiting.done(kb.pipeline.forget(scopes.SHOP, world.request().source_urn))
    assert await kb.workers.step() is None
    assert await kb.graph.counts(scopes.SHOP) == model.Counts(0, 0, 0, 0, 0)
    assert await kb.vectors.counts(scopes.SHOP) == (0, 0)
    assert await kb.ledger.count() == {}


async def test_an_erasure_waits_for_models_whose_answers_would_be_kept(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    async with thinking(kb, fake):
        assert not kb.shut.quiet(scopes.ACME)
        kb.shut.replace([scopes.ACME])
        # As the eraser does, for each document.
        await waiting.done(kb.pipeline.drop(scopes.SHOP, identity.document(scopes.SHOP, world.request().source_urn)))
    assert kb.shut.quiet(scopes.ACME)
    assert await kb.graph.counts(scopes.SHOP) == model.Counts(0, 0, 0, 0, 0)
    assert await kb.queue.depth() == {}


async def test_a_model_that_no_backend_has_postpones_the_queue_and_empties_it_of_nothing(
    kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock
) -> None:
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 404, "message": "model not found"}}])
    for number in range(3):
        await kb.intake.take(world.request(urn=f"u:{number}"), Priority.P3)
        await kb.workers.step()
    jobs, _ = await kb.queue.listed(scopes.SHOP, limit=5)
    assert [(one.source_urn, one.attempts, "qwen2.5:7b" in one.reason) for one in jobs] == [
        (f"u:{number}", 1, True) for number in range(3)
    ]
    assert kb.meters.registry.get_sample_value("jervis_kb_queue_jobs_total", {"outcome": "misconfigured"}) == 3
    assert await kb.ledger.failed(scopes.SHOP, limit=5) == []
    fake.set_faults([])
    clock.advance(seconds=301)
    for _ in range(3):
        await kb.workers.step()
    assert await kb.queue.depth() == {}
    assert (await kb.ask("login bug")).items != []


async def test_what_can_never_succeed_leaves_the_queue_and_stays_listed(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 400, "message": "too long for qwen2.5:7b"}}])
    await kb.intake.take(world.request(), Priority.P3)
    await kb.workers.step()
    assert await kb.queue.depth() == {}
    [failed] = await kb.ledger.failed(scopes.SHOP, limit=5)
    assert "qwen2.5:7b" in failed.reason
    assert await kb.ledger.failed(scopes.OTHER, limit=5) == []
    assert (await kb.ask("login bug")).items != []  # its words are there all the same


async def test_what_failed_is_kept_and_can_be_tried_again(kb: world.ObservedState, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"path": "/api/chat"}, "status": {"code": 400, "message": "context too small"}}])
    reply = await kb.intake.take(world.request(), Priority.P3)
    await kb.workers.step()
    [failed] = await kb.ledger.failed(scopes.SHOP, limit=5)
    assert (failed.document_id, failed.recorded) == (reply.id, True)
    # What its request refers to is needed still.
    assert await kb.ledger.mentions("login bug JERV-123")
    fake.set_faults([])
    assert await kb.pipeline.retry(reply.id, Priority.P3)
    assert not await kb.pipeline.retry(reply.id, Priority.P3), "it waits already"
    assert await kb.workers.step() is not None
    assert await kb.ledger.failed(scopes.SHOP, limit=5) == []
    assert (await kb.graph.counts(scopes.SHOP)).mentions > 3
    assert not await kb.ledger.mentions("login bug JERV-123")


@pytest.mark.parametrize("whole", [False, True])
async def test_a_new_version_that_cannot_be_taken_leaves_the_old_one_and_its_job(
    kb: world.ObservedState, fake: process.Fake, whole: bool
) -> None:
    await kb.intake.take(world.request(), Priority.P3)
    take = kb.ingest if whole else lambda request: kb.intake.take(request, Priority.P3)
    with pytest.raises(errors.Invalid, match="empty"):
        await take(world.request(" \n"))
    [refused] = await kb.ledger.failed(scopes.SHOP, limit=5)
    assert ("empty" in refused.reason, refused.recorded) == (True, False)
    fake.set_faults([{"match": {"path": "/api/embed"}, "status": {"code": 400, "message": "input too long"}}])
    with pytest.raises(router_client.Rejected, match="too long"):
        await take(world.request("Zdenek Veverka wrote Newthing.java for Initech."))
    fake.set_faults([])
    assert await kb.workers.step() is not None
    assert (await kb.graph.counts(scopes.SHOP)).mentions > 3
    [item] = (await kb.ask("login bug")).items
    assert "JERV-123" in item.content
    assert await kb.queue.depth() == {}


async def test_chunks_that_a_broken_off_version_left_do_not_void_the_job(kb: world.ObservedState) -> None:
    reply = await kb.intake.take(world.request(), Priority.P3)
    stray = replace(contract.chunk(scopes.SHOP, "u:x", "left behind"), document_id=reply.id)
    await kb.vectors.put(scopes.SHOP, [(stray, [0.1] * 384)], [])
    await kb.workers.step()
    assert (await kb.graph.counts(scopes.SHOP)).mentions > 3
    assert (await kb.vectors.known(scopes.SHOP, reply.id)).keys() == set(reply.chunk_ids)


async def test_a_request_of_another_version_fails_and_is_listed(kb: world.ObservedState, clock: clocks.Clock) -> None:
    await kb.queue.put("d", scopes.SHOP, "u:1", "email", job.Action.EXTRACT, Priority.P3, '{"not": "a request"}')
    await kb.ledger.open("d", scopes.SHOP, "u:1", '{"not": "a request"}', clock())
    await kb.workers.step()
    assert await kb.queue.depth() == {}
    [failed] = await kb.ledger.failed(scopes.SHOP, limit=5)
    assert "unreadable" in failed.reason


class Broken:
    """A doer with a bug."""

    async def perform(self, asked: job.Job, request: str) -> None:
        raise ZeroDivisionError


async def test_a_bug_that_one_document_meets_leaves_the_others_alone(kb: world.ObservedState) -> None:
    await kb.intake.take(world.request(), Priority.P3)
    workers = worker.Workers(kb.queue, Broken(), kb.meters, kb.clock)
    assert await workers.step() is not None
    assert await workers.step() is None
    [waits], _ = await kb.queue.listed(scopes.SHOP, limit=5)
    assert (waits.attempts, waits.not_before) == (1, kb.clock() + timedelta(seconds=300))
    assert "unexpected" in waits.reason
    kb.clock.advance(seconds=300)
    assert await kb.workers.step() is not None
    assert await kb.queue.depth() == {}


async def test_an_unreadable_document_is_refused_and_not_queued(kb: world.ObservedState) -> None:
    with pytest.raises(errors.Invalid):
        await kb.intake.take(world.request(" \n"), Priority.P3)
    assert await kb.queue.depth() == {}


async def test_a_crash_between_the_job_and_the_commit_is_finished_by_the_queue(
    open_world: world.Opening, clock: clocks.Clock, fake: process.Fake
) -> None:
    vectors = memory.Vectors()
    async with open_world(vector=vectors) as kb:
        vectors.switch.away = True
        with pytest.raises(errors.Away):
            await kb.intake.take(world.request(), Priority.P2)
        vectors.switch.away = False
    async with open_world(vector=vectors) as kb:
        # The sweeper of open intents leaves it to the queue: no hints are asked for, and nothing is done twice.
        assert await kb.recovery.sweep(before=clock() + timedelta(seconds=1)) == 0
        await kb.workers.step()
        assert fake.count(tag="kb.qualify.email/v2") == 0
        assert (await kb.ask("login bug")).items != []
        assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_a_persons_document_passes_ten_thousand_bulk_ones(kb: world.ObservedState, fake: process.Fake) -> None:
    for number in range(10_000):
        urn = f"bulk:{number}"
        text = world.request(f"Bulk number {number}.", urn=urn).model_dump_json(by_alias=True)
        await kb.queue.put(urn, scopes.SHOP, urn, "email", job.Action.EXTRACT, Priority.P3, text)
    # Bulk extractions never come back, and hold both general workers.
    fake.set_faults([{"match": {"priority": "3", "path": "/api/chat"}, "stall": {"afterBytes": 0, "gate": "bulk"}}])
    working = asyncio.create_task(kb.workers.run())

    async def only_bulk_is_left() -> bool:
        return await kb.queue.depth() == {Priority.P3: 10_000}

    await waiting.eventually(lambda: len(kb.workers.running) == 2)
    reply = await kb.intake.take(world.request(), Priority.P1)
    assert (await kb.ask("login bug")).items != []
    await waiting.eventually(only_bulk_is_left)
    found = await kb.graph.mentioned(scopes.SHOP, reply.chunk_ids)
    assert "person:petr svoboda" in {one.node_key for one in found}
    asked = [one["priority"] for one in fake.requests(path="/api/chat")]
    assert asked.count("1") == len(reply.chunk_ids)
    fake.open_gate("bulk")
    working.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await working


@pytest.mark.parametrize(
    ("attempts", "asked", "seconds"),
    [(0, None, 5), (1, None, 10), (6, None, 300), (60, 7, 300), (0, 40, 40), (0, 9999, 300)],
)
def test_waits_double_up_to_five_minutes(attempts: int, asked: float | None, seconds: float) -> None:
    assert worker.delay(attempts, asked) == seconds


def test_urgent_is_what_the_lanes_say() -> None:
    assert Priority(priority.URGENT) is Priority.P2
