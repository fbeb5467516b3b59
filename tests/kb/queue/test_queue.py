"""The queue on disk: order, limits, places, and what survives."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crds import scope
from crds.priority import Priority
from kb import errors, visibility
from kb.queue import job, sqlite
from tests.kb import clock as clocks
from tests.kb import scopes


@pytest.fixture
async def queue(tmp_path: Path, clock: clocks.Clock) -> AsyncIterator[sqlite.Queue]:
    opened = sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=40)
    await opened.prepare()
    yield opened
    await opened.close()


async def put(
    queue: sqlite.Queue,
    name: str,
    urgency: Priority = Priority.P3,
    owner: scope.Scope = scopes.SHOP,
    request: str = "{}",
    action: job.Action = job.Action.EXTRACT,
) -> job.Job:
    return await queue.put(name, owner, f"u:{name}", "email", action, urgency, request)


async def order(queue: sqlite.Queue, clock: clocks.Clock) -> list[str]:
    """Everything, as a worker would take it."""
    taken: list[str] = []
    while (found := await queue.next(clock(), skip=taken)) is not None:
        taken.append(found[0].document_id)
    return taken


async def test_priority_then_age(queue: sqlite.Queue, clock: clocks.Clock) -> None:
    for name, urgency in (("a3", Priority.P3), ("b1", Priority.P1), ("c3", Priority.P3), ("d1", Priority.P1)):
        await put(queue, name, urgency)
    assert await order(queue, clock) == ["b1", "d1", "a3", "c3"]


async def test_a_place_comes_before_every_priority(queue: sqlite.Queue, clock: clocks.Clock) -> None:
    for name in "abcd":
        await put(queue, name, Priority.P0 if name == "a" else Priority.P3)
    await queue.move(scopes.SHOP, "d", 1)
    await queue.move(scopes.SHOP, "c", 1)
    assert await order(queue, clock) == ["c", "d", "a", "b"]
    moved = await queue.move(scopes.SHOP, "c", 2)
    assert moved is not None
    assert moved.position == 2
    # d stood at 2 and is pushed back; b goes in front of both.
    await queue.move(scopes.SHOP, "b", 1)
    assert await order(queue, clock) == ["b", "c", "d", "a"]


async def test_only_who_sees_a_job_moves_it(queue: sqlite.Queue) -> None:
    await put(queue, "a")
    assert await queue.move(scopes.OTHER, "a", 1) is None
    assert await queue.move(scopes.BLOG, "a", 1) is None
    assert await queue.move(scopes.SHOP, "nothing", 1) is None


async def test_it_is_there_after_a_restart(tmp_path: Path, clock: clocks.Clock) -> None:
    first = sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=40)
    await put(first, "a", request='{"is": "kept"}')
    # No close: a process that is killed closes nothing.
    second = sqlite.Queue(tmp_path / "queue.sqlite", clock, limit=50, per_client=40)
    found = await second.find("a")
    assert found is not None
    assert found[1] == '{"is": "kept"}'
    await first.close()
    await second.close()


async def test_a_newer_request_takes_the_place_of_the_older(queue: sqlite.Queue, clock: clocks.Clock) -> None:
    old = await put(queue, "a", Priority.P2, request="old")
    await put(queue, "b", Priority.P2)
    await queue.postpone("a", old.revision, "busy", clock() + timedelta(seconds=60))
    new = await put(queue, "a", Priority.P3, request="new")
    assert (new.seq, new.urgency, new.attempts, new.not_before) == (old.seq, Priority.P2, 0, None)
    assert new.revision != old.revision
    await queue.drop("a", revision=old.revision)
    assert await order(queue, clock) == ["a", "b"]
    await queue.drop("a", revision=new.revision)
    assert await order(queue, clock) == ["b"]


async def test_mending_never_replaces_an_extraction(queue: sqlite.Queue) -> None:
    await put(queue, "a", request="everything")
    kept = await put(queue, "a", Priority.P1, action=job.Action.REWEAVE, request="")
    assert (kept.action, kept.urgency) == (job.Action.EXTRACT, Priority.P3)
    await put(queue, "b", action=job.Action.REWEAVE, request="")
    replaced = await put(queue, "b", request="everything")
    assert replaced.action is job.Action.EXTRACT


async def test_postponed_until_it_is_due(queue: sqlite.Queue, clock: clocks.Clock) -> None:
    made = await put(queue, "a")
    await queue.postpone("a", made.revision, "router is away", clock() + timedelta(seconds=5))
    assert await queue.next(clock(), skip=()) is None
    clock.advance(seconds=5)
    found = await queue.next(clock(), skip=())
    assert found is not None
    assert (found[0].attempts, found[0].reason) == (1, "router is away")


async def test_full_for_one_and_full_for_all(queue: sqlite.Queue) -> None:
    for number in range(40):
        await put(queue, f"a{number}")
    with pytest.raises(errors.Crowded, match="acme") as caught:
        await put(queue, "one more")
    assert caught.value.retry_after
    await put(queue, "a0", request="who waits already may say it anew")
    await put(queue, "mending", action=job.Action.REWEAVE)
    for number in range(9):
        await put(queue, f"b{number}", owner=scopes.OTHER)
    with pytest.raises(errors.Crowded, match="50 documents"):
        await put(queue, "last", owner=scopes.GLOBAL)
    assert await queue.depth() == {Priority.P3: 50}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(viewer=scopes.ANY, owners=st.lists(scopes.ANY, max_size=8))
async def test_nobody_sees_what_is_not_theirs(
    tmp_path_factory: pytest.TempPathFactory, viewer: scope.Scope, owners: list[scope.Scope]
) -> None:
    opened = sqlite.Queue(tmp_path_factory.mktemp("q") / "q.sqlite", clocks.Clock(), limit=50, per_client=50)
    await opened.prepare()
    for number, owner in enumerate(owners):
        await put(opened, f"d{number}", owner=owner)
    jobs, total = await opened.listed(viewer, limit=100)
    expected = [f"d{number}" for number, owner in enumerate(owners) if visibility.sees(viewer, owner)]
    assert [one.document_id for one in jobs] == expected
    assert total == len(expected)
    await opened.close()
