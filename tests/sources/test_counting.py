"""What is said of the items of a Connection, and what it costs, over polls that nothing and something happens in."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pymongo.monitoring
import pytest

from sources.core import assignments, counting
from sources.core.state import State
from tests.sources.test_sweep import Rig, rig

pytestmark = pytest.mark.services


class Asked(pymongo.monitoring.CommandListener):
    """Counts the commands about items."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()

    def started(self, event: pymongo.monitoring.CommandStartedEvent) -> None:
        if assignments.ITEMS in event.command.values():
            self.count[event.command_name] += 1

    def succeeded(self, event: pymongo.monitoring.CommandSucceededEvent) -> None:
        """Nothing."""

    def failed(self, event: pymongo.monitoring.CommandFailedEvent) -> None:
        """Nothing."""


async def state(one: Rig) -> State:
    return (await one.assigned.states())[one.uid][2]


async def counted(one: Rig) -> dict[str, int]:
    return dict((await state(one)).items or {})


async def real(one: Rig) -> dict[str, int]:
    return await counting.Counts(one.database[assignments.ITEMS]).counts(one.uid)


def large(one: Rig) -> None:
    """The Connection counts as one with many items."""
    one.polls._items.counted = counting.Counts(one.database[assignments.ITEMS], few=0)


async def test_a_poll_that_finds_nothing_asks_nothing_about_items() -> None:
    asked = Asked()
    async with rig(1, asked, mails=7) as one:
        one.polls._sweeper._every = 1e9
        await one.swept()
        one.world.work()
        await one.round()
        said = await state(one)
        assert (said.idle, said.items) == (True, {"New": 0, "Indexing": 0, "Indexed": 7, "Failed": 0})
        asked.count.clear()
        for _ in range(3):
            await one.round()
        assert asked.count == {}
        assert (await state(one)).items == said.items
        one.site.put(7, "INBOX")
        await one.round()
        assert (await counted(one))["Indexed"] == 8


async def test_the_counts_are_right_after_a_kill_between_any_two_writes() -> None:
    async with rig(2) as one:
        await one.swept()
        one.polls._sweeper._every = 1e9
        for left in range(16):
            one.site.put(left, "INBOX")
            large(one)
            await one.round(left=left)
            large(one)
            await one.round()
            assert await counted(one) == await real(one), left
        assert (await counted(one))["Indexed"] == 16


async def test_what_leaves_and_what_others_may_read_now_is_counted() -> None:
    async with rig(3, mails=8) as one:
        large(one)
        await one.swept()
        one.world.work()
        one.site.take(0)
        for step in (one.swept, one.settle, one.round, one.swept):
            await step()
            assert await counted(one) == await real(one)
        assert ((await counted(one))["Indexed"], (await state(one)).idle) == (7, True)
        one.access, one.resync, one.generation = {"visibility": "Public"}, "1", 2
        await one.round()
        one.world.work()
        assert await counted(one) == await real(one)


async def test_all_are_counted_again_after_ten_minutes() -> None:
    async with rig(4, mails=3) as one:
        large(one)
        await one.swept()
        one.polls._sweeper._every = 1e9
        await one.swept()
        rows = one.database[assignments.ITEMS]
        await rows.delete_one({"connection": one.uid, "urn": "email::m1"})  # by a process that was frozen
        for number, indexed in ((3, 4), (4, 5), (5, 5)):
            one.site.put(number, "INBOX")
            one.now += timedelta(minutes=11) if number == 5 else timedelta()
            await one.round()
            assert (await counted(one))["Indexed"] == indexed
