"""Backpressure for housekeeping: it pauses after each step while tasks are processed.

Without pauses, a sweep over hundreds of finished tasks uses the apiserver's capacity on a nearly saturated cluster:
active tasks then wait several times as long for their Jobs. The pause is a multiple of the step's duration, not a rate:
with a slow apiserver housekeeping slows down too, and without active tasks it runs at full speed. A `Schedule` bounds
the pauses, so that a backlog is processed in time under endless load (docs/decisions/0019).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

SHARE = 3.0
"""Seconds of pause per second of housekeeping, which thus uses a quarter of one client's time."""
MOST_SECONDS = 2.0
"""Longest pause: the duration of a step that timed out does not measure the load."""


class Backpressure:
    """`engaged` returns whether tasks are ready or in process. `sleep` is asyncio's."""

    def __init__(
        self,
        engaged: Callable[[], bool] = lambda: False,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._engaged, self._monotonic, self._sleep = engaged, monotonic, sleep

    def begin(self) -> float:
        """Start of a step; returns the time to pass to `after`."""
        return self._monotonic()

    async def after(self, begun: float, at_most: float = math.inf) -> None:
        """End of a step: if tasks are processed, pause in proportion to its duration, for up to `at_most` seconds."""
        pause = min(MOST_SECONDS, SHARE * (self._monotonic() - begun), at_most)
        if self._engaged() and pause >= 0:
            await self._sleep(pause)


class Schedule:
    """`number` items in `seconds` from now: time by which the work is ahead may be used for pauses."""

    def __init__(self, number: int, seconds: float, *, monotonic: Callable[[], float]) -> None:
        self._number, self._seconds = max(1, number), seconds
        self._monotonic, self._begun = monotonic, monotonic()

    def spare(self, done: int) -> float:
        """Seconds by which the work is ahead after `done` items; 0 if it is late."""
        due = self._begun + self._seconds * min(1.0, done / self._number)
        return max(0.0, due - self._monotonic())
