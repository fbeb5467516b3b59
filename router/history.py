"""The last fifteen minutes as a few numbers: what the plots of the page show.

Every few seconds the counters are read and compared with the time before; a request costs nothing more for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from pydantic import Field

from contracts import openapi
from router import metrics, scheduler, status
from router.proxy.message import Own, Reply, Request

SAMPLES = 180
EVERY = 5.0


class Waits(status.Wire):
    """How long the requests of one priority waited for their slot, in seconds, as exactly as the histogram tells."""

    count: int = Field(description="requests whose answer began")
    p50: float
    p95: float


class Sample(status.Wire):
    """What happened between the sample before and this one."""

    at: datetime = Field(description="its end, UTC")
    seconds: float = Field(description="its length")
    tokens_per_second: float = Field(description="tokens of answers, counted when an answer ends")
    prompt_tokens_per_second: float
    swaps: int = Field(description="changes of model sets, of all backends")
    waits: dict[str, Waits] = Field(description="by priority; those without a request are left out")


class History(status.Wire):
    """The oldest sample first."""

    every_seconds: float
    samples: list[Sample]


class _Counts(NamedTuple):
    at: float
    totals: metrics.Totals
    swaps: int


class Recorder:
    """A ring of `most` samples. `now` is monotonic seconds, `wall` the time in UTC."""

    def __init__(
        self,
        counters: metrics.Metrics,
        plan: scheduler.Scheduler,
        *,
        now: Callable[[], float],
        wall: Callable[[], datetime],
        every: float = EVERY,
        most: int = SAMPLES,
    ) -> None:
        self._metrics, self._plan = counters, plan
        self._now, self._wall, self._every = now, wall, every
        self._samples: deque[Sample] = deque(maxlen=most)
        self._before = self._counts()
        self._text: bytes | None = None

    async def run(self) -> None:
        """Take samples for ever."""
        while True:
            await asyncio.sleep(self._every)
            self.sample()

    def sample(self) -> None:
        """Take one."""
        before, after = self._before, self._counts()
        self._before, self._text = after, None
        seconds = max(after.at - before.at, 1e-9)
        waits = {}
        for level, counts in after.totals.queue.items():
            earlier = before.totals.queue.get(level)
            fresh = counts if earlier is None else [n - m for n, m in zip(counts, earlier, strict=True)]
            if number := sum(fresh):
                waits[level] = Waits(count=number, p50=_quantile(fresh, 0.5), p95=_quantile(fresh, 0.95))
        self._samples.append(
            Sample(
                at=self._wall(),
                seconds=round(seconds, 3),
                tokens_per_second=round((after.totals.tokens - before.totals.tokens) / seconds, 2),
                prompt_tokens_per_second=round((after.totals.prompt - before.totals.prompt) / seconds, 2),
                swaps=max(0, after.swaps - before.swaps),  # a backend that went took its count along
                waits=waits,
            )
        )

    def document(self) -> History:
        """All samples."""
        return History(every_seconds=self._every, samples=list(self._samples))

    def routes(self) -> Mapping[str, Own]:
        """`GET /router/history`."""

        async def show(request: Request) -> Reply:
            if self._text is None:
                self._text = self.document().model_dump_json(by_alias=True).encode()
            return Reply(body=self._text)

        return {"/router/history": show}

    def _counts(self) -> _Counts:
        swaps = sum(host.residency.swaps for host in self._plan.hosts() if host.residency is not None)
        return _Counts(self._now(), self._metrics.totals(), swaps)


def _quantile(counts: Sequence[int], share: float) -> float:
    """From counts by `metrics.SECONDS`, as if values lay evenly in each bucket; the last bound stands for the rest."""
    rank, seen, low = share * sum(counts), 0.0, 0.0
    for bound, count in zip(metrics.SECONDS, counts, strict=False):
        if count and seen + count >= rank:
            return round(low + (bound - low) * (rank - seen) / count, 4)
        seen, low = seen + count, bound
    return float(metrics.SECONDS[-1])


def operation() -> openapi.Operation:
    """For the OpenAPI document."""
    answer = openapi.Answer(f"Up to {SAMPLES} samples of {EVERY:g} s, the oldest first", openapi.json(History))
    summary = "Tokens a second, waits and swaps of the last fifteen minutes"
    return openapi.Operation("GET", "/router/history", summary, {200: answer})
