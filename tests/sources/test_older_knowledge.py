"""What is older does not win: a list that is behind what was read, a claim that is behind its items, a count after a
kill, readers of before."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from bench.connectors import forges
from sources.core import assignments, items, missing_items, sweep
from sources.core.assignments import ITEMS
from tests import waiting
from tests.sources import parts, test_forges
from tests.sources import test_atlassian_histories as histories
from tests.sources.forge import REPOSITORY, Forge
from tests.sources.stood import NOW, OWNER, Stood, item

pytestmark = pytest.mark.services


# A list that is behind


@pytest.mark.parametrize("cloud", [True, False])
async def test_a_list_that_shows_the_former_key_of_an_issue_takes_nothing_away(cloud: bool) -> None:
    """The issue moves between the list of a poll and its details, and search shows its new key minutes later."""
    async with histories.small("Jira", cloud=cloud) as (one, server, [moved, *_]):
        world = one.world
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


@contextlib.asynccontextmanager
async def moved_back() -> AsyncIterator[histories.Rig]:
    """A page with readers of its own was moved, edited there, and moved back, which has no new time."""
    async with histories.rig("Confluence", 1, True, every=3600, late=timedelta(0)) as one:
        server = one.site.server
        back, *_ = [server.put("OPS") for _ in range(8)]
        back.readers = {"group": ["a"]}
        await one.swept()
        server.move(back, "DEV")
        back.title = "Edited"
        server.edit(back, "<p>Edited.</p>")
        await one.round()
        one.world.work()
        server.move(back, "OPS")
        yield one


async def test_a_page_that_was_edited_elsewhere_and_moved_back_has_its_new_text() -> None:
    """The place to which it came back is known with the older version."""
    async with moved_back() as one:
        for _ in range(3):
            await one.swept()
            await one.settle()
            await one.round()
            one.world.work()
        assert one.world.state() == one.site.live()


@pytest.mark.parametrize("killed", range(4, 12))
async def test_a_page_that_was_moved_back_is_not_lost_by_a_kill_while_it_is_fetched(killed: int) -> None:
    async with moved_back() as one:
        one.now += timedelta(hours=2)
        await one.round(left=killed)
        for _ in range(3):
            await one.swept()
            await one.settle()
            one.world.work()
        assert one.world.state() == one.site.live()


async def test_a_page_that_is_moved_back_as_it_was_while_what_is_missing_is_held_back_is_current_again() -> None:
    """Its version is the very one that was known there."""
    async with histories.small("Confluence", things=12, every=3600) as (one, server, [back, *others]):
        world = one.world
        world.work()
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

    async with histories.small("Jira", watched, place="SHOP", every=3600) as (one, _, _):
        world = one.world
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
    stored, left = items.Items(database), missing_items.MissingItems(database)
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


# A number of a claim that is older than those of the items


JIRA = parts.connected("site", uid="uid", type="Jira", url="https://jira.example")


@pytest.mark.parametrize("name", ["seen", "leftBy", "supersededBy", "removing"])
async def test_a_connection_that_begins_anew_is_later_than_its_items(database: Any, name: str) -> None:
    """MongoDB has lost its row, or it expired and is wanted again before its items are deleted."""
    stored, assigned = items.Items(database), assignments.Assignments(database)
    await stored.add("uid", OWNER, item("a"), {"content": "a"}, NOW, 1)
    await database[ITEMS].update_one({}, {"$set": {name: 5000}})
    await database[ITEMS].insert_one({"_id": "other", "connection": "other", "seen": 9000})
    await assigned.want(JIRA)
    claim = await parts.claimed(assigned, NOW, by="process")
    assert claim.fence == 5001
    assert not claim.taken
    await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, claim.fence)
    assert [row["title"] async for row in database[ITEMS].find({"superseded": None, "connection": "uid"})] == ["b"]


async def test_a_claim_that_is_older_than_its_items_keeps_no_cursor_and_is_followed_by_a_later_one(
    database: Any,
) -> None:
    """An older copy of the Connections was restored."""
    stored, assigned = items.Items(database), assignments.Assignments(database)
    await assigned.want(JIRA)
    older = await parts.claimed(assigned, NOW, by="process")
    await assigned.overtake(older)
    await stored.add("uid", OWNER, item("a"), {"content": "a"}, NOW, 5000)
    with pytest.raises(assignments.Lost):
        await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, older.fence)
    with pytest.raises(assignments.Lost):
        await assigned.overtake(older)
    with pytest.raises(assignments.Lost):
        await assigned.advance(older, {"at": 1}, NOW)
    claim = await parts.claimed(assigned, NOW, by="process")
    assert (claim.fence, claim.cursor, claim.taken) == (5001, {}, True)
    await assigned.overtake(claim)
    await stored.add("uid", OWNER, item("b"), {"content": "b"}, NOW, claim.fence)
    assert [row["title"] async for row in database[ITEMS].find({"superseded": None})] == ["b"]
    with pytest.raises(assignments.Lost):
        await assigned.overtake(older)
    assert (await database[assignments.CONNECTIONS].find_one({}))["fence"] == 5001, "it is the other process's"


async def test_a_round_whose_items_name_a_later_claim_is_repeated_under_a_later_one() -> None:
    async with histories.small("Jira", every=3600) as (one, server, [issue, *_]):
        rows, world = one.database[ITEMS], one.world
        await rows.update_many({}, {"$set": {"seen": 5000}})
        server.touch(issue, summary="Edited")
        running = asyncio.create_task(one.polls.run())
        server.now += timedelta(minutes=5)
        edited = {"title": {"$regex": "Edited"}, "state": "Indexed"}
        await waiting.eventually(lambda: rows.count_documents(edited), "the edit is indexed")
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


# Other readers: a restriction that changes without a new time


@pytest.mark.parametrize("cloud", [True, False])
@pytest.mark.parametrize("kind", ["Jira", "Confluence"])
async def test_other_readers_arrive_with_the_next_poll(kind: str, cloud: bool) -> None:
    """They have no new time. One who is let in again is one more change, and what did not change is not sent again."""
    async with histories.small(kind, cloud=cloud, things=9, every=3600) as (one, server, [changed, *_]):
        one.world.work()
        assert one.world.state() == one.site.live()
        swept = await one.sweep()
        for turn, limited in enumerate((True, False, True, False), 1):
            if kind == "Jira":
                changed.fields["security"] = {"id": "1"} if limited else None
            else:
                changed.readers = {"group": ["a"]} if limited else {}
            await one.round()
            one.world.work()
            assert one.world.state() == one.site.live()
            assert len(one.world.created) == 9 + turn
        assert await one.sweep() == swept, "no sweep was needed"
        if kind == "Jira":
            server.delete(changed)
        else:
            changed.status = "trashed"
        await one.swept()
        await one.settle()
        await one.round()
        assert one.world.state() == one.site.live(), "the document goes with all its tasks"


async def test_a_kill_between_two_writes_leaves_no_reader_of_before() -> None:
    for left in range(14):
        async with histories.small("Confluence", seed=100 + left, things=1, every=3600) as (one, _, [page]):
            one.world.work()
            page.readers = {"group": ["a"]}
            await one.round(left=left)
            for _ in range(3):
                await one.round()
            one.world.work()
            assert one.world.state() == one.site.live(), f"killed at write {left}"
            created = len(one.world.created)
            await one.round()
            assert len(one.world.created) == created == 2
