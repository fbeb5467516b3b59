"""A version that was observed before the one that is there, and comes after it: answered, and stored nowhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crds import errors as root
from crds.priority import Priority
from kb import errors, identity, metrics, mongo
from kb.graph import model
from kb.ingest import request_record
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.writers import victim as writers

OLDER, NEWER = "Petr Svoboda wrote Oldthing.java for Globex.", "Jana Novak wrote Newthing.java for Initech."
THIRDS = "Eva Mala wrote Thirdthing.java."
URN = world.request().source_urn
DOCUMENT = identity.document(scopes.SHOP, URN)
REFUSED: Mapping[str, Any] = {"match": {"path": "/api/embed"}, "status": {"code": 400, "message": "too long"}}
each_way = pytest.mark.parametrize("way", ["/ingest", "/ingest/full"])
# The clock of the tests says the second of March, nine o'clock.
FIRST, SECOND, THIRD = (datetime(2026, 2, day, tzinfo=UTC) for day in (1, 2, 3))


async def send(kb: world.ObservedState, way: str, text: str, at: datetime | None) -> tuple[str | None, list[str]]:
    """What came in the place of the version, and its chunks."""
    request = world.request(text, observed_at=at)
    if way == "/ingest":
        index = await kb.intake.take(request, Priority.P3)
        return index.superseded_by, index.chunk_ids
    reply = await kb.ingest(request)
    return reply.superseded_by, reply.chunk_ids


async def shown(kb: world.ObservedState) -> list[str]:
    return [item.content for item in (await kb.ask("Who wrote what?")).items]


async def versions(kb: world.ObservedState) -> list[model.Version]:
    return await kb.graph.versions(scopes.SHOP, DOCUMENT)


@pytest.fixture
def broken() -> set[str]:
    """The calls of stores that meet a disk that is away."""
    return set()


@pytest.fixture(params=["files", pytest.param("mongodb", marks=pytest.mark.services)])
def records(request: pytest.FixtureRequest) -> mongo.Database | None:
    """Where the ledger and the queue lie: with each of them it is the same."""
    database: mongo.Database | None = request.getfixturevalue("database") if request.param == "mongodb" else None
    return database


@pytest.fixture
async def kb(
    open_world: world.Opening, broken: set[str], records: mongo.Database | None
) -> AsyncIterator[world.ObservedState]:

    def before(name: str) -> None:
        if name in broken:
            raise errors.Away("disk", "no answer")

    async with open_world(watched=lambda inner: writers.Watched(inner, before), database=records) as opened:
        yield opened


@each_way
async def test_an_older_one_that_failed_for_now_does_not_come_over_a_newer_one(
    kb: world.ObservedState, clock: clocks.Clock, meters: metrics.Metrics, way: str
) -> None:
    await world.broken_off(kb, send(kb, way, OLDER, FIRST))
    await send(kb, way, NEWER, SECOND)
    await kb.worked()
    before, kept = await kb.state(), await versions(kb)
    assert await send(kb, way, OLDER, FIRST) == ("Version", [])
    assert (await kb.state(), await versions(kb)) == (before, kept), "neither in the present nor in the history"
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}
    assert await kb.queue.depth() == {}
    assert meters.registry.get_sample_value("jervis_kb_ingests_total", {"outcome": "superseded"}) == 1
    clock.advance(days=1)
    assert await kb.recovery.sweep(before=clock()) == 0
    assert await shown(kb) == [NEWER]


async def test_its_task_has_its_hints(kb: world.ObservedState) -> None:
    await kb.ingest(world.request(NEWER, observed_at=SECOND))
    reply = await kb.ingest(world.request(OLDER, observed_at=FIRST))
    assert (reply.superseded_by, reply.node_keys, reply.edge_count) == ("Version", [], 0)
    assert (reply.hints.failure, reply.summary) == ("", OLDER)


@each_way
@pytest.mark.parametrize(("first", "second"), [(SECOND, SECOND), (SECOND, None), (None, FIRST), (None, None)])
async def test_without_two_different_times_the_later_request_is_newer(
    kb: world.ObservedState, way: str, first: datetime | None, second: datetime | None
) -> None:
    await send(kb, way, OLDER, first)
    assert (await send(kb, way, NEWER, second))[0] is None
    assert await shown(kb) == [NEWER]


async def test_a_version_without_a_time_is_compared_with_nothing(kb: world.ObservedState) -> None:
    for text, at in ((NEWER, SECOND), (THIRDS, None), (OLDER, FIRST)):
        assert (await send(kb, "/ingest/full", text, at))[0] is None
    assert await shown(kb) == [OLDER]


@each_way
async def test_one_that_is_open_still_is_newer_too(kb: world.ObservedState, way: str) -> None:
    await world.broken_off(kb, send(kb, way, NEWER, SECOND))
    with pytest.raises(errors.Undecided, match="newer version"):
        await send(kb, way, OLDER, FIRST)
    await tried(kb, way)
    assert await shown(kb) == [NEWER]
    assert await send(kb, way, OLDER, FIRST) == ("Version", [])


async def tried(kb: world.ObservedState, way: str) -> None:
    """Let the service try by itself what is open."""
    kb.clock.advance(minutes=6)
    if way == "/ingest":
        await kb.worked()
    else:
        await kb.recovery.sweep(before=kb.clock())


@each_way
async def test_it_is_stored_when_a_newer_one_that_was_open_fails_for_good(
    kb: world.ObservedState,
    clock: clocks.Clock,
    fake: process.Fake,
    meters: metrics.Metrics,
    way: str,
) -> None:
    await send(kb, way, OLDER, FIRST)
    await kb.worked()
    await world.broken_off(kb, send(kb, way, THIRDS, THIRD))
    with pytest.raises(errors.Undecided):
        await send(kb, way, NEWER, SECOND)
    assert (await send(kb, way, "Ota Pavel wrote a book.", FIRST - timedelta(days=1)))[0] == "Version"
    assert await kb.ledger.count() == {request_record.State.OPEN: 1}, "the newest one stays open"
    fake.set_faults([REFUSED])
    await tried(kb, way)
    fake.set_faults([])
    assert await kb.ledger.count() == {request_record.State.FAILED: 1}
    assert (await send(kb, way, NEWER, SECOND))[0] is None
    await kb.worked()
    assert await shown(kb) == [NEWER]


@each_way
async def test_one_that_does_not_end_keeps_no_other_out_for_ever(kb: world.ObservedState, way: str) -> None:
    vectors: Any = kb.vectors

    async def is_undecided() -> bool:
        vectors.switch.away = False
        try:
            await send(kb, way, OLDER, FIRST)
        except errors.Undecided:
            return True
        return False

    tries = 0
    await world.broken_off(kb, send(kb, way, NEWER, SECOND))
    while await is_undecided():
        vectors.switch.away = True
        await tried(kb, way)
        tries += 1
        assert tries < 20
    assert tries == 9
    assert await shown(kb) == [OLDER]
    # Its caller, who knows of no success, repeats it.
    assert (await send(kb, way, NEWER, SECOND))[0] is None
    assert await shown(kb) == [NEWER]


@each_way
async def test_nor_does_one_that_is_not_tried(kb: world.ObservedState, way: str) -> None:
    await world.broken_off(kb, send(kb, way, NEWER, SECOND))
    kb.clock.advance(minutes=59)
    with pytest.raises(errors.Undecided):
        await send(kb, way, OLDER, FIRST)
    kb.clock.advance(minutes=2)
    assert (await send(kb, way, OLDER, FIRST))[0] is None


async def test_one_that_models_read_is_waited_for_however_long(kb: world.ObservedState, fake: process.Fake) -> None:
    async with world.stalled(fake, send(kb, "/ingest/full", NEWER, SECOND), tag="kb.qualify.email/v2") as calling:
        kb.clock.advance(days=1)
        for way in ("/ingest", "/ingest/full"):
            with pytest.raises(errors.Undecided):
                await send(kb, way, OLDER, FIRST)
    assert (await calling)[0] is None
    assert await shown(kb) == [NEWER]


async def test_a_job_that_breaks_off_while_it_fails_leaves_the_time_of_its_request(
    kb: world.ObservedState, broken: set[str], clock: clocks.Clock, fake: process.Fake
) -> None:
    far, arrived = datetime(2999, 1, 1, tzinfo=UTC), clock()
    await send(kb, "/ingest", NEWER, far)
    fake.set_faults([{"match": {"tag": "kb.extract/v1"}, "status": {"code": 400, "message": "too long"}}])
    broken.add("fail")
    await kb.worked()
    broken.clear()
    fake.set_faults([])
    assert await kb.ledger.count() == {request_record.State.OPEN: 1}
    clock.advance(hours=1)
    assert await kb.recovery.sweep(before=clock()) == 1
    assert (await send(kb, "/ingest/full", OLDER, arrived - timedelta(minutes=1)))[0] == "Version"
    assert (await send(kb, "/ingest/full", THIRDS, arrived + timedelta(minutes=1)))[0] is None


@each_way
async def test_a_time_in_the_future_counts_as_that_of_the_arrival(kb: world.ObservedState, way: str) -> None:
    far = datetime(2999, 1, 1, tzinfo=UTC)
    await send(kb, way, OLDER, far)
    arrived = kb.clock()
    kb.clock.advance(hours=1)
    assert await send(kb, way, THIRDS, arrived - timedelta(minutes=1)) == ("Version", [])
    assert (await send(kb, way, NEWER, arrived + timedelta(minutes=1)))[0] is None
    # The document is dated as it says all the same.
    assert (await send(kb, way, NEWER, far))[0] is None
    assert (await versions(kb))[0].document.observed_ms == int(far.timestamp()) * 1000


async def test_an_attempt_that_is_repeated_arrived_with_the_first(kb: world.ObservedState) -> None:
    far, arrived = datetime(2999, 1, 1, tzinfo=UTC), kb.clock()
    for _ in range(2):
        await world.broken_off(kb, send(kb, "/ingest/full", OLDER, far))
        kb.clock.advance(hours=1)
    assert await kb.recovery.sweep(before=kb.clock()) == 1
    assert (await send(kb, "/ingest/full", NEWER, arrived + timedelta(minutes=1)))[0] is None


@pytest.mark.parametrize("deed", ["deletion", "erasure"])
async def test_after_a_deletion_or_an_erasure_nothing_is_compared(kb: world.ObservedState, deed: str) -> None:
    await kb.ingest(world.request(NEWER, observed_at=SECOND))
    if deed == "deletion":
        assert await kb.pipeline.forget(scopes.SHOP, URN)
    else:
        # As the eraser does.
        await kb.pipeline.drop(scopes.SHOP, DOCUMENT)
        await kb.ledger.erase(scopes.SHOP)
    assert (await send(kb, "/ingest/full", OLDER, FIRST))[0] is None
    assert await shown(kb) == [OLDER]


async def test_one_that_failed_for_good_is_no_newer_version_and_what_is_shown_is(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    await kb.ingest(world.request(OLDER, observed_at=SECOND))
    fake.set_faults([REFUSED])
    with pytest.raises(root.Permanent):
        await kb.ingest(world.request(THIRDS, observed_at=THIRD))
    fake.set_faults([])
    assert (await send(kb, "/ingest/full", "Ota Pavel wrote a book.", FIRST))[0] == "Version"
    assert (await kb.ledger.count())[request_record.State.FAILED] == 1
    assert (await send(kb, "/ingest/full", NEWER, SECOND + timedelta(hours=1)))[0] is None
    assert await shown(kb) == [NEWER]


async def test_while_the_model_is_away_it_may_be_repeated(kb: world.ObservedState, fake: process.Fake) -> None:
    await kb.ingest(world.request(NEWER, observed_at=SECOND))
    fake.set_faults([{"match": {"tag": "kb.qualify.email/v2"}, "status": {"code": 503}}])
    with pytest.raises(root.Operational):
        await send(kb, "/ingest/full", OLDER, FIRST)
    assert await kb.ledger.count() == {request_record.State.FINISHED: 1}, "nothing is left for recovery"
    fake.set_faults([{"match": {"tag": "kb.qualify.email/v2"}, "status": {"code": 400, "message": "too long"}}])
    reply = await kb.ingest(world.request(OLDER, observed_at=FIRST))
    assert (reply.superseded_by, bool(reply.hints.failure)) == ("Version", True)


async def test_nothing_about_a_scope_that_is_being_erased_is_answered(
    kb: world.ObservedState, fake: process.Fake
) -> None:
    await kb.ingest(world.request(NEWER, observed_at=SECOND))
    async with world.stalled(fake, send(kb, "/ingest/full", OLDER, FIRST), tag="kb.qualify.email/v2") as calling:
        kb.shut.replace([scopes.ACME])
        assert not kb.shut.quiet(scopes.ACME), "an erasure does not end before the answer is kept"
    with pytest.raises(errors.Erasing):
        await calling
    assert kb.shut.quiet(scopes.ACME)
