"""Forgets versions of documents that were replaced long ago (decision 0059)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from crds import errors
from kb import metrics, selection
from kb.graph import store as graph
from kb.ingest import document_locks
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)


class Keeper:
    """Call `sweep` once, or `run` for ever. `clock` gives the time in UTC."""

    def __init__(
        self,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        keep: timedelta,
    ) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._meters = meters
        self._clock = clock
        self._keep = keep

    async def sweep(self, turn: document_locks.Turn | None = None) -> int:
        """Forget what was replaced longer ago than `keep`; how many versions that were. Raises `kb.errors.Away`.

        `turn` is that of the duty. Raises `kb.errors.Outrun` when another process has it by now.
        """
        turn = turn or document_locks.Turn()
        before = selection.millis(self._clock() - self._keep)
        gone = 0
        for client_id in await self._graph.clients():
            turn.check()
            gone += await self._graph.expire(client_id, before)
            await self._vectors.expire(client_id, before)
        self._meters.expired.inc(gone)
        if gone:
            log.info("versions expired", count=gone)
        return gone

    async def run(self, turn: document_locks.Turn, *, interval: float) -> None:
        """Sweep at once and then every `interval` seconds until cancelled."""
        while True:
            try:
                await self.sweep(turn)
            except errors.Operational as error:
                log.warning("versions cannot be swept", reason=error.message)
            await asyncio.sleep(interval)
