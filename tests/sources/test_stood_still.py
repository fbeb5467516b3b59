"""What a process that stood still writes after its successor found something else: nothing over it."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from crds import access
from sources.core import assignments, counting, items, port
from sources.core.assignments import ITEMS
from tests.sources import test_atlassian_histories as histories
from tests.sources.stood import ANN, BOB, NOW, OWNER, Stood, item

pytestmark = pytest.mark.services

WRITES_NEW, WRITES_BACK, WRITES_READERS, WRITES_GONE = 6, 11, 11, 9
"""How many writes it makes for an item that is new, that recurs, that others may read now, that comes back after it
left: at each of them it stands still."""


@pytest.mark.parametrize("between", ["a", "ba", "bac"])
@pytest.mark.parametrize("known", ["a", "ba"])
@pytest.mark.parametrize("write", range(1, 13))
async def test_a_version_that_came_back_is_not_the_last_one_after_its_successor_found_another(
    database: Any, write: int, known: str, between: str
) -> None:
    """As the overview of a branch that is forced back and forth."""
    one = Stood(database, write)
    named = {name: item(name, recurs=True) for name in "abc"}
    await one.known(*(named[name] for name in known))
    made = list[str]()

    async def successor() -> None:
        for minute, name in enumerate(between, 11):
            await one.find(one.stored, named[name], 3, minute)
            made.extend(await one.indexed())

    if not await one.outrun(named["b"], successor):
        assert write > (WRITES_NEW if known == "a" else WRITES_BACK)
        return
    assert await one.current() == [between[-1]]
    late = await one.indexed()
    assert late in ([], [between[-1]]), "the last task is of the last version"
    assert (made + late)[-1:] in ([], [between[-1]])


@pytest.mark.parametrize("write", range(1, 13))
@pytest.mark.parametrize("known", ["a", "ba"])
async def test_a_version_that_the_successor_did_not_find_any_more_is_not_the_last_one(
    database: Any, write: int, known: str
) -> None:
    """The branch was forced to another commit and back: to the cursor nothing happened."""
    one = Stood(database, write)
    await one.known(*(item(name, recurs=True) for name in known))

    async def successor() -> None:
        pass

    if not await one.outrun(item("b", recurs=True), successor):
        assert write > (WRITES_NEW if known == "a" else WRITES_BACK)
    assert await one.current() == ["a"]
    assert await one.indexed() == []
    await one.find(one.stored, item("b", recurs=True), 4, 20)
    assert await one.current() == ["b"]
    assert await one.indexed() == ["b"]


@pytest.mark.parametrize("write", range(1, 14))
@pytest.mark.parametrize("last", [None, BOB], ids=["as before", "others"])
async def test_a_process_that_stood_still_brings_no_readers_of_before(
    database: Any, write: int, last: access.Access | None
) -> None:
    one = Stood(database, write)
    await one.known(item("a"))

    async def successor() -> None:
        await one.find(one.stored, item("a", last), 3, 11)
        await one.indexed()

    if not await one.outrun(item("a", ANN), successor):
        assert write > WRITES_READERS
        return
    assert await one.indexed() == []
    rows = [row async for row in one.rows.find({"_id": items.key("uid", "1", "a")})]
    assert [row["access"] for row in rows] == [items.mark(last)]


@pytest.mark.parametrize("write", range(1, 12))
async def test_readers_change_while_the_task_of_those_of_before_is_made(database: Any, write: int) -> None:
    one = Stood(database, write)
    await one.find(one.stored, item("a", ANN), 1, 0)
    task_made = await one.begun()
    if not await one.outrun(item("a", BOB), task_made, lost=False):
        assert write > WRITES_READERS
        await task_made()
    [row] = [row async for row in one.rows.find({"_id": items.key("uid", "1", "a")})]
    assert row["access"] == items.mark(BOB)
    assert await one.indexed() == [f"a {BOB.principals[0]}"]


@pytest.mark.parametrize("write", range(1, 13))
async def test_a_version_comes_back_while_its_task_of_before_is_made(database: Any, write: int) -> None:
    one = Stood(database, write)
    await one.find(one.stored, item("a", recurs=True), 1, 0)
    task_made = await one.begun()
    await one.find(one.stored, item("b", recurs=True), 1, 1)
    if not await one.outrun(item("a", recurs=True), task_made, lost=False):
        assert write > WRITES_BACK
        await task_made()
    assert await one.current() == ["a"]
    assert (await one.indexed())[-1] == "a"


@pytest.mark.parametrize("write", range(1, 11))
async def test_what_left_its_source_is_not_brought_back_by_a_process_that_stood_still(
    database: Any, write: int
) -> None:
    """It was shown again to that process, and to its successor it was gone again."""
    one = Stood(database, write)
    await one.known(item("a"))
    await database[ITEMS].update_many({}, {"$set": {"state": "Gone", "settled": True, "task": "task"}})

    async def successor() -> None:
        await one.left.compare("uid", 3, NOW)

    if not await one.outrun(item("a"), successor):
        assert write > WRITES_GONE
        return
    assert [(row["state"], row.get("returned")) async for row in one.rows.find({})] == [("Gone", None)]


@pytest.mark.parametrize("write", range(1, 11))
@pytest.mark.parametrize(("version", "readers"), [("b", ANN), ("a", BOB)], ids=["another version", "other readers"])
async def test_what_came_back_is_as_the_successor_found_it(
    database: Any, write: int, version: str, readers: access.Access
) -> None:
    one = Stood(database, write)
    await one.known(item("a", ANN))
    await one.leaves()
    made = list[str]()

    async def successor() -> None:
        await one.find(one.stored, item(version, readers), 3, 11)
        made.extend(await one.indexed())

    if not await one.outrun(item("a", ANN), successor):
        assert write > WRITES_GONE
        return
    await one.dropped(3)
    assert await one.current() == [version]
    made += await one.indexed()
    assert made[-1:] == [f"{version} {readers.principals[0]}"]


@pytest.mark.parametrize("write", range(1, 7))
async def test_readers_that_a_process_of_before_brought_are_seen_as_others_by_the_next_list(
    database: Any, write: int
) -> None:
    """The successor looked before that, and notes after it what it has found."""
    one = Stood(database, write)
    await one.known(item("a", BOB))

    async def successor() -> None:
        assert await one.stored.unknown("uid", [item("a", BOB)]) == []

    assert await one.outrun(item("a", ANN), successor)
    await one.stored.found("uid", [item("a", BOB)], 3)
    assert await one.indexed() == ["a user:ann"]
    await one.left.mark("uid", ["A/1"], 4)
    assert (await one.left.listed("uid", (), {"A/1": BOB})).differing == ["A/1"]
    await one.find(one.stored, item("a", BOB), 4, 60)
    assert await one.indexed() == ["a user:bob"]
    assert (await one.left.listed("uid", (), {"A/1": BOB})).differing == []


async def test_of_two_mails_with_one_name_each_has_its_new_readers(database: Any) -> None:
    one = Stood(database, 99)
    first, second = (
        dataclasses.replace(item(name, ANN), place=f"A/{name}", editable=False) for name in ("first", "second")
    )
    await one.known(first, second)
    for minute, mail in enumerate((first, second), 10):
        await one.find(one.stored, dataclasses.replace(mail, access=BOB), 2, minute)
    assert await one.indexed() == ["first user:bob", "second user:bob"]
    for mail in (first, second):
        await one.find(one.stored, dataclasses.replace(mail, access=BOB), 3, 20)
    assert await one.indexed() == []


@pytest.mark.parametrize("reads", ["batches", "fetch"])
async def test_what_a_poll_or_a_sweep_stores_after_its_claim_is_lost_is_taken_back(reads: str) -> None:
    """Another process claims the Connection just before, and finds nothing."""
    lost = list[str]()

    def overtaken(source: Any) -> Any:
        read = getattr(source, reads)

        async def reading(*given: Any) -> Any:
            async for batch in read(*given):
                if batch.items and lost == ["armed"]:
                    lost.append("lost")
                    await rows.update_one(
                        {"_id": one.uid}, {"$inc": {"fence": 1}, "$set": {"owner": "", "until": None}}
                    )
                yield batch

        setattr(source, reads, reading)
        return source

    async with histories.small("Confluence", overtaken, every=3600) as (one, server, [page, *_]):
        rows, world = one.database[assignments.CONNECTIONS], one.world
        last = {"connection": one.uid, "sourceId": {"$regex": str(page.id)}, "superseded": None}
        [before] = [row async for row in one.database[ITEMS].find(last)]
        page.title = "Edited"
        if reads == "batches":
            server.edit(page, "<p>Edited.</p>")
        else:
            server.move(page, "DEV")
        lost.append("armed")
        server.now += timedelta(hours=2)
        with pytest.raises(assignments.Lost):
            await one.round()
        [after] = [row async for row in one.database[ITEMS].find(last)]
        assert (lost, after["_id"], after["state"]) == (["armed", "lost"], before["_id"], "Indexed")
        for _ in range(2):
            await one.swept()
            await one.settle()
            world.work()
        assert world.state() == one.site.live()


@pytest.mark.parametrize("name", ["1", "issues 1"], ids=["its name", "another name at its place"])
async def test_what_could_be_read_later_is_no_failure_any_more(database: Any, name: str) -> None:
    """Before a process that stood still notes that it could not, and after that."""
    one = Stood(database, 1)
    failure = port.Failure(name, "a", "It cannot be read.", "A/1")
    failing = asyncio.create_task(one.older.add_failure("uid", OWNER, failure, NOW, 2))
    await one.halting.frozen.wait()
    await one.find(one.stored, item("a"), 3, 1)
    one.halting.thawed.set()
    await failing
    assert [row["title"] async for row in one.rows.find({"state": counting.FAILED})] == []
    await one.stored.add_failure("uid", OWNER, failure, NOW, 4)
    assert [row["title"] async for row in one.rows.find({"state": counting.FAILED})] == ["a"]
    await one.find(one.stored, item("b"), 5, 2)
    assert [row["title"] async for row in one.rows.find({"state": counting.FAILED})] == []


async def test_a_process_that_stood_still_makes_no_task_of_what_left_or_has_one(database: Any) -> None:
    stored = items.Items(database)
    for minute, name in enumerate("abcd"):
        one = dataclasses.replace(item(name), source_id=name, place=f"A/{name}")
        await stored.add("uid", OWNER, one, {"content": name}, NOW + timedelta(minutes=minute), 1)
    waiting = await stored.waiting("uid", 10, NOW)
    assert [one.title for one in waiting] == ["a", "b", "c", "d"]
    left, done, again, _ = waiting
    await database[ITEMS].update_one({"_id": left.id}, {"$set": {"state": counting.GONE}})
    await stored.indexed("uid", [(done, "task-b")])
    await database[ITEMS].update_one({"_id": again.id}, {"$set": {"nonce": "later"}})
    named = [(one, f"task-{one.title}") for one in waiting]
    assert await stored.indexing(named) == {items.key("uid", "d", "d")}
    await stored.failed(done, "refused", NOW)
    states = {row["title"]: row["state"] async for row in database[ITEMS].find({})}
    assert states == {"a": "Gone", "b": "Indexed", "c": "New", "d": "Indexing"}
    assert await stored.indexing(named[3:]) == {items.key("uid", "d", "d")}, "after a kill it is repeated"
