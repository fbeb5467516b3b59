"""Watches: who waits at which Connection, and what news do to the time of its next poll."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sources.core import assignments, idle_listener, port
from sources.core.state import State
from tests.sources import parts

pytestmark = pytest.mark.services
NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


class Source:
    """Answers what it is told to; it has no batches."""

    def __init__(self, answer: bool | Exception | None) -> None:
        self.answer = answer

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
async def assigned(database: Any) -> assignments.Assignments:
    prepared = assignments.Assignments(database)
    await prepared.prepare()
    return prepared


async def polled(assigned: assignments.Assignments, uid: str, url: str = "imaps://h", failures: int = 0) -> None:
    """A Connection whose last poll ended, and whose next is an hour away."""
    await assigned.want(parts.connected(uid, url=url))
    claim = await parts.claimed(assigned, NOW)
    assert claim.uid == uid
    await assigned.finish(claim, State(polled_at=NOW, succeeded_at=NOW, failures=failures), LATER)


def watcher(
    assigned: assignments.Assignments, answer: Any, now: Callable[[], datetime] = lambda: NOW
) -> idle_listener.IdleListener:
    async def opens(_: assignments.Claim) -> Any:
        return Source(answer)

    return idle_listener.IdleListener(assigned, opens, parts.meters(), most=2, owner="me", wall=now)


async def test_news_make_a_connection_due(assigned: assignments.Assignments) -> None:
    await polled(assigned, "one")
    assert await assigned.claim("me", NOW) is None
    claim = await assigned.watch(NOW, 60)
    assert claim is not None
    await watcher(assigned, answer=True).watch(claim)
    due = await parts.claimed(assigned, NOW)
    assert (due.uid, due.poll_at) == ("one", NOW)


async def test_news_that_come_while_it_is_polled_are_not_lost(assigned: assignments.Assignments) -> None:
    await polled(assigned, "one")
    watch = await assigned.watch(NOW, 60)
    poll = await assigned.claim("me", LATER)
    assert watch is not None
    assert poll is not None
    await watcher(assigned, answer=True).watch(watch)
    await assigned.finish(poll, State(polled_at=LATER, succeeded_at=LATER), LATER + timedelta(hours=1))
    assert await assigned.claim("me", LATER) is not None


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (False, 0.0),
        (True, idle_listener.QUIET_SECONDS),
        (None, idle_listener.NONE_SECONDS),
        (port.Unreachable("away"), idle_listener.BROKEN_SECONDS),
        (ZeroDivisionError(), idle_listener.BROKEN_SECONDS),
    ],
)
async def test_when_the_next_watch_begins(assigned: assignments.Assignments, answer: Any, pause: float) -> None:
    await polled(assigned, "one")
    claim = await assigned.watch(NOW, 60)
    assert claim is not None
    assert await assigned.watch(NOW, 60) is None, "one process waits at it"
    await watcher(assigned, answer).watch(claim)
    assert pause == 0 or await assigned.watch(NOW + timedelta(seconds=pause - 1), 60) is None
    assert await assigned.watch(NOW + timedelta(seconds=pause), 60) is not None


async def test_whom_nobody_waits_at(assigned: assignments.Assignments) -> None:
    await polled(assigned, "pop", url="pop3s://h")
    await polled(assigned, "broken", failures=1)
    assert await assigned.watch(NOW, 60) is None
    await polled(assigned, "dead")
    assert await assigned.watch(NOW, 60) is not None
    again = await assigned.watch(NOW + timedelta(seconds=61), 60)
    assert again is not None, "its process did not come back"
    assert again.uid == "dead"


async def test_many_take_turns(assigned: assignments.Assignments) -> None:
    for number in range(5):
        await polled(assigned, f"c{number}")
    order: list[str] = []
    enough, now = asyncio.Event(), NOW

    class Turns(Source):
        async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
            await asyncio.sleep(0)
            return False

    async def opens(claim: assignments.Claim) -> Any:
        nonlocal now
        order.append(claim.uid)
        if len(order) >= 20:
            enough.set()
        now += timedelta(seconds=1)
        return Turns(answer=False)

    watches = idle_listener.IdleListener(
        assigned, opens, parts.meters(), most=2, owner="me", wall=lambda: now, sleep=lambda _: asyncio.sleep(0)
    )
    running = asyncio.create_task(watches.run())
    await enough.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert all({*order[at : at + 5]} == {f"c{number}" for number in range(5)} for at in (0, 5, 10))
