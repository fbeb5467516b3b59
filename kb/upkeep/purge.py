"""Forgets what shared records keep of owners that are long gone: turns, fences, processes, observers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime

import structlog

from crds import errors
from kb.erasure import places
from kb.graph import store as graph
from kb.ingest import mongo_locks, observers

log = structlog.get_logger(__name__)


class Purge:
    """Call `step` once, or `run` for ever. `clock` gives the current time in UTC."""

    def __init__(
        self,
        owners: mongo_locks.Turns,
        registry: places.Places,
        graph_store: graph.Store,
        known: observers.Observers,
        clock: Callable[[], datetime],
    ) -> None:
        self._turns = owners
        self._places = registry
        self._graph = graph_store
        self._observers = known
        self._clock = clock

    async def step(self) -> None:
        """Forget what is older than `claims.KEPT`, or `observers.KEPT`. Raises `kb.errors.Away`."""
        await self._places.purge()
        await self._turns.purge()
        await self._observers.purge()
        # A fence is the time of its turn: one that old belongs to no process that still writes.
        await self._graph.forget_fences(int((self._clock() - mongo_locks.KEPT).timestamp() * 1000))

    async def run(self, *, interval: float) -> None:
        """Look every `interval` seconds until cancelled."""
        while True:
            try:
                await self.step()
            except errors.Operational as error:
                log.warning("old owners are not forgotten", reason=error.message)
            await asyncio.sleep(interval)
