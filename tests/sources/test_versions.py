"""Versions of one item: an older one that came back while it left does not follow a newer one."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from bench.connectors.database import Database
from crds import access, connection
from sources.core import assignments, cleanup, counting, items, missing_items, state
from sources.core.assignments import ITEMS
from tests.sources.stood import NOW, OWNER, item

pytestmark = pytest.mark.services


async def test_an_older_version_that_came_back_while_it_left_becomes_no_task_after_a_newer_one(database: Any) -> None:
    stored, left = items.Items(database), missing_items.MissingItems(database)
    await stored.add("uid", OWNER, item("v1"), {"content": "v1"}, NOW, 1)
    old = items.key("uid", "1", "v1")
    [first] = await stored.waiting("uid", 10, NOW)
    await stored.indexed("uid", [(first, "task-1")])
    await database[ITEMS].update_one({"_id": old}, {"$set": {"state": counting.GONE, "settled": True}})
    assert [one.version for one in await stored.unknown("uid", [item("v1")])] == ["v1"]
    await stored.add("uid", OWNER, item("v1"), {"content": "v1"}, NOW, 2)
    await stored.add("uid", OWNER, item("v2"), {"content": "v2"}, NOW, 2)
    assert await left.take(old, 2)
    await left.drop(old, 2)
    waiting = await stored.waiting("uid", 10, NOW)
    assert [dict(one.content) for one in waiting] == [{"content": "v2"}]


async def test_a_later_time_alone_is_no_second_task(database: Any) -> None:
    stored = items.Items(database)
    texts = (("1", "a"), ("2", "a"), ("3", "b"), ("4", "a"), ("4", "a"))
    for number, (version, text) in enumerate(texts):
        one = dataclasses.replace(item(version), title=text, text=text)
        await stored.add("uid", OWNER, one, {"content": text}, NOW + timedelta(seconds=number), number)
    assert [one.content["content"] for one in await stored.waiting("uid", 10, NOW)] == ["a", "b", "a"]
    shown = dataclasses.replace(item("5"), title="a", text="a", access=access.PUBLIC)
    await stored.add("uid", OWNER, shown, {"content": "a", "access": {}}, NOW + timedelta(minutes=1), 9)
    assert len(await stored.waiting("uid", 10, NOW)) == 4, "others may read it now"


async def test_older_versions_go_once_a_day_when_their_time_has_come(database: Any) -> None:
    stored, now = items.Items(database), [NOW]
    step = cleanup.versions(stored, lambda: now[0])
    for number, version in enumerate(("a", "b", "c")):
        await stored.add("uid", OWNER, item(version), {"content": version}, NOW + timedelta(days=number), number)
        if version != "b":
            for one in await stored.waiting("uid", 10, NOW):
                await stored.indexed("uid", [(one, "task")] if one.title == version else [])
    for days, gone_now, left in ((30, 0, "abc"), (30.9, 0, "abc"), (31.1, 1, "bc"), (90, 0, "bc")):
        now[0] = NOW + timedelta(days=days, seconds=1 if days > 31 else 0)
        assert (days, await step()) == (days, gone_now)
        assert "".join(sorted([row["title"] async for row in database[ITEMS].find({})])) == left
    # A source that went back to it has it as news.
    assert [one.version for one in await stored.unknown("uid", [item("a"), item("c")])] == ["a"]


async def test_the_newer_version_becomes_the_later_task_whatever_the_clocks_say(database: Any) -> None:
    stored = items.Items(database)
    for number, version in enumerate(("c", "b", "a")):
        at = NOW - timedelta(seconds=10 * number)
        await stored.add("uid", OWNER, item(version), {"content": version}, at, number)
    assert [one.content["content"] for one in await stored.waiting("uid", 10, NOW)] == ["c", "b", "a"]


@pytest.mark.parametrize("write", [1, 2], ids=["before the older versions", "before its own"])
async def test_a_process_that_stood_still_stores_nothing_over_its_successor(database: Any, write: int) -> None:
    stored, halting = items.Items(database), Database(database)
    await stored.add("uid", OWNER, item("v1"), {"content": "v1"}, NOW, 1)
    halting.arm(None, write)
    halted = asyncio.create_task(items.Items(halting).add("uid", OWNER, item("v2"), {"content": "v2"}, NOW, 2))
    await halting.frozen.wait()
    await stored.add("uid", OWNER, item("v3"), {"content": "v3"}, NOW, 3)
    halting.thawed.set()
    with pytest.raises(assignments.Lost):
        await halted
    assert [one.content["content"] for one in await stored.waiting("uid", 10, NOW)] == ["v1", "v3"]
    [last] = [row async for row in database[ITEMS].find({"superseded": None})]
    assert last["content"] == {"content": "v3"}


async def test_a_version_that_recurs_is_new_after_another_one_and_only_then(database: Any) -> None:
    stored = items.Items(database)
    for number, version in enumerate(("a", "b", "a")):
        one = item(version, recurs=True)
        assert await stored.unknown("uid", [one]) == [one]
        at = NOW.replace(minute=number)
        await stored.add("uid", OWNER, one, {"content": version}, at, number)
        assert await stored.unknown("uid", [one]) == []
        [waiting] = await stored.waiting("uid", 10, NOW)
        assert (dict(waiting.content), waiting.nonce) == ({"content": version}, str(int(at.timestamp() * 1000)))
        await stored.indexed("uid", [(waiting, f"task-{number}")])
    assert await stored.unknown("uid", [item("b")]) == [], "only where the source says so"


async def test_a_version_that_recurs_leaves_with_the_task_that_it_had_before(database: Any) -> None:
    """The branch is forced back, and deleted before the first task of that commit was begun."""
    stored, left = items.Items(database), missing_items.MissingItems(database)
    spec = connection.Spec.model_validate({"type": "Git", "clientId": "acme", "url": "https://forge/acme/shop.git"})
    claim = assignments.Claim("uid", "here", "shop", spec, 1, 9, {}, state.State(), NOW)
    made = set[str]()
    for number, version in enumerate(("a", "b", "a")):
        await stored.add("uid", OWNER, item(version, recurs=True), {}, NOW.replace(minute=number), number)
        [waiting] = await stored.waiting("uid", 10, NOW)
        made.add(f"task-{number}")
        await stored.indexed("uid", [(waiting, f"task-{number}")])
    assert len(made) == 3
    await left.compare("uid", 9, NOW)
    assert await left.leave(claim, NOW, NOW) == 1, "one thing, whatever its versions"
    leaving = {row["task"] async for row in database[ITEMS].find({"state": "Gone", "settled": False})}
    assert leaving == made
