"""Versions of one item: an older one that came back while it left does not follow a newer one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bench.connectors.database import Database
from controllers.sources import counting, gone, items, mongo, port
from controllers.sources.assignments import ITEMS
from crds import pendingtask, scope

pytestmark = pytest.mark.services
DATABASE = f"jervis_versions_{os.getpid()}"
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
OWNER = scope.Scope(client_id="acme")


@pytest.fixture
async def database() -> AsyncIterator[Any]:
    client = mongo.client(os.environ["JERVIS_TEST_MONGODB_URI"])
    yield client[DATABASE]
    await client.drop_database(DATABASE)
    client.close()


def item(version: str, *, recurs: bool = False) -> port.Item:
    return port.Item(
        source_id="1", version=version, type=pendingtask.Type.WIKI, urn="wiki::1", title=version, text=version,
        place="A/1", recurs=recurs,
    )  # fmt: skip


async def test_an_older_version_that_came_back_while_it_left_becomes_no_task_after_a_newer_one(database: Any) -> None:
    stored, left = items.Items(database), gone.Gone(database)
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
