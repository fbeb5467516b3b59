"""Connections whose sources hang leave places for those of other namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any

import pytest

from crds import connection
from sources.core import assignments, limits, poller, port
from tests import waiting
from tests.sources import parts
from tests.sources.model import World

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)


def test_whoever_holds_twice_what_is_free_takes_no_more() -> None:
    taken = list[str]()
    while "a" not in limits.full(taken, 8):
        taken.append("a")
    assert taken == ["a"] * 6
    assert limits.full([*taken, "b"], 8) == ["a"]
    assert limits.full(["a"], 1) == ["a"]
    assert limits.full([], 1) == []


def conn(namespace: str, number: int) -> connection.Connection:
    return parts.connected(f"box-{number}", uid=f"uid-{number}", namespace=namespace)


class Hanging:
    """A server that takes the connection and says nothing."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        await asyncio.Event().wait()
        yield port.Batch({}, "")

    async def ids(self) -> AsyncGenerator[port.Page]:
        yield port.Page(())


@pytest.mark.services
async def test_a_namespace_of_sources_that_hang_leaves_places_for_others(database: Any) -> None:
    assigned, idle = assignments.Assignments(database), asyncio.Event()

    async def sleep(seconds: float) -> None:
        if seconds == poller.IDLE_SECONDS:
            idle.set()
        await asyncio.Event().wait()

    async with World().serving() as world, parts.clients(world.url) as (api, knowledge):
        polls = await parts.polling(
            api, knowledge, database, assigned, {connection.Type.EMAIL: lambda *_: Hanging()}, wall=lambda: NOW,
            width=8, sleep=sleep,
        )  # fmt: skip
        for number in range(12):
            await assigned.want(conn("loud", number))
        await assigned.want(conn("quiet", 12))
        await database[assignments.CONNECTIONS].update_one({"_id": "uid-12"}, {"$set": {"pollAt": NOW}})
        running = asyncio.create_task(polls.run())
        await waiting.done(idle.wait())
        # The one of the other namespace is taken though twelve were due before it.
        assert sorted(polls._namespaces.values()) == ["loud"] * 6 + ["quiet"]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
