"""The loop that counts ended delegations, a batch at a time. On the leader only."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable

import structlog

from clients import backoff
from controllers import metrics
from controllers.delegations import store
from crds import errors

log = structlog.get_logger(__name__)

EVERY = 15.0
"""Seconds between two looks: about as often as Prometheus reads."""


class Counting:
    """Counts through `stored` into what `measured` exports; `sleep` is asyncio's."""

    def __init__(
        self,
        stored: store.Store,
        *,
        measured: metrics.Metrics,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._metrics, self._sleep = stored, measured, sleep
        self._backoff = backoff.Doubling(first=EVERY, cap=backoff.QUALIFICATION.cap)
        self.may_act = asyncio.Event()
        """Set once the lease is held; losing it ends the process."""

    async def work(self) -> None:
        """Count until cancelled."""
        await self.may_act.wait()
        failures = 0
        while True:
            try:
                await self.once()
                failures = 0
            except errors.Operational as error:
                failures += 1
                log.info("delegations are not counted", reason=error.message, failures=failures)
            except Exception:
                # The edge of a round: a bug here must not stop the tasks.
                failures += 1
                self._metrics.failures.inc()
                log.exception("counting delegations failed")
            await self._sleep(self._backoff.delay(failures) if failures else EVERY)

    async def once(self) -> int:
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
