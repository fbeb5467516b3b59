"""Retries against an unavailable service: exponential waits with jitter, at least the service's Retry-After, bounded.

The run itself retries operational errors of the router, the knowledge base and MongoDB for a bounded time. Then it ends
as Unavailable and the operator's dispatch backoff follows (seed 000 "Orchestrator Dispatch Backoff").
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from crds import errors

T = TypeVar("T")
_log = structlog.get_logger("orchestrator_job.store.retry")


class Retry:
    """`seconds` bounds the time of one call's retries; `first` and `longest` bound a single wait.

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

    async def call(self, what: str, operation: Callable[[], Awaitable[T]], *, most: float = math.inf) -> T:
        """The value of `operation`, retried while it raises Operational; raises the last one when the time is over.

        `operation` must be safe to repeat. `what` names it in the log. `most` seconds bound it besides.
        """
        end = self._clock() + min(self._seconds, most)
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
