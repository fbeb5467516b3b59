"""Finishes what a crash, or an outage longer than its caller's patience, left open.

Level-based: it looks at the intent records, not at events. Repeating a request is always safe, so a caller that comes
back at the same time does no harm.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from crds import errors, priority
from kb import loops, metrics
from kb.ingest import lanes, pipeline, request_record

log = structlog.get_logger(__name__)


class Recovery:
    """Call `sweep` once, or `run` for ever.

    At the start everything open is taken, because its process is gone; later only what was not touched for `patience`.
    """

    def __init__(
        self,
        intents: request_record.IngestRequestRecords,
        pipe: pipeline.Pipeline,
        writers: lanes.Lanes,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        patience: timedelta,
    ) -> None:
        self._intents = intents
        self._pipeline = pipe
        self._lanes = writers
        self._meters = meters
        self._clock = clock
        self._patience = patience

    async def sweep(self, *, before: datetime) -> int:
        """Try every document left open since `before` once; returns how many were finished."""
        finished = 0
        after: request_record.IngestRequestRecord | None = None
        while page := await self._intents.unfinished(before=before, after=after):
            for record in page:
                finished += await self._finish(record)
            after = page[-1]
        counted = await self._intents.count()
        self._meters.unfinished.set(counted.get(request_record.State.OPEN, 0))
        self._meters.failed.set(counted.get(request_record.State.FAILED, 0))
        return finished

    async def _finish(self, record: request_record.IngestRequestRecord) -> bool:
        if await self._pipeline.in_work(record.document_id) or await self._pipeline.queued(record.document_id):
            return False
        try:
            async with self._lanes.enter(priority.Priority.P3):
                return await self._pipeline.resume(record.document_id, priority.Priority.P3)
        except errors.Operational as error:
            log.info("still open", document=record.document_id, attempts=record.attempts, reason=error.message)
            return False
        except errors.Permanent as error:
            log.warning("given up", document=record.document_id, reason=error.message)
            return False
        except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
            # A bug that one document meets must not keep those behind it open; it stays open itself and is counted.
            loops.failed("recovery", self._meters, document=record.document_id)
            return False

    async def run(self, *, interval: float) -> None:
        """Sweep at once and then every `interval` seconds until cancelled."""
        before = self._clock()
        while True:
            try:
                await self.sweep(before=before)
            except errors.Operational as error:
                log.warning("the intent records cannot be read", reason=error.message)
            await asyncio.sleep(interval)
            before = self._clock() - self._patience
