"""Housekeeping steps aside for the work: after each of its steps it leaves the apiserver and MongoDB alone for longer.

A sweep over hundreds of finished tasks, one request upon the other, takes from a cluster that is nearly busy what the
tasks under way would need: each of them then waits several times as long for its Job. Yielding is by time and not by a
rate: where the apiserver is slow the housekeeping is slower still, and where nobody works it goes as fast as it can
(docs/decisions/0021).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

SHARE = 3.0
"""Seconds of pause per second of housekeeping: it takes a quarter of one client's time."""
MOST_SECONDS = 2.0
"""Of one pause: a step that met a timeout says nothing about the load."""


class Courtesy:
    """`engaged`: tasks are being looked at, or wait to be. `sleep` is asyncio's."""

    def __init__(
        self,
        engaged: Callable[[], bool] = lambda: False,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engaged, self._monotonic, self._sleep = engaged, monotonic, sleep

    def begin(self) -> float:
        """A step begins: the moment to hand to `after`."""
        return self._monotonic()

    async def after(self, begun: float) -> None:
        """The step is over: pause in proportion to it, if somebody works."""
        if self._engaged():
            await self._sleep(min(MOST_SECONDS, SHARE * (self._monotonic() - begun)))
