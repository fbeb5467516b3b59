"""The one loop type of the operator: a controller reconciles once, the loop waits, and so on until it is cancelled.

A controller has `reconcile_once`, and knows neither when it is called nor whether this process leads.
`controllers.runtime.loops` lists the loops of the process. An error decides by its retry meaning how a loop goes on:

    Operational   logged as information; again after the delay of `retry`
    Permanent     logged as a warning, since an input has to change; again after the delay of `retry`
    any other     an error of ours: logged with its traceback and counted; again after the delay of `retry`

`kube.lease.Fenced` is Operational: nothing is written then, and the Lease itself ends a process that has lost it.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog

from clients import backoff
from controllers import metrics
from crds import errors

log = structlog.get_logger(__name__)


class RequeueAfter(NamedTuple):
    """When the next pass is due, in seconds from now, where that is not the loop's interval. `math.inf`: when the
    loop is woken."""

    seconds: float


WHEN_WOKEN = RequeueAfter(math.inf)
Reconcile = Callable[[], Awaitable[RequeueAfter | None]]


def growing(interval: float) -> backoff.Doubling:
    """The delays of a loop that asks less and less while a service is away: its interval, doubled up to 5 minutes."""
    return backoff.Doubling(first=interval, cap=max(interval, backoff.QUALIFICATION.cap))


@dataclass(frozen=True, slots=True)
class Periodic:
    """A loop of that `name`, which its metrics and its log have. One pass is `reconcile_once`; `interval` is the time
    between two of them.

    `leads`: it runs only while this process holds the Lease. `retry` has the delays after errors in a row, None: the
    interval each time. `wake` begins the next pass at once when it is set. `monotonic` is the clock; no random number
    is drawn, since one process at a time leads.
    """

    name: str
    reconcile_once: Reconcile
    interval: float
    measured: metrics.Metrics
    leads: bool = True
    retry: backoff.Doubling | None = None
    wake: asyncio.Event | None = None
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)

    async def run(self, leading: asyncio.Event) -> None:
        """Reconcile until cancelled; a loop that leads begins once `leading` is set."""
        if self.leads:
            await leading.wait()
        failures = 0
        while True:
            if self.wake is not None:
                self.wake.clear()
            started = self.monotonic()
            try:
                requeue = await self.reconcile_once()
            except errors.JervisError as error:
                failures += 1
                self._failed(error, failures)
            except Exception:
                # The edge of a loop: an error of ours must stop neither the tasks nor the other loops.
                failures += 1
                self.measured.failures.inc()
                self.measured.loop_errors.labels(self.name, "failed").inc()
                log.exception("an unexpected error; the loop goes on", loop=self.name, failures=failures)
            else:
                failures = 0
            self.measured.loop_seconds.labels(self.name).observe(self.monotonic() - started)
            if failures:
                await self._wait(self.interval if self.retry is None else self.retry.delay(failures))
            else:
                await self._wait(self.interval if requeue is None else requeue.seconds)

    def _failed(self, error: errors.JervisError, failures: int) -> None:
        operational = isinstance(error, errors.Operational)
        self.measured.loop_errors.labels(self.name, "operational" if operational else "permanent").inc()
        say = log.info if operational else log.warning
        say("the loop is not done and goes on later", loop=self.name, reason=error.message, failures=failures)

    async def _wait(self, seconds: float) -> None:
        if self.wake is None:
            await self.sleep(seconds)
            return
        try:
            async with asyncio.timeout(None if seconds == math.inf else seconds):
                await self.wake.wait()
        except TimeoutError:
            return
