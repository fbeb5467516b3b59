"""Watches: a process waits at sources that report news by themselves, and has the Connection polled when they do.

A watch is no poll: it reads nothing, and one that is lost costs the rest of the interval. What came while MongoDB was
away is noted once it is back. At most `most` Connections
are watched by a process, each by one process at a time, for `SECONDS`; then the one comes that was not watched for the
longest time, so that many Connections take turns. Source: RFC 2177 ("re-issue it at least every 29 minutes").
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import structlog

from crds import errors
from sources import metrics
from sources.core import assignments, port

log = structlog.get_logger("sources")

SECONDS = 25 * 60.0
SLACK_SECONDS = 120.0
"""After which another process may watch a Connection whose watcher did not come back."""
QUIET_SECONDS = 5.0
"""After news, for what comes with them: a poll per mail of a burst is no use."""
NONE_SECONDS = 6 * 3600.0
"""A server that reports no news is asked again then."""
BROKEN_SECONDS = 300.0
AWAY_SECONDS = 5.0
_LOOK_SECONDS = 1.0


@runtime_checkable
class Watched(Protocol):
    """A source that reports news by itself."""

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        """Whether there are news within `seconds`; None: this server reports none. Raises as `port.Source.batches`."""
        ...


class IdleListener:
    """`opens` makes the source of a Connection; `most` are watched at once by `owner`, this process."""

    def __init__(
        self,
        assigned: assignments.Assignments,
        opens: Callable[[assignments.Claim], Awaitable[port.Source]],
        measured: metrics.Metrics,
        *,
        most: int,
        owner: str,
        wall: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._assigned, self._opens, self._metrics = assigned, opens, measured
        self._most, self._owner, self._wall, self._sleep = most, owner, wall, sleep
        self._watches: dict[str, asyncio.Task[None]] = {}
        """By uid."""

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                if not await self._begun():
                    await self._sleep(_LOOK_SECONDS)
        finally:
            for one in self._watches.values():
                one.cancel()
            await asyncio.gather(*self._watches.values(), return_exceptions=True)

    async def _begun(self) -> bool:
        if len(self._watches) >= self._most:
            return False
        try:
            claim = await self._assigned.watch(self._wall(), SECONDS + SLACK_SECONDS, self._owner, tuple(self._watches))
        except errors.Operational as error:
            log.info("nothing watched", reason=error.message)
            return False
        if claim is None:
            return False
        task = asyncio.create_task(self.watch(claim), name=f"watch {claim.namespace}/{claim.name}")
        self._watches[claim.uid] = task
        self._metrics.watched.set(len(self._watches))
        task.add_done_callback(lambda _: self._done(claim.uid))
        return True

    def _done(self, uid: str) -> None:
        self._watches.pop(uid, None)
        self._metrics.watched.set(len(self._watches))

    async def watch(self, claim: assignments.Claim) -> None:
        """Wait for news of one Connection, once."""
        news, pause, cancelled = False, 0.0, False
        until = self._wall() + timedelta(seconds=SECONDS + SLACK_SECONDS)
        try:
            source = await self._opens(claim)
            said = await source.news(claim.cursor, SECONDS) if isinstance(source, Watched) else None
            news, pause = bool(said), NONE_SECONDS if said is None else QUIET_SECONDS if said else 0.0
        except errors.JervisError as error:
            # Its next poll says so to people.
            log.info("source not watched", connection=claim.name, reason=error.message)
            pause = BROKEN_SECONDS
        except Exception:
            self._metrics.loop_failures.inc()
            log.exception("watch failed", connection=claim.name)
            pause = BROKEN_SECONDS
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            now = self._wall()
            while not await self._ended(claim, now, pause, news) and not cancelled and self._wall() < until:
                await self._sleep(AWAY_SECONDS)

    async def _ended(self, claim: assignments.Claim, now: datetime, pause: float, news: bool) -> bool:
        """Note the end of a watch; False: MongoDB is away."""
        try:
            await self._assigned.watched(claim.uid, now, now + timedelta(seconds=pause), news=news)
        except errors.Operational as error:
            log.info("end of a watch not noted", connection=claim.name, reason=error.message)
            return False
        return True
