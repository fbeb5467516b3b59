"""What is kept of a deleted task is removed while its run still works: the run stops and leaves nothing behind."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from contracts import mongo_collections
from orchestrator_job import errors
from orchestrator_job.store import artifacts, fence, mongo, retry
from tests.orchestrator_job import job, mongowire
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def remove(store: job.Store, uid: str) -> None:
    """As the operator does it, and the knowledge base when a scope is erased."""
    for collection, field in mongo_collections.OF_RUNS.items():
        store.database[collection].delete_many({field: uid})


def left(store: job.Store, uid: str) -> dict[str, int]:
    counts = {name: len(store.all(name, **{field: uid})) for name, field in mongo_collections.OF_RUNS.items()}
    return {name: count for name, count in counts.items() if count}


async def claimed(desk: Desk) -> tuple[mongo.Database, fence.Fence]:
    """A process of the test's own has the task."""
    database = mongo.Database(desk.store.client, desk.store.name, retry.Retry(5))
    guard = fence.Fence(database, desk.task.uid, 1, "this one")
    await guard.claim(NOW)
    return database, guard


@pytest.mark.parametrize(
    ("collection", "number"),
    [
        ("orchestrator_checkpoints", 1), ("orchestrator_checkpoints", 4), ("orchestrator_checkpoint_writes", 2),
        ("orchestrator_artifacts", 1), ("orchestrator_artifacts", 2), ("orchestrator_ledger", 1),
        ("orchestrator_ledger", 2), ("task_results", 1), ("orchestrator_ledger", 4),
    ],
)  # fmt: skip
async def test_a_run_whose_task_is_removed_at_any_write_leaves_nothing(
    desk: Desk, mongodb_uri: str, collection: str, number: int
) -> None:
    """The removal comes between the run's own look at its fence and the write, which is on its way already."""
    removals: list[str] = []
    async with mongowire.proxying(mongodb_uri) as proxy:

        def before(written: str, count: int) -> bool:
            if (written, count) == (collection, number):
                remove(desk.store, desk.task.uid)
                removals.append(written)
            return False

        proxy.before = before
        await desk.ends("Fenced", [job.reply()], JERVIS_MONGODB_URI=proxy.url)
    assert removals == [collection]
    assert left(desk.store, desk.task.uid) == {}


async def test_an_artifact_that_was_removed_with_its_task_is_no_damaged_checkpoint(desk: Desk) -> None:
    """The node after a write reads while the write's own check of the fence is still on its way."""
    database, guard = await claimed(desk)
    kept = artifacts.Artifacts(database, guard, lambda: NOW)
    key = await kept.put({"a": 1}, 1)
    desk.store.database["orchestrator_artifacts"].delete_many({"taskUid": desk.task.uid})
    with pytest.raises(errors.CheckpointRefused, match="missing"):
        await kept.get(key)
    remove(desk.store, desk.task.uid)
    with pytest.raises(errors.Forgotten):
        await kept.get(key)


async def test_a_run_that_starts_after_the_removal_leaves_no_fence(desk: Desk) -> None:
    remove(desk.store, desk.task.uid)
    ended = await desk.ends("InvalidInput")
    assert ended.message["field"] == "JERVIS_TASK_UID"
    assert left(desk.store, desk.task.uid) == {}


async def test_a_fence_that_others_drew_before_stays(desk: Desk) -> None:
    """Its epoch would begin anew, and a process that was frozen could take the new one's for its own."""
    _, older = await claimed(desk)
    desk.store.database["task_memory"].delete_one({"_id": desk.task.uid})
    await desk.ends("InvalidInput")
    assert left(desk.store, desk.task.uid) == {"orchestrator_fences": 1}
    with pytest.raises(errors.Fenced):
        await older.check()


async def test_a_write_whose_caller_is_cancelled_undoes_itself(desk: Desk) -> None:
    """What notices the removal first ends the run, and with it nodes that are in the middle of a write."""
    database, guard = await claimed(desk)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        # The driver's thread goes on, whatever becomes of who waits for it.
        await asyncio.shield(asyncio.ensure_future(driver()))

    async def driver() -> None:
        begun.set()
        await go_on.wait()
        await database.update("orchestrator_artifacts", {"_id": "a"}, {"$set": {"taskUid": desk.task.uid}}, upsert=True)

    caller = asyncio.ensure_future(guard.keep(write, lambda: database.delete("orchestrator_artifacts", {"_id": "a"})))
    await begun.wait()
    remove(desk.store, desk.task.uid)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    await guard.written()
    assert left(desk.store, desk.task.uid) == {}
