"""The loop that counts ended delegations, a batch at a time. On the leader only."""

from __future__ import annotations

import copy

from controllers import metrics
from controllers.delegations import store

EVERY = 15.0
"""Seconds between two looks: about as often as Prometheus reads."""


class Counting:
    """Counts through `stored` into what `measured` exports."""

    def __init__(self, stored: store.Store, *, measured: metrics.Metrics) -> None:
        self._store, self._metrics = stored, measured

    async def reconcile_once(self) -> None:
        """Count what is not counted. Raises `Operational`: the rest is counted later."""
        await self.count_ended()

    async def count_ended(self) -> int:
        """Count what is not counted; returns how many. Raises `Operational`: the rest is counted later."""
        number = 0
        batch = await self._store.stored()
        while True:
            self._metrics.delegations.totals = batch.totals
            await self._store.settle(batch.ids)
            found = await self._store.uncounted()
            if not found:
                return number
            more = copy.deepcopy(batch.totals)
            for one in found:
                more.add(one)
            after = store.Batch(batch.number + 1, [str(one["_id"]) for one in found], more)
            # Another leader was faster, or the answer was lost: what is stored counts.
            number += len(found) if await self._store.replace(batch.number, after) else 0
            batch = await self._store.stored()
