"""Deletes stored content that nothing refers to any more.

Content is kept while a task's memory or an archived task refers to it, while an ingest that is open or queued needs it,
and for `keep` after its last use in any case. A live PendingTask cannot be asked from here, which is what `keep` is
for: it must be longer than the longest time for which a task waits for its schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from contracts import mongo_collections
from crds import errors
from kb import metrics, mongo

log = structlog.get_logger(__name__)
# Where an archived or dispatched task names content.
_MEMORY = ("contentRef.key", "attachments.contentRef.key")
_ARCHIVE = tuple(f"object.spec.{place}" for place in _MEMORY)


class Shelf(Protocol):
    """What the sweeper asks of the content store."""

    async def idle(self, *, before: datetime, limit: int = 500) -> list[str]:
        """Keys of what was not used since `before`."""
        ...

    async def touch(self, key: str) -> None:
        """Count as used now."""
        ...

    async def discard(self, key: str, *, before: datetime) -> bool:
        """Delete it unless it was used since."""
        ...


class Holder(Protocol):
    """Work that is not done: the intents and the queue."""

    async def mentions(self, text: str) -> bool:
        """Whether a request contains `text`."""
        ...


class Sweeper:
    """Call `sweep` once, or `run` for ever."""

    def __init__(
        self,
        shelf: Shelf,
        database: mongo.Database,
        holders: Sequence[Holder],
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        keep: timedelta,
    ) -> None:
        self._shelf = shelf
        self._database = database
        self._holders = holders
        self._meters = meters
        self._clock = clock
        self._keep = keep

    async def sweep(self) -> int:
        """Look at what is idle once; returns how much was deleted. Raises `kb.errors.Away`."""
        before = self._clock() - self._keep
        gone = 0
        for key in await self._shelf.idle(before=before):
            if await self._referred(key):
                await self._shelf.touch(key)  # looked at again after another period, not in every sweep
            elif await self._shelf.discard(key, before=before):
                gone += 1
        if gone:
            self._meters.swept.inc(gone)
            log.info("content swept", count=gone)
        return gone

    async def run(self, *, interval: float) -> None:
        """Sweep at once and then every `interval` seconds until cancelled."""
        while True:
            try:
                await self.sweep()
            except errors.Operational as error:
                log.warning("content cannot be swept", reason=error.message)
            await asyncio.sleep(interval)

    async def _referred(self, key: str) -> bool:
        for holder in self._holders:
            if await holder.mentions(key):
                return True
        with mongo.translated():
            for collection, places in ((mongo_collections.MEMORY, _MEMORY), (mongo_collections.ARCHIVE, _ARCHIVE)):
                query = {"$or": [{place: key} for place in places]}
                if await self._database[collection].find_one(query, {"_id": 1}) is not None:
                    return True
        return False
