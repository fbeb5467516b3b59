"""What is older does not win: a list that is behind what was read, a process that stood still, a count after a kill."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from bench.connectors import forges
from bench.connectors.database import Database
from controllers.sources import assignments, counting, gone, items, mongo, port, sweep
from controllers.sources.assignments import ITEMS
from crds import access, connection, pendingtask, scope
from tests.sources import test_atlassian_histories as histories
from tests.sources import test_forges
from tests.sources.forge import REPOSITORY, Forge

pytestmark = pytest.mark.services
DATABASE = f"jervis_older_{os.getpid()}"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
OWNER = scope.Scope(client_id="acme")
ANN, BOB = (access.restricted([access.principal("user", name)]) for name in ("ann", "bob"))
gone_afterwards = histories.database


@pytest.fixture
async def database() -> AsyncIterator[Any]:
    client = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    yield client[DATABASE]
    await client.drop_database(DATABASE)
    client.close()


# A list that is behind


@pytest.mark.parametrize("cloud", [True, False])
async def test_a_list_that_shows_the_former_key_of_an_issue_takes_nothing_away(cloud: bool) -> None:
    """The issue moves between the list of a poll and its details, and search shows its new key minutes later."""
    async with histories.rig("Jira", 1, cloud) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        moved, *_ = [server.put() for _ in range(8)]
        await one.swept()
        world.work()
        server.touch(moved, summary="Edited")
        former = f"jira::{moved.key}"

        def meanwhile() -> None:
            if server.requests[-1].endswith("/field") and f"jira::{moved.key}" == former:
                server.late = timedelta(minutes=10)
                server.move(moved, "JERV")
                server.pending[-1] = (server.now + timedelta(minutes=10), moved.id)

        server.meanwhile, server.dice.random = meanwhile, lambda: 0.0
        for _ in range(5):
            await one.round()
            await one.settle()
            world.work()
        assert server.index[moved.id][0] == former.removeprefix("jira::"), "search is behind"
        assert f"jira::{moved.key}" in world.documents
        assert world.deleted == []
        server.meanwhile = None
        for _ in range(3):
            await one.swept()
            await one.settle()
            await one.round()
            world.work()
        assert world.state() == one.site.live()
        assert world.deleted == [former]
        assert len(world.created) == 8 + 1


async def test_a_page_that_was_edited_elsewhere_and_moved_back_has_its_new_text() -> None:
    """A move has no new time, and the place to which it came back is known with the older version."""
    async with histories.rig("Confluence", 1, True, every=3600) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        pages = [server.put("OPS") for _ in range(8)]
        back = pages[0]
        back.readers = {"group": ["a"]}
        await one.swept()
        server.move(back, "DEV")
        back.title = "Edited"
        server.edit(back, "<p>Edited.</p>")
        await one.round()
        world.work()
        server.move(back, "OPS")
        for _ in range(3):
            await one.swept()
            await one.settle()
            await one.round()
            world.work()
        assert world.state() == one.site.live()


@pytest.mark.parametrize("killed", range(4, 12))
async def test_a_page_that_was_moved_back_is_not_lost_by_a_kill_while_it_is_fetched(killed: int) -> None:
    async with histories.rig("Confluence", 1, True, every=3600) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        back, *_ = [server.put("OPS") for _ in range(8)]
        back.readers = {"group": ["a"]}
        await one.swept()
        server.move(back, "DEV")
        back.title = "Edited"
        server.edit(back, "<p>Edited.</p>")
        await one.round()
        world.work()
        server.move(back, "OPS")
        server.now += timedelta(hours=2)
        await one.round(left=killed)
        for _ in range(3):
            await one.swept()
            await one.settle()
            world.work()
        assert world.state() == one.site.live()


async def test_a_page_that_is_moved_back_as_it_was_while_what_is_missing_is_held_back_is_current_again() -> None:
    """Its version is the very one that was known there."""
    async with histories.rig("Confluence", 1, True, every=3600) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        pages = [server.put("OPS") for _ in range(12)]
        await one.swept()
        world.work()
        back, others = pages[0], pages[1:]
        server.move(back, "DEV")
        for each in others[:7]:
            each.status = "trashed"
        assert (await one.swept()).outcome == "TooManyMissing"
        world.work()
        server.move(back, "OPS")
        await one.swept()
        world.work()
        last = {"connection": one.uid, "sourceId": {"$regex": str(back.id)}, "superseded": None}
        found = one.database[ITEMS].find({**last, "state": {"$ne": "Gone"}})
        assert [row["urn"] async for row in found] == [f"confluence::OPS::{back.id}"]
        made = len(world.created)
        await one.swept()
        assert len(world.created) == made


async def test_a_place_where_older_versions_alone_are_known_is_looked_at_whether_or_not_there_is_a_last_one(
    database: Any,
) -> None:
    one = Stood(database, 99)
    await one.known(item("a"), dataclasses.replace(item("c"), place="B/1"))
    listed = await one.left.listed("uid", ["A/1", "B/1", "C/1"], {})
    assert (listed.strangers, listed.moved) == (["C/1"], ["A/1"])
    await one.rows.update_many({}, {"$set": {"superseded": True}})
    assert (await one.left.listed("uid", ["A/1", "B/1"], {})).moved == ["A/1", "B/1"]


async def test_of_many_that_moved_those_that_are_not_fetched_are_not_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The list is behind, and shows all of them where they were."""
    monkeypatch.setattr(sweep, "MOST_STRANGERS", 3)
    asked = list[int]()

    def watched(source: Any) -> Any:
        fetch = source.fetch

        def fetched(places: Sequence[str]) -> Any:
            asked.append(len(places))
            return fetch(places)

        source.fetch = fetched
        return source

    async with histories.rig("Jira", 1, True, watched, every=3600) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        for _ in range(8):
            server.put("SHOP")
        await one.swept()
        world.work()
        # Each has an older version where it is, and the last one was found elsewhere.
        rows, asked[:] = one.database[ITEMS], []
        async for row in rows.find({"connection": one.uid}):
            await rows.insert_one({**row, "_id": f"{row['_id']}/0", "superseded": True})
            await rows.update_one({"_id": row["_id"]}, {"$set": {"places": ["elsewhere/1"]}})
        for _ in range(4):
            found = await one.swept()
            assert (found.outcome, found.missing, found.removed) == ("Swept", 0, 0)
        assert asked == [3, 3, 2]
        assert world.state() == one.site.live()
        assert len(world.created) == 8


async def test_older_versions_are_where_the_last_one_was_found(database: Any) -> None:
    """The list is behind and shows another place: no task of theirs that was not begun is deleted."""
    stored, left = items.Items(database), gone.Gone(database)
    for number, version in enumerate(("a", "b", "c"), 1):
        await stored.add("uid", OWNER, item(version), {"content": version}, NOW, number)
        assert await left.compare("uid", number, NOW) == (1, 0)
    await stored.found("uid", [item("c")], 4)
    assert await left.compare("uid", 4, NOW) == (1, 0)
    assert await database[ITEMS].count_documents({"seen": 4}) == 3
    await stored.add("uid", OWNER, dataclasses.replace(item("d"), place="B/1"), {"content": "d"}, NOW, 5)
    assert await left.compare("uid", 5, NOW) == (1, 0)
    assert await database[ITEMS].count_documents({"missingSince": NOW}) == 3, "it is elsewhere now"


@pytest.mark.parametrize(("gone_ones", "stay", "held"), [((7, 1), 9, False), ((1,) * 8, 30, True)])
async def test_the_brake_counts_things_and_not_their_versions(
    database: Any, gone_ones: tuple[int, ...], stay: int, held: bool
) -> None:
    """`gone_ones` have these numbers of versions; where they have few, those that stay have many."""
    one = Stood(database, 99)
    ones = [(f"gone{number}", versions) for number, versions in enumerate(gone_ones)]
    for name, versions in [*ones, *((f"stays{number}", 5 if held else 1) for number in range(stay))]:
        for number in range(versions):
            thing = dataclasses.replace(item(f"{name} {number}"), source_id=name, place=f"A/{name}")
            await one.stored.add("uid", OWNER, thing, {"content": name}, NOW, 1)
    few = [f"A/stays{number}" for number in range(stay)]
    await one.left.mark("uid", few, 2)
    known, missing = await one.left.compare("uid", 2, NOW)
    assert (known, missing) == (len(gone_ones) + stay, len(gone_ones))
    newer = await one.left.newer("uid", 2, NOW - timedelta(days=1))
    assert newer == len(gone_ones)
    assert (newer > sweep.FEW and newer > sweep.SHARE * known) == held


# A process that stood still

WRITES_NEW, WRITES_BACK, WRITES_READERS, WRITES_GONE = 6, 10, 11, 9
"""How many writes it makes for an item that is new, that recurs, that others may read now, that comes back after it
left: at each of them it stands still."""


def item(version: str, readers: access.Access | None = None, *, recurs: bool = False) -> port.Item:
    return port.Item(
        source_id="1", version=version, type=pendingtask.Type.WIKI, urn="wiki::1", title=version, text=version,
        place="A/1", access=readers, recurs=recurs,
    )  # fmt: skip


class Stood:
    """A process that stands still at one of its writes while its successor works; `fences` are 2 and 3."""

    def __init__(self, database: Any, write: int) -> None:
        self.rows, self.halting = database[ITEMS], Database(database)
        self.stored, self.left, self.older = items.Items(database), gone.Gone(database), items.Items(self.halting)
        self.halting.arm(None, write)

    async def find(self, stored: items.Items, one: port.Item, fence: int, minute: int) -> None:
        """As a poll does."""
        if await stored.unknown("uid", [one]):
            told = {"content": one.version, "access": one.access and one.access.model_dump()}
            await stored.keep("uid", OWNER, [(one, told)], NOW + timedelta(minutes=minute), fence)
        else:
            await stored.found("uid", [one], fence)

    async def known(self, *some: port.Item) -> None:
        """Found one after another under claim 1, each with its task."""
        for minute, one in enumerate(some):
            await self.find(self.stored, one, 1, minute)
            await self.indexed()

    async def indexed(self) -> list[str]:
        """Make the tasks that wait; the versions and readers that they have."""
        found = await self.stored.waiting("uid", 10, NOW)
        await self.stored.indexed("uid", [(one, f"task-{one.id}-{one.nonce}") for one in found])
        return [" ".join([one.title, *((one.content["access"] or {}).get("principals") or ())]) for one in found]

    async def outrun(self, one: port.Item, successor: Callable[[], Awaitable[object]]) -> bool:
        """The older process finds `one` under claim 2; whether it stood still."""
        work = asyncio.create_task(self.find(self.older, one, 2, 10))
        frozen = asyncio.create_task(self.halting.frozen.wait())
        await asyncio.wait({work, frozen}, return_when=asyncio.FIRST_COMPLETED)
        frozen.cancel()
        stood = self.halting.frozen.is_set()
        if stood:
            await successor()
        self.halting.thawed.set()
        with contextlib.suppress(assignments.Lost):
            await work
        # As a poll does that cannot store its cursor any more.
        await self.stored.take_back("uid", [one], 2)
        return stood

    async def leaves(self) -> None:
        """All that is known left its source under claim 1; its tasks are settled."""
        await self.rows.update_many({}, {"$set": {"state": "Gone", "settled": True, "task": "task", "leftBy": 1}})

    async def dropped(self, fence: int) -> None:
        """The documents of what left are forgotten under this claim."""
        for one in await self.left.settled("uid", 10, NOW):
            assert await self.left.take(one.item_id, fence)
            await self.left.drop(one.item_id, fence)

    async def current(self) -> list[str]:
        """The versions that are there and were not followed by another one."""
        wanted = {"superseded": None, "state": {"$ne": "Gone"}}
        return sorted([row["title"] async for row in self.rows.find(wanted)])


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

    async with histories.rig("Confluence", 1, True, overtaken, every=3600) as one:
        rows, server, world = one.database[assignments.CONNECTIONS], one.site.server, one.world
        server.late = timedelta(0)
        page, *_ = [server.put("OPS") for _ in range(8)]
        await one.swept()
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


# A number of a claim that is older than those of the items


def connected() -> connection.Connection:
    meta = {"name": "site", "namespace": "here", "uid": "uid", "generation": 1}
    spec = {"type": "Jira", "clientId": "acme", "url": "https://jira.example"}
    return connection.Connection.model_validate({"metadata": meta, "spec": spec})


@pytest.mark.parametrize("name", ["seen", "leftBy", "supersededBy", "removing"])
async def test_a_connection_that_begins_anew_is_later_than_its_items(database: Any, name: str) -> None:
    """MongoDB has lost its row, or it expired and is wanted again before its items are deleted."""
    stored, assigned = items.Items(database), assignments.Assignments(database)
    await stored.add("uid", OWNER, item("a"), {"content": "a"}, NOW, 1)
    await database[ITEMS].update_one({}, {"$set": {name: 5000}})
    await database[ITEMS].insert_one({"_id": "other", "connection": "other", "seen": 9000})
    await assigned.want(connected())
    claim = await assigned.claim("process", NOW)
    assert claim is not None
    assert claim.fence == 5001
    assert not claim.taken
    await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, claim.fence)
    assert [row["title"] async for row in database[ITEMS].find({"superseded": None, "connection": "uid"})] == ["b"]


async def test_a_claim_that_is_older_than_its_items_keeps_no_cursor_and_is_followed_by_a_later_one(
    database: Any,
) -> None:
    """An older copy of the Connections was restored."""
    stored, assigned = items.Items(database), assignments.Assignments(database)
    await assigned.want(connected())
    older = await assigned.claim("process", NOW)
    assert older is not None
    await assigned.overtake(older)
    await stored.add("uid", OWNER, item("a"), {"content": "a"}, NOW, 5000)
    with pytest.raises(assignments.Lost):
        await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, older.fence)
    with pytest.raises(assignments.Lost):
        await assigned.overtake(older)
    with pytest.raises(assignments.Lost):
        await assigned.advance(older, {"at": 1}, NOW)
    claim = await assigned.claim("process", NOW)
    assert claim is not None
    assert (claim.fence, claim.cursor, claim.taken) == (5001, {}, True)
    await assigned.overtake(claim)
    await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, claim.fence)
    assert [row["title"] async for row in database[ITEMS].find({"superseded": None})] == ["b"]
    with pytest.raises(assignments.Lost):
        await assigned.overtake(older)
    assert (await database[assignments.CONNECTIONS].find_one({}))["fence"] == 5001, "it is the other process's"


async def test_a_round_whose_items_name_a_later_claim_is_repeated_under_a_later_one() -> None:
    async with histories.rig("Jira", 1, True, every=3600) as one:
        server, world = one.site.server, one.world
        server.late = timedelta(0)
        issue, *_ = [server.put() for _ in range(8)]
        await one.swept()
        rows = one.database[ITEMS]
        await rows.update_many({}, {"$set": {"seen": 5000}})
        server.touch(issue, summary="Edited")
        running = asyncio.create_task(one.polls.run())
        one.site.server.now += timedelta(minutes=5)
        for _ in range(500):
            if await rows.count_documents({"title": {"$regex": "Edited"}, "state": "Indexed"}):
                break
            await asyncio.sleep(0.02)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        world.work()
        assert world.state() == one.site.live()


# A count after a kill


def poll(server: Forge) -> Any:
    return test_forges.tracker(server, "Gitea", f"{server.url}/{REPOSITORY}")


@pytest.mark.parametrize("batches", range(1, 8))
async def test_a_comment_that_is_deleted_after_a_kill_leaves(batches: int) -> None:
    """The host does not time it: it is found by the number of comments, in which those count that the killed poll took
    into its cursor."""
    server = forges.GiteaServer()
    async with server.serving():
        first, second = server.create("First"), server.create("Second")
        server.say(first.number, "Deleted later")
        server.tick(600)
        store, source = test_forges.Store(), partial(poll, server)
        assert await store.poll(source()) == 2
        server.tick(600)
        assert await store.poll(source()) == 0
        server.say(second.number, "New")
        server.tick(600)
        await store.poll(source(), batches=batches)
        first.comments.clear()
        server.say(second.number, "Newer")
        server.tick(600)
        await store.poll(source())
        await store.poll(source())
        assert "Deleted later" not in store.latest[f"{REPOSITORY}#{first.number}"].text
        assert "Newer" in store.latest[f"{REPOSITORY}#{second.number}"].text
