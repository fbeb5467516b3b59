"""Insisting on a service that is away: doubling waits with jitter, a service's own wish first, an end in sight.

Operational errors of the router, the knowledge base and MongoDB are outwaited here, inside the run, for a bounded time;
after that the run ends as Unavailable and the operator's dispatch backoff takes over (seed 000 "Orchestrator Dispatch
Backoff").
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from crds import errors

T = TypeVar("T")
_log = structlog.get_logger("orchestrator_job.patience")


class Patience:
    """`seconds` bounds the waiting of one call; `first` and `longest` bound a single wait.

    `clock` is monotonic seconds, `sleep` waits, `draw` gives 0 <= x < 1 for the jitter.
    """

    def __init__(
        self,
        seconds: float,
        *,
        first: float = 0.25,
        longest: float = 15.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._seconds = seconds
        self._first = first
        self._longest = longest
        self._clock = clock
        self._sleep = sleep
        self._draw = draw

    async def insist(self, what: str, operation: Callable[[], Awaitable[T]]) -> T:
        """The value of `operation`, repeated while it raises Operational; the last such error when time is up.

        `operation` must be safe to repeat. `what` names it in the log.
        """
        end = self._clock() + self._seconds
        tries = 0
        while True:
            try:
                return await operation()
            except errors.Operational as error:
                wait = self._wait(tries, error.retry_after)
                if self._clock() + wait > end:
                    raise
                tries += 1
                _log.warning("waiting", what=what, tries=tries, wait_seconds=round(wait, 2), reason=error.message)
            await self._sleep(wait)

    def _wait(self, tries: int, wished: float | None) -> float:
        backoff = min(self._first * 2.0**tries, self._longest)
        return max(backoff * (0.5 + self._draw() / 2), wished or 0.0)
