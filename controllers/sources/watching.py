"""Watches: a process waits at sources that report news by themselves, and has the Connection polled when they do.

A watch is no poll: it reads nothing, and one that is lost costs the rest of the interval. At most `most` Connections
are watched by a process, each by one process at a time, for `SECONDS`; then the one comes that was not watched for the
longest time, so that many Connections take turns. Source: RFC 2177 ("re-issue it at least every 29 minutes").
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

import structlog

from controllers.sources import assignments, metrics, port
from crds import errors

log = structlog.get_logger("sources")

SECONDS = 25 * 60.0
SLACK_SECONDS = 120.0
"""After which another process may watch a Connection whose watcher did not come back."""
QUIET_SECONDS = 5.0
"""After news, for what comes with them: a poll per mail of a burst is no use."""
NONE_SECONDS = 6 * 3600.0
"""A server that reports no news is asked again then."""
BROKEN_SECONDS = 300.0
_LOOK_SECONDS = 1.0


@runtime_checkable
class Watched(Protocol):
    """A source that reports news by itself."""

    async def news(self, cursor: port.Cursor, seconds: float) -> bool | None:
        """Whether there are news within `seconds`; None: this server reports none. Raises as `port.Source.batches`."""
        ...


class Watcher:
    """`opens` makes the source of a Connection; `most` are watched at once."""

    def __init__(
        self,
        assigned: assignments.Assignments,
        opens: Callable[[assignments.Claim], Awaitable[port.Source]],
        measured: metrics.Metrics,
        *,
        most: int,
        wall: Callable[[], datetime],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._assigned, self._opens, self._metrics = assigned, opens, measured
        self._most, self._wall, self._sleep = most, wall, sleep
        self._watches: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Until cancelled."""
        try:
            while True:
                if not await self._begun():
                    await self._sleep(_LOOK_SECONDS)
        finally:
            for one in self._watches:
                one.cancel()
            await asyncio.gather(*self._watches, return_exceptions=True)

    async def _begun(self) -> bool:
        if len(self._watches) >= self._most:
            return False
        try:
            claim = await self._assigned.watch(self._wall(), SECONDS + SLACK_SECONDS)
        except errors.Operational as error:
            log.info("nothing watched", reason=error.message)
            return False
        if claim is None:
            return False
        task = asyncio.create_task(self.watch(claim), name=f"watch {claim.namespace}/{claim.name}")
        self._watches.add(task)
        self._metrics.watched.set(len(self._watches))
        task.add_done_callback(self._done)
        return True

    def _done(self, task: asyncio.Task[None]) -> None:
        self._watches.discard(task)
        self._metrics.watched.set(len(self._watches))

    async def watch(self, claim: assignments.Claim) -> None:
        """Wait for news of one Connection, once."""
        news, pause = False, 0.0
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
        finally:
            now = self._wall()
            try:
                await self._assigned.watched(claim.uid, now, now + timedelta(seconds=pause), news=news)
            except errors.Operational as error:
                log.info("news not noted", connection=claim.name, reason=error.message)
