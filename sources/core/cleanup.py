"""The loop that deletes what nothing refers to any more, such as clones and uploads, by the steps that it is given.

A step that fails is repeated at the next time and holds up no other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog

from crds import errors
from sources import metrics
from sources.core import items

log = structlog.get_logger("sources")
EVERY_SECONDS = 600.0
DAILY, KEPT = timedelta(days=1), timedelta(days=30)
Step = Callable[[], Awaitable[int]]
"""How much was deleted."""


class Cleanup:
    """`steps` by what they delete, a word of the metric `jervis_sources_left_over_total`."""

    def __init__(
        self,
        steps: Mapping[str, Step],
        measured: metrics.Metrics,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._steps, self._metrics, self._sleep = dict(steps), measured, sleep

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._sleep(EVERY_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Each step once."""
        for kind, step in self._steps.items():
            try:
                count = await step()
            except (errors.JervisError, OSError) as error:
                # A volume that is full or read-only, a database that is away.
                log.warning("what is left over is not deleted", kind=kind, reason=str(error))
            except Exception:
                # The edge of a round: a bug of ours in one step must not end the process.
                self._metrics.loop_failures.inc()
                log.exception("what is left over is not deleted", kind=kind)
            else:
                self._metrics.left_over.labels(kind).inc(count)
                if count:
                    log.info("what was left over is deleted", kind=kind, count=count)


def versions(stored: items.Items, wall: Callable[[], datetime]) -> Step:
    """Of items that have had a newer one for `KEPT`, looked for once a day: all of them are read. Raises
    `Unavailable`."""
    looked: list[datetime] = []

    async def step() -> int:
        now = wall()
        if looked and now - looked[-1] < DAILY:
            return 0
        looked[:] = [now]
        return await stored.outdated(now - KEPT)

    return step
