"""MongoDB goes away while sources are polled and watched: afterwards they are polled by themselves, and no claim or
watch of this process is left over until its time ends.

A claim lasts an hour here, so that one that is left over shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pymongo
import pymongo.errors
import pytest
from motor.motor_asyncio import AsyncIOMotorClient

from clients import mongo
from crds import connection, pendingtask, scope
from sources.core import assignments, idle_listener, indexer, items, poller, port
from tests import waiting
from tests.operator.proxy import Proxy
from tests.sources import parts
from tests.sources.model import World

pytestmark = pytest.mark.services
NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
HOUR = 3600.0


class Gated:
    """A mailbox with one mail, which each poll lists once it is let through. `begun` has one entry for each poll."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[int] = asyncio.Queue()
        self.through = asyncio.Event()
        self.polls = 0

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        self.polls += 1
        self.begun.put_nowait(self.polls)
        await self.through.wait()
        mail = port.Item("m1", "v1", pendingtask.Type.EMAIL, "email::m1", "A mail", "Text", editable=False)
        yield port.Batch({"at": 1}, "one mail", (mail,) if not cursor else ())

    async def ids(self) -> AsyncGenerator[port.Page]:
        yield port.Page((), last=True)

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        await self.through.wait()
        return True


class Slow:
    """A database that ends writes of at most eight rows in time."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getitem__(self, name: str) -> Any:
        return Slow(self._real[name])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def bulk_write(self, writes: list[Any], **options: Any) -> Any:
        if len(writes) > 8:
            raise pymongo.errors.NetworkTimeout("timed out")
        return await self._real.bulk_write(writes, **options)


class Place:
    """One process with its wires; what it asks MongoDB goes through `proxy`."""

    def __init__(self, proxy: Proxy, world: World, source: Gated) -> None:
        self.proxy, self.world, self.source = proxy, world, source
        self.store: Any
        self.assigned: assignments.Assignments
        self.slow: items.Items
        self.makes: indexer.Indexer
        self.polls: poller.Poller
        self.watches: idle_listener.IdleListener


async def brief(seconds: float) -> None:
    """No pause of the process takes longer here."""
    await asyncio.sleep(min(seconds, 0.02))


async def reached(store: Any) -> None:
    """Return once MongoDB answers."""

    async def answers() -> bool:
        with contextlib.suppress(pymongo.errors.PyMongoError):
            await store.admin.command("ping")
            return True
        return False

    await waiting.eventually(answers, "MongoDB answers")


@asynccontextmanager
async def place(monotonic: Any) -> AsyncIterator[Place]:
    """`monotonic` gives the seconds of the process."""
    name = f"jervis_outage_{uuid.uuid4().hex[:8]}"
    real = os.environ["JERVIS_TEST_MONGODB_URI"]
    host, _, number = real.removeprefix("mongodb://").partition(":")
    with Proxy(host, int(number)) as proxy:
        # Only how long a server is looked for is short: a cut is noticed at once.
        store: Any = AsyncIOMotorClient(
            f"mongodb://{proxy.address}", serverSelectionTimeoutMS=1000, connectTimeoutMS=60_000,
            socketTimeoutMS=60_000, tz_aware=True,
        )  # fmt: skip
        try:
            async with World().serving() as world, parts.clients(world.url) as (api, knowledge):
                await reached(store)
                made = Place(proxy, world, Gated())
                made.store, made.slow = store, items.Items(Slow(store[name]))
                made.assigned = assignments.Assignments(store[name], lasts=HOUR)
                made.makes = indexer.Indexer(api, made.slow, parts.meters(), wall=lambda: NOW)
                made.polls = await parts.polling(
                    api, knowledge, store[name], made.assigned, {connection.Type.EMAIL: lambda *_: made.source},
                    wall=lambda: NOW, every=HOUR, monotonic=monotonic, width=2, renew=HOUR, sleep=brief,
                )  # fmt: skip

                async def opens(_: assignments.Claim) -> Any:
                    return made.source

                made.watches = idle_listener.IdleListener(
                    made.assigned, opens, parts.meters(), most=2, wall=lambda: NOW, owner="me", sleep=brief
                )
                yield made
        finally:
            store.close()
            with pymongo.MongoClient[dict[str, Any]](real) as server:
                server.drop_database(name)


async def idle(one: Place) -> None:
    """Nothing is polled."""
    await asyncio.gather(*tuple(one.polls._busy.values()), return_exceptions=True)
    await asyncio.sleep(0)


async def repaired(one: Place) -> None:
    """The driver, which pauses between two looks, has found MongoDB again."""
    one.proxy.repair()
    await reached(one.store)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_poll_that_could_not_store_anything_is_repeated_once_mongodb_is_back() -> None:
    clock = iter(range(0, 10**9, 10))
    async with place(lambda: float(next(clock))) as one:
        await one.assigned.want(parts.connected("box"))
        running = asyncio.create_task(one.polls.run())
        assert await waiting.done(one.source.begun.get()) == 1
        one.proxy.cut()
        one.source.through.set()
        await idle(one)
        await repaired(one)
        assert await waiting.done(one.source.begun.get()) == 2
        await idle(one)
        assert one.world.created == ["email::m1"]
        await ended(running)


async def test_polls_that_fail_again_and_again_come_more_and_more_rarely() -> None:
    now = 0.0
    async with place(lambda: now) as one:
        pauses, begun = list[float](), 0.0
        await one.assigned.want(parts.connected("box"))
        for _ in range(6):
            one.source.through.clear()
            while not await one.polls._claim():
                now += 5
            pauses.append(now - begun)
            begun = now
            await waiting.done(one.source.begun.get())
            one.proxy.cut()
            one.source.through.set()
            await idle(one)
            await repaired(one)
        assert pauses == [0, 5, 10, 20, 40, 60]


async def test_a_claim_whose_answer_was_lost_is_no_other_processs() -> None:
    async with place(lambda: 0.0) as one:
        await one.assigned.want(parts.connected("box"))
        lost = await parts.claimed(one.assigned, NOW)
        assert await one.assigned.claim("another", NOW) is None
        assert await one.assigned.claim("me", NOW, [lost.uid]) is None, "it is worked on"
        again = await parts.claimed(one.assigned, NOW)
        assert again.fence == lost.fence + 1
        with pytest.raises(assignments.Lost):
            await one.assigned.advance(lost, {"at": 1}, NOW)


async def test_news_that_come_while_mongodb_is_away_are_noted_once_it_is_back() -> None:
    async with place(lambda: 0.0) as one:
        await one.assigned.want(parts.connected("box"))
        first = await parts.claimed(one.assigned, NOW)
        await one.assigned.finish(first, first.state, datetime(2027, 1, 1, tzinfo=UTC))
        claim = await one.assigned.watch(NOW, HOUR)
        assert claim is not None
        watching_it = asyncio.create_task(one.watches.watch(claim))
        one.proxy.cut()
        one.source.through.set()
        await asyncio.sleep(1.5)
        assert not watching_it.done()
        await repaired(one)
        await waiting.done(watching_it)
        assert await one.assigned.claim("me", NOW) is not None, "it is due"


async def test_a_watch_whose_answer_was_lost_is_begun_again() -> None:
    async with place(lambda: 0.0) as one:
        await one.assigned.want(parts.connected("box"))
        first = await parts.claimed(one.assigned, NOW)
        await one.assigned.finish(first, first.state, NOW)
        assert await one.assigned.watch(NOW, HOUR, "me") is not None
        assert await one.assigned.watch(NOW, HOUR, "another") is None
        assert await one.assigned.watch(NOW, HOUR, "me", ["box"]) is None, "it is waited at"
        assert await one.assigned.watch(NOW, HOUR, "me") is not None
        await one.assigned.watched("box", NOW, datetime(2027, 1, 1, tzinfo=UTC), news=False)
        assert await one.assigned.watch(NOW, HOUR, "me") is None, "it is not this process's any more"


async def test_tasks_are_made_in_smaller_parts_where_mongodb_is_slow() -> None:
    async with place(lambda: 0.0) as one:
        await one.assigned.want(parts.connected("box"))
        claim = await parts.claimed(one.assigned, NOW)
        for number in range(30):
            mail = port.Item(f"m{number}", "v1", pendingtask.Type.EMAIL, f"email::m{number}", "A mail", "Text")
            await one.slow.add("box", scope.Scope(client_id="acme"), mail, {"content": "Text"}, NOW)
        tries = 0
        while len(one.world.created) < 30 and tries < 10:
            tries += 1
            with contextlib.suppress(mongo.Unavailable):
                await one.makes.run(claim)
        assert sorted(one.world.created) == sorted(f"email::m{number}" for number in range(30))
