"""The document's turn is free while models read a request: what comes meanwhile does not wait for them, and the older
request is answered with its hints and stored nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from crds import errors as root
from crds.priority import Priority
from kb import api, client, errors, identity, metrics
from kb.graph import model
from kb.ingest import request_record
from router import client as router_client
from tests import waiting
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.aliases import memory as aliases
from tests.kb.ingest import victim
from tests.kb.service import serving

OLDER = world.request(world.LONG)
NEWER = world.request("Jana Novak wrote Newthing.java for Initech.")
DOCUMENT = identity.document(scopes.SHOP, OLDER.source_urn)
REFUSED: Mapping[str, Any] = {"code": 400, "message": "too long for the model"}
EndsLike = Callable[[api.IngestRequest], Awaitable[bool]]


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    # One passage after the other: those behind the one that is held are asked about at the end.
    async with open_world(aliases=aliases.Registry(clock), chunk_chars=900, parallel=1) as opened:
        yield opened


@asynccontextmanager
async def reading(
    fake: process.Fake,
    ask: Coroutine[Any, Any, Any],
    *,
    then: Mapping[str, Any] | None = None,
    faults: tuple[Mapping[str, Any], ...] = (),
) -> AsyncIterator[asyncio.Task[Any]]:
    """A call that waits for its second extraction; at the end the model goes on, or refuses as `then` says.

    `faults` are those of the calls that are made meanwhile.
    """
    async with world.stalled(fake, ask, nth=2, tag="kb.extract/v1") as calling:
        fake.set_faults(faults)
        yield calling
        fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": then}] if then else [])


@pytest.fixture
def ends_like(kb: world.ObservedState, open_world: world.Opening, clock: clocks.Clock) -> EndsLike:
    """Whether all is, when the jobs are done, as if this request alone had been made."""

    async def compare(request: api.IngestRequest) -> bool:
        await kb.worked()
        async with open_world(aliases=aliases.Registry(clock), within="alone", chunk_chars=900) as alone:
            await alone.ingest(request)
            return await kb.state() == await alone.state()

    return compare


async def superseded(older: asyncio.Task[api.IngestReply], by: api.Superseded) -> bool:
    """Whether the answer says what came in the place of the request, and what models said of this one, and no more."""
    reply = await older
    assert (reply.chunk_ids, reply.node_keys, reply.edge_count, reply.problems) == ([], [], 0, [])
    assert (reply.hints.failure, reply.hints.has_actionable_content) == ("", False)
    assert reply.summary.startswith("Petr Svoboda wrote module0.py")
    return reply.superseded_by == by


async def nothing(kb: world.ObservedState) -> bool:
    counts = await kb.graph.counts(scopes.SHOP), await kb.vectors.counts(scopes.SHOP)
    return counts == (model.Counts(0, 0, 0, 0, 0), (0, 0)) and not await kb.queue.depth()


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("way", ["/ingest", "/ingest/full"])
async def test_a_newer_version_does_not_wait_and_the_older_one_is_void(
    kb: world.ObservedState, fake: process.Fake, ends_like: EndsLike, way: str, known: bool
) -> None:
    if known:
        await kb.pipeline.index(world.request(), Priority.P3)
    async with reading(fake, kb.ingest(OLDER)) as older:
        await waiting.done(kb.pipeline.index(NEWER, Priority.P0) if way == "/ingest" else kb.ingest(NEWER))
        assert not older.done()
    assert await superseded(older, "Version")
    assert await ends_like(NEWER)
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_an_older_version_that_was_read_first_changes_nothing(
    kb: world.ObservedState, fake: process.Fake, ends_like: EndsLike
) -> None:
    """The models finish with the older one while they read the newer one."""
    newest = world.request(world.LONG[:1000])
    async with reading(fake, kb.ingest(newest)) as newer:
        pass
    assert (await newer).replaced is False
    before = await kb.state()
    async with AsyncExitStack() as stack:
        async with reading(fake, kb.ingest(OLDER)) as older:
            newer = await stack.enter_async_context(world.stalled(fake, kb.ingest(NEWER), tag="kb.qualify.email/v2"))
        assert await superseded(older, "Version")
        assert not newer.done()
        assert await kb.state() == before
        [record] = await kb.ledger.pending(scopes.SHOP, limit=5)
        assert (record.attempts, record.reason) == (1, "")
    assert (await newer).replaced is True
    assert await ends_like(NEWER)


async def test_what_is_deleted_stays_deleted(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(NEWER)
    async with reading(fake, kb.ingest(OLDER)) as calling:
        assert await waiting.done(kb.pipeline.forget(scopes.SHOP, OLDER.source_urn))
    assert await superseded(calling, "Deletion")
    assert await nothing(kb)
    assert await kb.ledger.count() == {}


async def test_a_deletion_that_broke_off_is_not_undone(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(NEWER)
    async with reading(fake, kb.ingest(OLDER)) as calling:
        await world.broken_off(kb, kb.pipeline.forget(scopes.SHOP, OLDER.source_urn))
    assert await superseded(calling, "Deletion")
    assert await kb.recovery.sweep(before=kb.clock() + timedelta(seconds=1)) == 1
    assert await nothing(kb)
    assert await kb.ledger.count() == {}


async def test_an_erasure_does_not_end_before_the_answers_are_kept(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(NEWER)
    async with reading(fake, kb.ingest(OLDER)) as calling:
        assert not kb.shut.quiet(scopes.ACME)
        kb.shut.replace([scopes.ACME])
        # As the eraser does, for each document.
        await waiting.done(kb.pipeline.drop(scopes.SHOP, DOCUMENT))
        assert not kb.shut.quiet(scopes.ACME)
    with pytest.raises(errors.Erasing):
        await calling
    assert kb.shut.quiet(scopes.ACME)
    assert await nothing(kb)
    assert await kb.ledger.count() == {}


async def test_recovery_has_nothing_read_that_is_being_read(kb: world.ObservedState, fake: process.Fake) -> None:
    async with reading(fake, kb.ingest(OLDER)) as calling:
        asked = fake.count(tag="kb.extract/v1")
        kb.clock.advance(days=1)
        assert await kb.pipeline.in_work(DOCUMENT)
        assert await kb.recovery.sweep(before=kb.clock()) == 0
        assert not await kb.pipeline.resume(DOCUMENT, Priority.P3)
        assert fake.count(tag="kb.extract/v1") == asked
        assert await kb.pipeline.working([DOCUMENT]) == {DOCUMENT}
    chunks = (await calling).chunk_ids
    assert fake.count(tag="kb.extract/v1") == len(chunks)
    assert not await kb.pipeline.in_work(DOCUMENT)


@pytest.mark.parametrize("deleted", [False, True])
async def test_what_recovery_has_read_gives_way_too(
    kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock, ends_like: EndsLike, deleted: bool
) -> None:
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": {"code": 503}}])
    with pytest.raises(root.Operational):
        await kb.ingest(OLDER)
    clock.advance(seconds=1)
    async with reading(fake, kb.recovery.sweep(before=clock())) as sweep:
        await waiting.done(kb.pipeline.forget(scopes.SHOP, OLDER.source_urn) if deleted else kb.ingest(NEWER))
    assert await sweep == 0
    if deleted:
        assert await nothing(kb)
    else:
        assert await ends_like(NEWER)


async def test_the_same_request_waits_for_its_answers_and_both_succeed(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    async with reading(fake, kb.ingest(OLDER)) as first:
        second = asyncio.create_task(kb.ingest(OLDER))

        async def again() -> bool:
            [record] = await kb.ledger.pending(scopes.SHOP, limit=5)
            return record.attempts == 2

        await waiting.eventually(again)
        asked = fake.count(tag="kb.qualify.email/v2")
    assert (await first).chunk_ids == (await second).chunk_ids
    reply = await second
    assert (asked, fake.count(tag="kb.qualify.email/v2")) == (1, 1)
    assert fake.count(tag="kb.extract/v1") == len(reply.chunk_ids)
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_a_version_that_returns_is_ended_by_the_call_that_came_last(
    kb: world.ObservedState, fake: process.Fake, clock: clocks.Clock
) -> None:
    async with AsyncExitStack() as stack:
        async with reading(fake, kb.ingest(OLDER)) as first:
            clock.advance(seconds=1)
            await kb.ingest(NEWER)
            clock.advance(seconds=1)
            urgent = kb.pipeline.ingest(OLDER, Priority.P0)
            again = await stack.enter_async_context(world.stalled(fake, urgent, tag="kb.extract/v1", priority="0"))
        # What it says is the latest again; the record is the other call's.
        assert len((await first).chunk_ids) == 6
        assert await kb.ledger.count() == {request_record.State.OPEN: 1}
    assert (await again).chunk_ids == (await first).chunk_ids
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


@pytest.mark.parametrize("permanent", [False, True])
async def test_a_failure_is_recorded_for_the_request_that_is_open(
    kb: world.ObservedState, fake: process.Fake, permanent: bool
) -> None:
    then = REFUSED if permanent else {"code": 503}
    async with reading(fake, kb.ingest(OLDER), then=then) as calling:
        pass
    with pytest.raises(root.Permanent if permanent else root.Operational):
        await calling
    state = request_record.State.FAILED if permanent else request_record.State.OPEN
    assert await kb.ledger.count() == {state: 1}
    found = await kb.ledger.find(DOCUMENT)
    assert found is not None
    assert found[0].reason


@pytest.mark.parametrize("permanent", [False, True])
async def test_a_failure_of_what_was_superseded_concerns_no_other_request(
    kb: world.ObservedState, fake: process.Fake, permanent: bool
) -> None:
    """Its passages are not needed for its hints."""
    then = REFUSED if permanent else {"code": 503}
    await kb.ingest(NEWER)
    async with reading(fake, kb.ingest(OLDER), then=then) as calling:
        await kb.ingest(NEWER)
        before = await kb.state()
    assert await superseded(calling, "Version")
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
    assert await kb.queue.depth() == {}
    assert await kb.state() == before


@pytest.mark.parametrize("permanent", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
async def test_without_hints_it_is_for_a_person_and_not_to_be_repeated(
    kb: world.ObservedState, fake: process.Fake, deleted: bool, permanent: bool
) -> None:
    """A repeated request would be the latest: over the newer version, or after the deletion."""
    judges = {"match": {"tag": "kb.qualify.email/v2"}, "status": REFUSED if permanent else {"code": 503}}
    judged = fake.count(tag="kb.qualify.email/v2")
    async with world.stalled(fake, kb.ingest(OLDER), also=[judges], tag="kb.extract/v1") as calling:
        await waiting.eventually(lambda: fake.count(tag="kb.qualify.email/v2") > judged)
        fake.set_faults([])
        await (kb.pipeline.forget(scopes.SHOP, OLDER.source_urn) if deleted else kb.ingest(NEWER))
    reply = await calling
    assert reply.superseded_by == ("Deletion" if deleted else "Version")
    assert (reply.summary, reply.hints.has_actionable_content, reply.chunk_ids) == ("", True, [])
    assert "could not be judged" in reply.hints.failure
    assert await kb.ledger.count() == ({} if deleted else {request_record.State.FINISHED: 1})


@pytest.mark.parametrize("way", ["/ingest", "/ingest/full"])
async def test_a_version_that_fails_after_it_replaced_another_takes_no_job_along(
    kb: world.ObservedState, fake: process.Fake, way: str
) -> None:
    """The job of the version that stays was in the memory of the one that was replaced."""
    await kb.pipeline.index(world.request(), Priority.P3)
    refused: Mapping[str, Any] = {"match": {"path": "/api/embed"}, "status": REFUSED}
    async with reading(fake, kb.ingest(OLDER), faults=(refused,)) as older:
        with pytest.raises(router_client.Rejected):
            await (kb.pipeline.index(NEWER, Priority.P3) if way == "/ingest" else kb.ingest(NEWER))
    assert await superseded(older, "Version")
    assert await kb.ledger.count() == {request_record.State.FAILED: 1}
    await kb.worked()
    found = await kb.graph.mentioned(scopes.SHOP, sorted(await kb.vectors.known(scopes.SHOP, DOCUMENT)))
    assert "person:petr svoboda" in {one.node_key for one in found}
    assert await kb.queue.depth() == {}


async def test_a_merge_that_comes_meanwhile_survives_a_version_that_fails(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    await kb.ingest(world.request("user:john|OWNS|file:Service.kt"))
    async with reading(fake, kb.ingest(OLDER), then=REFUSED) as calling:
        await kb.merger.merge(scopes.ACME, "user:john", "user:john.doe", "jana")
    with pytest.raises(root.Permanent):
        await calling
    assert len(await kb.queue.among([DOCUMENT])) == 1
    await kb.worked()
    sources = {one.edge.source for one in await kb.graph.edges(scopes.SHOP)}
    assert {one for one in sources if one.startswith("user:")} == {"user:john.doe"}


@pytest.mark.parametrize("status", [{"code": 400, "message": "input too long"}, {"code": 503}])
async def test_a_merge_that_fails_meanwhile_leaves_the_record_to_the_request(
    kb: world.ObservedState, fake: process.Fake, status: Mapping[str, Any]
) -> None:
    await kb.ingest(world.request("user:john|OWNS|file:Service.kt"))
    embeds: Mapping[str, Any] = {"match": {"path": "/api/embed"}, "status": status}
    async with reading(fake, kb.ingest(OLDER), faults=(embeds,)) as calling:
        await kb.merger.merge(scopes.ACME, "user:john", "user:john.doe", "jana")
        assert await kb.workers.step() is not None
        found = await kb.ledger.find(DOCUMENT)
        assert found is not None
        assert (found[0].state, found[0].reason) == (request_record.State.OPEN, "")
    assert (await calling).replaced is True
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_who_goes_away_leaves_the_request_to_recovery(kb: world.ObservedState, fake: process.Fake) -> None:
    async with reading(fake, kb.ingest(OLDER)) as calling:
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        assert await kb.ledger.count() == {request_record.State.OPEN: 1}
        assert not await kb.pipeline.in_work(DOCUMENT)
        assert kb.shut.quiet(scopes.ACME)
    kb.clock.advance(seconds=1)
    assert await kb.recovery.sweep(before=kb.clock()) == 1
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}


async def test_a_project_that_moves_meanwhile_takes_the_document_along(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    await kb.ingest(NEWER)
    async with reading(fake, kb.ingest(OLDER)) as calling:
        moving = asyncio.create_task(victim.reconciler(kb).regroup(victim.MOVED))

        async def moved() -> bool:
            owners = {row.owner for row in (await kb.graph.audit("acme"))[0]}
            return owners == {victim.MOVED}

        await waiting.eventually(moved)
        assert not moving.done()
    await calling
    await moving
    assert await moved()


async def test_over_http_it_is_an_answer_that_the_client_does_not_repeat(
    kb: world.ObservedState, fake: process.Fake, meters: metrics.Metrics
) -> None:
    async with serving.over(kb, meters) as (_, http):
        repeating = client.Client("", http, attempts=3)
        async with reading(fake, repeating.ingest(OLDER)) as calling:
            assert (await repeating.ingest(NEWER)).superseded_by is None
            before = await kb.state()
        assert await superseded(calling, "Version")
        text = (await http.get("/metrics")).text
    assert await kb.state() == before
    assert 'jervis_kb_requests_total{route="/api/v1/ingest/full",status="200"} 2.0' in text
    assert 'jervis_kb_ingests_total{outcome="superseded"} 1.0' in text
