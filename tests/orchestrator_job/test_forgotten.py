"""What is kept of a deleted task is removed while its run still works: the run stops and leaves nothing behind."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from crds import leftovers
from orchestrator_job import artifacts, errors, fence, mongo, patience
from tests.fakes.ollama import process
from tests.orchestrator_job import job, mongowire

pytestmark = pytest.mark.services

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def remove(store: job.Store, uid: str) -> None:
    """As the operator does it, and the knowledge base when a scope is erased."""
    for collection, field in leftovers.OF_RUNS.items():
        store.database[collection].delete_many({field: uid})


def left(store: job.Store, uid: str) -> dict[str, int]:
    counts = {name: len(store.all(name, **{field: uid})) for name, field in leftovers.OF_RUNS.items()}
    return {name: count for name, count in counts.items() if count}


@pytest.mark.parametrize(
    ("collection", "number"),
    [
        ("orchestrator_checkpoints", 1),
        ("orchestrator_checkpoints", 4),
        ("orchestrator_checkpoint_writes", 2),
        ("orchestrator_artifacts", 1),
        ("orchestrator_artifacts", 2),
        ("orchestrator_ledger", 1),
        ("orchestrator_ledger", 2),
        ("task_results", 1),
        ("orchestrator_ledger", 4),
    ],
)
async def test_a_run_whose_task_is_removed_at_any_write_leaves_nothing(
    task: job.Job, store: job.Store, mongodb_uri: str, fake: process.Fake, collection: str, number: int
) -> None:
    """The removal comes between the run's own look at its fence and the write, which is on its way already."""
    fake.set_script({job.TAG: [job.reply()]})
    removals: list[str] = []
    async with mongowire.proxying(mongodb_uri) as proxy:

        def before(written: str, count: int) -> bool:
            if (written, count) == (collection, number):
                remove(store, task.uid)
                removals.append(written)
            return False

        proxy.before = before
        ended = await task.run(JERVIS_MONGODB_URI=proxy.url)
    assert removals == [collection]
    assert left(store, task.uid) == {}
    assert (ended.status, ended.message["exitReason"]) == (1, "Fenced")


async def test_an_artifact_that_was_removed_with_its_task_is_no_damaged_checkpoint(
    task: job.Job, store: job.Store
) -> None:
    """The node after a write reads while the write's own check of the fence is still on its way."""
    database = mongo.Database(store.client, store.name, patience.Patience(5))
    guard = fence.Fence(database, task.uid, 1, "this one")
    await guard.claim(NOW)
    kept = artifacts.Artifacts(database, guard, lambda: NOW)
    key = await kept.put({"a": 1}, 1)
    store.database["orchestrator_artifacts"].delete_many({"taskUid": task.uid})
    with pytest.raises(errors.CheckpointRefused, match="missing"):
        await kept.get(key)
    remove(store, task.uid)
    with pytest.raises(errors.Forgotten):
        await kept.get(key)


async def test_a_run_that_starts_after_the_removal_leaves_no_fence(task: job.Job, store: job.Store) -> None:
    remove(store, task.uid)
    ended = await task.run()
    assert (ended.message["exitReason"], ended.message["field"]) == ("InvalidInput", "JERVIS_TASK_UID")
    assert left(store, task.uid) == {}


async def test_a_fence_that_others_drew_before_stays(task: job.Job, store: job.Store) -> None:
    """Its epoch would begin anew, and a process that was frozen could take the new one's for its own."""
    database = mongo.Database(store.client, store.name, patience.Patience(5))
    older = fence.Fence(database, task.uid, 1, "older")
    await older.claim(NOW)
    store.database["task_memory"].delete_one({"_id": task.uid})
    ended = await task.run()
    assert ended.message["exitReason"] == "InvalidInput"
    assert left(store, task.uid) == {"orchestrator_fences": 1}
    with pytest.raises(errors.Fenced):
        await older.check()


async def test_a_write_whose_caller_is_cancelled_undoes_itself(task: job.Job, store: job.Store) -> None:
    """What notices the removal first ends the run, and with it nodes that are in the middle of a write."""
    database = mongo.Database(store.client, store.name, patience.Patience(5))
    guard = fence.Fence(database, task.uid, 1, "me")
    await guard.claim(NOW)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        # The driver's thread goes on, whatever becomes of who waits for it.
        await asyncio.shield(asyncio.ensure_future(driver()))

    async def driver() -> None:
        begun.set()
        await go_on.wait()
        await database.update("orchestrator_artifacts", {"_id": "a"}, {"$set": {"taskUid": task.uid}}, upsert=True)

    caller = asyncio.ensure_future(guard.keep(write, lambda: database.delete("orchestrator_artifacts", {"_id": "a"})))
    await begun.wait()
    remove(store, task.uid)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    await guard.written()
    assert left(store, task.uid) == {}
