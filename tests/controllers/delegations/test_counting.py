"""Each delegation is counted once, whatever process dies between which two writes."""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import prometheus_client
import pytest

from clients import mongo
from controllers import metrics
from controllers.delegations import reconcile, store
from crds import errors
from tests.controllers.delegations.test_totals import ended

pytestmark = pytest.mark.services


@pytest.fixture
async def database() -> AsyncIterator[Any]:
    client = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    name = f"test_delegations_{uuid.uuid4().hex[:12]}"
    try:
        yield client[name]
    finally:
        await client.drop_database(name)
        client.close()


RELEASE = "jervis/jervis-operator"


class Process:
    """A leader that dies before its write number `dies`; 0: it lives."""

    def __init__(self, database: Any, dies: int = 0, release: str = RELEASE) -> None:
        self.writes = 0
        self._dies = dies
        self.registry = prometheus_client.CollectorRegistry()
        self.store = store.Store(database, fence=self._fence, release=release)
        self.counting = reconcile.Counting(self.store, measured=metrics.Metrics(self.registry))

    def exported(self, agent: str = "Research") -> float | None:
        labels = {"agent": agent, "outcome": "completed"}
        return self.registry.get_sample_value("jervis_operator_delegations_total", labels)

    def _fence(self) -> None:
        self.writes += 1
        if self.writes == self._dies:
            raise errors.Operational("it does not lead any more")


async def written(database: Any, numbers: range, agent: str = "Research", release: str = RELEASE) -> None:
    documents = [{"_id": f"u/r1.d{number}", "release": release, **ended(agent)} for number in numbers]
    await database["delegation_metrics"].insert_many(documents)


async def test_a_new_leader_goes_on_where_the_last_one_was(database: Any) -> None:
    await written(database, range(3))
    first = Process(database)
    assert first.exported() is None
    assert [await first.counting.count_ended(), await first.counting.count_ended()] == [3, 0]
    await written(database, range(3, 5))
    assert await first.counting.count_ended() == 2
    second = Process(database)
    assert await second.counting.count_ended() == 0
    assert first.exported() == second.exported() == 5


async def test_each_release_on_one_database_counts_its_own(database: Any) -> None:
    await written(database, range(3))
    await written(database, range(3, 8), release="other/jervis-operator")
    await database["delegation_metrics"].insert_one({"_id": "u/r1.d9", **ended()})
    first, second = Process(database), Process(database, release="other/jervis-operator")
    assert [
        await first.counting.count_ended(),
        await second.counting.count_ended(),
        await first.counting.count_ended(),
    ] == [3, 5, 0]
    assert (first.exported(), second.exported()) == (3, 5)
    numbers = {each["_id"]: each["batch"] async for each in database["delegation_totals"].find()}
    assert numbers == {RELEASE: 1, "other/jervis-operator": 1}
    [left] = [each["_id"] async for each in database["delegation_metrics"].find({"counted": {"$exists": False}})]
    assert left == "u/r1.d9", "of a run that no operator started"


async def test_more_than_one_batch(database: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "AT_ONCE", 2)
    await written(database, range(5))
    one = Process(database)
    assert await one.counting.count_ended() == 5
    assert one.exported() == 5
    assert (await one.store.stored()).number == 3


@pytest.mark.parametrize("dies", range(1, 6))
async def test_a_leader_that_dies_before_any_write(database: Any, monkeypatch: pytest.MonkeyPatch, dies: int) -> None:
    """Two batches are five writes: their totals, their marks, and the marks of the batch before."""
    monkeypatch.setattr(store, "AT_ONCE", 2)
    await written(database, range(2))
    await Process(database).counting.count_ended()
    await written(database, range(2, 5))
    first = Process(database, dies)
    with pytest.raises(errors.Operational):
        await first.counting.count_ended()
    second = Process(database)
    await second.counting.count_ended()
    assert second.exported() == 5
    assert await database["delegation_metrics"].count_documents({"counted": True}) == 5


async def _meanwhile(database: Any, act: Callable[[Process], Any]) -> Process:
    """An old leader has read what is there; `act` is what the next one does; then the old one writes."""
    old, new = Process(database), Process(database)
    batch, found = await old.store.stored(), await old.store.uncounted()
    for one in found:
        batch.totals.add(one)
    await act(new)
    late = store.Batch(batch.number + 1, [str(one["_id"]) for one in found], batch.totals)
    assert not await old.store.replace(batch.number, late)
    await new.counting.count_ended()
    return new


@pytest.mark.parametrize("begun", [False, True])
async def test_a_leader_that_is_late_counts_nothing(database: Any, begun: bool) -> None:
    if begun:
        await written(database, range(1), "Coding")
        await Process(database).counting.count_ended()
    await written(database, range(10, 14))
    new = await _meanwhile(database, lambda process: process.counting.count_ended())
    assert new.exported() == 4


async def test_a_delegation_that_is_recorded_again_counts_once(database: Any) -> None:
    await written(database, range(1))
    one = Process(database)
    await one.counting.count_ended()
    again = {"$set": ended(confidence=0.1)}
    await database["delegation_metrics"].update_one({"_id": "u/r1.d0"}, again, upsert=True)
    assert await one.counting.count_ended() == 0
    assert one.exported() == 1


async def test_totals_outlive_what_they_were_made_from_and_have_no_word_of_it(database: Any) -> None:
    await written(database, range(4))
    one = Process(database)
    await one.counting.count_ended()
    await database["delegation_metrics"].delete_many({})
    assert await one.counting.count_ended() == 0
    assert one.exported() == 4
    [document] = [each async for each in database["delegation_totals"].find()]
    assert set(document) == {"_id", "batch", "ids", "series"}
    assert {each["agent"] for each in document["series"]} == {"Research"}
