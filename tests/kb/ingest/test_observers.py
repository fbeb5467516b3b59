"""Requests that are based on an observation: of two processes that observe one source the former changes nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from kb import api, errors, mongo
from kb.erasure import closed, holdings
from kb.ingest import document_locks, observers
from tests.kb import clock as clocks
from tests.kb import scopes

pytestmark = pytest.mark.services


@pytest.fixture
def known(database: mongo.Database, clock: clocks.Clock) -> observers.Observers:
    return observers.Observers(database, document_locks.Turns(), closed.Closed(), clock)


def on(number: int, observer: str = "mailbox") -> api.Observation:
    return api.Observation(observer=observer, number=number)


async def test_what_is_based_on_an_older_observation_is_refused(known: observers.Observers) -> None:
    for number in (3, 3, 5):
        async with known.based(scopes.SHOP, on(number)):
            pass
    with pytest.raises(errors.Conflict, match="observation 3 of mailbox is older than 5") as caught:
        async with known.based(scopes.BLOG, on(3)):
            raise AssertionError("nothing is done")
    assert (caught.value.field, "Observe the source again" in str(caught.value.remedy)) == ("observation", True)
    # Another observer, and one of that name of another client, have numbers of their own.
    for owner, one in ((scopes.SHOP, on(1, "other")), (scopes.OTHER, on(1))):
        async with known.based(owner, one):
            pass


async def test_a_new_observation_begins_when_the_last_request_of_the_one_before_has_ended(
    known: observers.Observers,
) -> None:
    order: list[str] = []
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def removal() -> None:
        async with known.based(scopes.SHOP, on(1)):
            begun.set()
            await go_on.wait()
            order.append("removed")

    async def observe() -> None:
        async with known.based(scopes.SHOP, on(2)):
            order.append("observed")

    first = asyncio.create_task(removal())
    await begun.wait()
    second = asyncio.create_task(observe())
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(first, second)
    assert order == ["removed", "observed"]


async def test_observers_go_with_their_client_or_after_their_time(
    known: observers.Observers, database: mongo.Database, clock: clocks.Clock
) -> None:
    async def number(which: int) -> None:
        async with known.based(scopes.SHOP, on(which)):
            pass

    await number(5)
    assert await holdings.of(database)["observers"].erase(scopes.SHOP) == 0, "the client has other projects"
    assert await holdings.of(database)["observers"].erase(scopes.ACME) == 1
    await number(1)
    clock.now += observers.KEPT + timedelta(seconds=1)
    assert await known.purge() == 1
    await number(0)
