"""Tokens and requests of each identity since midnight (UTC).

Counts are kept in memory. Where there is a `Store`, `Sync` adds what came since the last time to the sum that is
stored, so that counts survive a restart and several routers share them (decision 0042).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple, Protocol

import structlog
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from crds import errors

_log = structlog.get_logger("router.usage")

OTHERS = "(others)"
"""Identities above the bound are counted together."""
_DAY = timedelta(days=1)
_EVERY = 30.0
"""Seconds between two additions to the store: a crash loses what came since."""


class Count(NamedTuple):
    """Of one identity: inference requests that a backend answered, and their tokens."""

    requests: int = 0
    prompt: int = 0
    answer: int = 0

    @property
    def tokens(self) -> int:
        """What a limit counts."""
        return self.prompt + self.answer

    def plus(self, other: Count) -> Count:
        """The sum."""
        return Count(self.requests + other.requests, self.prompt + other.prompt, self.answer + other.answer)


NOTHING = Count()
Counts = Mapping[str, Count]


class Usage(Collector):
    """`wall` gives the time in UTC. Of a day, `most` identities are counted apart, and all that have a limit. As a
    collector it exports what this process counted since its start, in at most 2 * `most` series and one for `OTHERS`:
    the identities of yesterday and of today have one each."""

    def __init__(self, *, wall: Callable[[], datetime], most: int = 1000) -> None:
        self._wall = wall
        self._most = most
        self._day = wall().date()
        self._stored: dict[str, Count] = {}
        self._new: dict[str, Count] = {}
        self._apart = 0
        self._total: dict[str, Count] = {}
        self._seen: dict[str, date] = {}

    def add(self, identity: str, prompt: int, answer: int, *, limited: bool = False) -> None:
        """One request was answered. An identity whose tokens are `limited` is counted apart in any case."""
        self._turn()
        known = identity in self._new or identity in self._stored
        if not known and self._apart >= self._most and not limited:
            identity = OTHERS
        elif not known:
            self._apart += 1
        one = Count(1, prompt, answer)
        self._new[identity] = self._new.get(identity, NOTHING).plus(one)
        series = identity if identity in self._total or len(self._total) < 2 * self._most else OTHERS
        self._total[series] = self._total.get(series, NOTHING).plus(one)
        self._seen[series] = self._day

    def used(self, identity: str) -> Count:
        """Today's."""
        self._turn()
        return self._stored.get(identity, NOTHING).plus(self._new.get(identity, NOTHING))

    def today(self) -> dict[str, Count]:
        """All of today's, by identity."""
        self._turn()
        return {name: self.used(name) for name in sorted(self._stored.keys() | self._new.keys())}

    @property
    def day(self) -> date:
        """The day that is counted."""
        self._turn()
        return self._day

    def resets(self) -> datetime:
        """When the next day begins."""
        return datetime.combine(self.day + timedelta(days=1), datetime.min.time(), UTC)

    def seconds_left(self) -> int:
        """Until then, at least 1."""
        return max(1, int((self.resets() - self._wall()).total_seconds()) + 1)

    def pending(self) -> dict[str, Count]:
        """What is not stored yet, of today."""
        self._turn()
        return dict(self._new)

    def stored(self, day: date, counts: Counts, added: Counts) -> None:
        """The store holds `counts` of `day`, and `added` of `pending` are among them."""
        self._turn()
        if day != self._day:
            return
        self._stored = dict(counts)
        self._apart = len(self._stored.keys() | self._new.keys())
        for name, count in added.items():
            new = self._new[name]
            left = Count(*(now - then for now, then in zip(new, count, strict=True)))
            if left == NOTHING:
                del self._new[name]
            else:
                self._new[name] = left

    def _turn(self) -> None:
        """Begin a new day. A clock that is set back over midnight does not begin the old one again."""
        today = self._wall().date()
        if self._day - _DAY <= today <= self._day:
            return
        self._day, self._apart = today, 0
        self._stored, self._new = {}, {}
        # The values of yesterday's series may not have been read yet; older ones have been.
        for name in [name for name, day in self._seen.items() if name != OTHERS and abs(today - day) > _DAY]:
            del self._total[name], self._seen[name]

    def collect(self) -> Iterator[Metric]:
        """Requests and tokens by identity, since the process began or the identity was seen again after a day."""
        self._turn()
        requests = CounterMetricFamily(
            "jervis_router_identity_requests", "Requests of an identity that a backend answered.", labels=["identity"]
        )
        tokens = CounterMetricFamily("jervis_router_identity_tokens", "Their tokens.", labels=["identity", "of"])
        for name, count in self._total.items():
            requests.add_metric([name], count.requests)
            tokens.add_metric([name, "prompt"], count.prompt)
            tokens.add_metric([name, "answer"], count.answer)
        yield from (requests, tokens)


class Store(Protocol):
    """Where sums are kept. Both raise `crds.errors.JervisError`."""

    async def read(self) -> tuple[date | None, Counts, str]:
        """(day, counts of that day, version); (None, {}, version) when nothing is stored."""

    async def write(self, day: date, counts: Counts, version: str) -> None:
        """Replace what `read` gave with that version; fails when it was changed since."""


class Sync:
    """Keeps `usage` and `store` alike."""

    def __init__(self, usage: Usage, store: Store) -> None:
        self._usage = usage
        self._store = store
        self._failing = False
        self._leaving = asyncio.Event()

    async def run(self, interval: float = _EVERY) -> None:
        """Until `leave` was called; then once more."""
        while not self._leaving.is_set():
            await self.once()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._leaving.wait()
        await self.once()

    def leave(self) -> None:
        """The process goes. Its last counts are stored before `run` returns; that is never cancelled, because a write
        without a known answer would be counted twice."""
        self._leaving.set()

    async def once(self) -> None:
        """Read, add, write. What fails is tried again the next time, and nothing is lost meanwhile."""
        usage = self._usage
        try:
            day, counts, version = await self._store.read()
            today, new = usage.day, usage.pending()
            if day == today + _DAY:
                return  # the clock of another router is ahead: what it counted of the new day stays
            total = dict(counts) if day == today else {}
            for name, count in new.items():
                total[name] = total.get(name, NOTHING).plus(count)
            if new:
                await self._store.write(today, total, version)
            usage.stored(today, total, new)
        except errors.JervisError as error:
            if not self._failing:
                _log.warning("usage not stored", error=error.message)
            self._failing = True
        else:
            self._failing = False
