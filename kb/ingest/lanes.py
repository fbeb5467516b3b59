"""Two lanes for writers, so that bulk indexing never blocks a person (seed 001 "Dual Semaphore").

Five writers at once with priority 0..2, five with anything else. Who finds the waiting room full is told to come back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crds import priority
from kb import errors, metrics

# Seconds after which a writer who found the waiting room full should come back.
_COME_BACK = 5.0


class Lanes:
    """`width` writers per lane; at most `waiting` more may queue in each."""

    def __init__(self, meters: metrics.Metrics, *, width: int = 5, waiting: int = 200) -> None:
        self._meters = meters
        self._waiting = waiting
        self._slots = {"urgent": asyncio.Semaphore(width), "normal": asyncio.Semaphore(width)}
        self._queued = {"urgent": 0, "normal": 0}

    @asynccontextmanager
    async def enter(self, urgency: priority.Priority | None) -> AsyncIterator[None]:
        """Hold a slot of the lane of `urgency` (None, nothing named, is the normal one). Raises `errors.Crowded`."""
        lane = "urgent" if urgency is not None and urgency <= priority.URGENT else "normal"
        if self._slots[lane].locked() and self._queued[lane] >= self._waiting:
            raise errors.Crowded(f"{self._queued[lane]} writers wait in the {lane} lane", retry_after=_COME_BACK)
        waiting = self._meters.lanes.labels(lane, "waiting")
        self._queued[lane] += 1
        waiting.inc()
        try:
            await self._slots[lane].acquire()
        finally:
            self._queued[lane] -= 1
            waiting.dec()
        try:
            with self._meters.lanes.labels(lane, "writing").track_inprogress():
                yield
        finally:
            self._slots[lane].release()
