"""Two lanes for writers, so that bulk indexing never blocks a person (seed 001 "Dual Semaphore").

Five writers at once with priority 0..2, five with anything else. One that finds the wait queue full has to come back.
Writers that wait for models themselves (`/ingest/full`) have two lanes of their own: a slot there is held for minutes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from crds import priority
from kb import errors, metrics

# Seconds after which a writer that found the wait queue full should come back.
_COME_BACK = 5.0


class Lanes:
    """`width` writers per lane; at most `waiting` more may queue in each, half of them for one client at the most.

    `kind` is part of the lanes' names, where a process has more than two of them.
    """

    def __init__(self, meters: metrics.Metrics, *, width: int = 5, waiting: int = 200, kind: str = "") -> None:
        self._meters = meters
        self._waiting = waiting
        self._names = {urgent: f"{kind} {'urgent' if urgent else 'normal'}".strip() for urgent in (True, False)}
        self._slots = {name: asyncio.Semaphore(width) for name in self._names.values()}
        self._queued = dict.fromkeys(self._slots, 0)
        self._of_client: Counter[tuple[str, str | None]] = Counter()

    @asynccontextmanager
    async def enter(self, urgency: priority.Priority | None, client_id: str | None = None) -> AsyncIterator[None]:
        """Hold a slot of the lane of `urgency` (None, nothing named, is the normal one). Raises `errors.Crowded`.

        `client_id` is whose writer it is, None for work of the service itself.
        """
        lane = self._names[urgency is not None and urgency <= priority.URGENT]
        if self._slots[lane].locked() and self._queued[lane] >= self._waiting:
            raise errors.Crowded(f"{self._queued[lane]} writers wait in the {lane} lane", retry_after=_COME_BACK)
        mine = (lane, client_id)
        if client_id is not None and self._slots[lane].locked() and self._of_client[mine] >= max(self._waiting // 2, 1):
            raise errors.Crowded(
                f"{self._of_client[mine]} writers of client {client_id!r} wait in the {lane} lane",
                retry_after=_COME_BACK,
            )
        waiting = self._meters.lanes.labels(lane, "waiting")
        self._queued[lane] += 1
        self._of_client[mine] += 1
        waiting.inc()
        try:
            await self._slots[lane].acquire()
        finally:
            self._queued[lane] -= 1
            self._of_client[mine] -= 1
            if not self._of_client[mine]:
                del self._of_client[mine]
            waiting.dec()
        try:
            with self._meters.lanes.labels(lane, "writing").track_inprogress():
                yield
        finally:
            self._slots[lane].release()
