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
from kb import metrics
from kb.ingest import intent, lanes, pipeline, source

log = structlog.get_logger(__name__)


class Recovery:
    """Call `sweep` once, or `run` for ever.

    At the start everything open is taken, because its process is gone; later only what nobody touched for `patience`.
    """

    def __init__(
        self,
        intents: intent.Intents,
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
        for record, request in await self._intents.unfinished(before=before):
            if self._pipeline.in_work(record.document_id) or await self._pipeline.queued(record.document_id):
                continue
            try:
                recorded = source.recorded(request)
            except errors.Permanent as error:
                # Written by another version of this program: nobody but the caller can say it anew.
                await self._intents.fail(record.document_id, error.message, self._clock())
                continue
            try:
                async with self._lanes.enter(priority.Priority.P3):
                    await self._pipeline.ingest(recorded, priority.Priority.P3)
            except errors.Operational as error:
                log.info("still open", source_urn=record.source_urn, attempts=record.attempts, reason=error.message)
            except errors.Permanent as error:
                log.warning("given up", source_urn=record.source_urn, reason=error.message)
            else:
                finished += 1
        self._meters.unfinished.set((await self._intents.count()).get(intent.State.OPEN, 0))
        return finished

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
