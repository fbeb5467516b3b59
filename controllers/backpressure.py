"""Backpressure for housekeeping: after each of its steps it pauses while tasks are processed.

A sweep over hundreds of finished tasks, one request upon the other, takes from a cluster that is nearly busy what the
tasks under way need: each of them then waits several times as long for its Job. The pause is a multiple of the step's
own time and not a rate: where the apiserver is slow the housekeeping is slower still, and without live work it runs at
full speed. A `Schedule` bounds the pauses, so that a pile is done in time under a load that never ends
(docs/decisions/0021).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

SHARE = 3.0
"""Seconds of pause per second of housekeeping: it takes a quarter of one client's time."""
MOST_SECONDS = 2.0
"""Of one pause: a step that met a timeout says nothing about the load."""


class Backpressure:
    """`engaged`: tasks are processed or wait for it. `sleep` is asyncio's."""

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

    async def after(self, begun: float, at_most: float = math.inf) -> None:
        """The step is over: pause in proportion to it if tasks are processed, for at most so many seconds."""
        pause = min(MOST_SECONDS, SHARE * (self._monotonic() - begun), at_most)
        if self._engaged() and pause >= 0:
            await self._sleep(pause)


class Schedule:
    """`number` items in `seconds`, counted from now: what is left of the time after some of them may be paused for."""

    def __init__(self, number: int, seconds: float, *, monotonic: Callable[[], float]) -> None:
        self._number, self._seconds = max(1, number), seconds
        self._monotonic, self._begun = monotonic, monotonic()

    def spare(self, done: int) -> float:
        """Seconds by which the work is ahead with `done` items; 0 when it is late."""
        due = self._begun + self._seconds * min(1.0, done / self._number)
        return max(0.0, due - self._monotonic())
