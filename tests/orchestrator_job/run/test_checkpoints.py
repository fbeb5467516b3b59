"""The saver: newest epoch first, bounded, strict about what it reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from orchestrator_job import errors
from orchestrator_job.run import checkpoints
from orchestrator_job.store import fence, mongo, retry
from tests.orchestrator_job import job

pytestmark = pytest.mark.services

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CONFIG: Any = {"configurable": {"thread_id": "t1", "checkpoint_ns": ""}}


async def _saver(store: job.Store, attempt: int) -> checkpoints.Saver:
    database = mongo.Database(store.client, store.name, retry.Retry(5))
    guard = fence.Fence(database, "t1", attempt, "holder")
    await guard.claim(NOW)
    return await checkpoints.open_saver(database, guard)


def _checkpoint(**values: Any) -> Any:
    return {**empty_checkpoint(), "id": str(uuid6()), "channel_values": values}


async def test_a_fenced_process_is_refused_and_could_not_win(store: job.Store) -> None:
    older = await _saver(store, 1)
    await older.aput(CONFIG, _checkpoint(who="old"), {"step": 0}, {})
    newer = await _saver(store, 2)
    config = await newer.aput(CONFIG, _checkpoint(who="new"), {"step": 1}, {})
    with pytest.raises(errors.Fenced):
        await older.aput(CONFIG, _checkpoint(who="late"), {"step": 2}, {})
    with pytest.raises(errors.Fenced):
        await older.aput_writes(config, [("answer", "late")], "task")
    # The write that slipped in between its check and its server: a later id, a lower epoch.
    slipped = _checkpoint(who="slipped")
    store.database["orchestrator_checkpoints"].insert_one(
        {"thread_id": "t1", "checkpoint_ns": "", "checkpoint_id": slipped["id"], "epoch": 1}
    )
    older.put(CONFIG, slipped, {"step": 2}, {})
    found = await newer.aget_tuple(CONFIG)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"who": "new"}
    await newer.keep_latest("t1")
    assert [each["epoch"] for each in store.all("orchestrator_checkpoints")] == [2]


async def test_a_large_value_is_refused(store: job.Store) -> None:
    saver = await _saver(store, 1)
    with pytest.raises(errors.CheckpointRefused, match="artifacts"):
        await saver.aput(CONFIG, _checkpoint(text="x" * checkpoints.LIMIT), {"step": 0}, {})
    assert await saver.aget_tuple(CONFIG) is None


@pytest.mark.parametrize(
    "damage",
    [{"checkpoint": b"\xc1\xc1"}, {"type": "pickle"}, {"metadata": {"step": ["msgpack", b"\xc1"]}}, {"type": 7}],
)
async def test_an_unreadable_checkpoint_is_refused_with_its_remedy(store: job.Store, damage: dict[str, Any]) -> None:
    saver = await _saver(store, 1)
    await saver.aput(CONFIG, _checkpoint(who="x"), {"step": 0}, {})
    store.database["orchestrator_checkpoints"].update_one({"thread_id": "t1"}, {"$set": damage})
    with pytest.raises(errors.CheckpointRefused) as refused:
        await saver.aget_tuple(CONFIG)
    assert refused.value.remedy is not None


@pytest.mark.parametrize("name", ["orchestrator_checkpoints", "orchestrator_checkpoint_writes"])
async def test_checkpoints_do_not_expire(store: job.Store, name: str) -> None:
    """A pending approval may be decided after any time."""
    saver = await _saver(store, 1)
    config = await saver.aput(CONFIG, _checkpoint(who="waits"), {"step": 0}, {})
    await saver.aput_writes(config, [("answer", "a")], "task")
    rows = store.database[name]
    saver = await _saver(store, 2)
    indexes = rows.index_information()
    assert [one for one, about in indexes.items() if "expireAfterSeconds" in about] == []
    assert len(indexes) == 2
    found = await saver.aget_tuple(CONFIG)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"who": "waits"}
