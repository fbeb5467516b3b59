"""The work queue: bounded, by rank, each key at most once, with one heap for all wake-ups.

A key in process is not handed out a second time; if it is put again meanwhile, it is ready again after `done`. The
queue does not interpret keys. Times are monotonic seconds, given by the caller.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

MANY = 4
"""Keys in process that show a slow apiserver: a reconciliation takes no longer than its requests."""

K = TypeVar("K")
Rank = tuple[Any, ...]
"""Comparable; smaller is sooner."""
Entry = tuple[Rank, int, K]
"""The number is unique, so keys are never compared."""


class _Last(Generic[K]):
    """An entry with the reverse order."""

    __slots__ = ("entry",)

    def __init__(self, entry: Entry[K]) -> None:
        self.entry = entry

    def __lt__(self, other: _Last[K]) -> bool:
        return other.entry < self.entry


class Ranked(Generic[K]):
    """A heap with replacement and removal: each key once, at its latest rank."""

    def __init__(self) -> None:
        self._heap: list[Entry[K]] = []
        self._live: dict[K, Entry[K]] = {}
        self._serial = itertools.count()
        self._last: list[_Last[K]] | None = None
        """The same entries with the greatest first, kept from the first call of `worst` until the heap is empty."""

    def __len__(self) -> int:
        return len(self._live)

    def __contains__(self, key: K) -> bool:
        return key in self._live

    def put(self, key: K, rank: Rank) -> None:
        """Add `key`, or move it to `rank`."""
        old = self._live.get(key)
        if old is not None and old[0] == rank:
            return
        entry = self._live[key] = (rank, next(self._serial), key)
        heapq.heappush(self._heap, entry)
        if self._last is not None:
            # If most entries are outdated, the next call of `worst` rebuilds the heap.
            crowded = len(self._last) > 2 * len(self._live) + 64
            heapq.heappush(self._last, _Last(entry))
            self._last = None if crowded else self._last
        if len(self._heap) > 2 * len(self._live) + 64:
            self._heap = list(self._live.values())
            heapq.heapify(self._heap)

    def discard(self, key: K) -> None:
        """Remove `key`, if present."""
        self._live.pop(key, None)

    def rank(self, key: K) -> Rank | None:
        """The rank of `key`; None if absent."""
        entry = self._live.get(key)
        return None if entry is None else entry[0]

    def peek(self) -> tuple[K, Rank] | None:
        """The first key and its rank, without removing it; None when empty."""
        while self._heap:
            rank, _, key = entry = self._heap[0]
            if self._live.get(key) is entry:
                return key, rank
            heapq.heappop(self._heap)
        return None

    def pop(self) -> tuple[K, Rank] | None:
        """Remove and return the first key; None when empty."""
        first = self.peek()
        if first is not None:
            heapq.heappop(self._heap)
            del self._live[first[0]]
        if not self._live:
            self._last = None
        return first

    def worst(self) -> tuple[K, Rank] | None:
        """The last key and its rank, without removing it; None when empty. O(log n) from the second call on."""
        if not self._live:
            self._last = None
            return None
        if self._last is None:
            self._last = [_Last(entry) for entry in self._live.values()]
            heapq.heapify(self._last)
        while self._live.get(self._last[0].entry[2]) is not self._last[0].entry:
            heapq.heappop(self._last)
        rank, _, key = self._last[0].entry
        return key, rank

    def ranks(self) -> Iterable[Rank]:
        """Every rank, unordered: for metrics."""
        return [rank for rank, _, _ in self._live.values()]


class WorkQueue(Generic[K]):
    """`put` from the event handlers, `get` and `done` from the workers, `wake` for later. Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float], capacity: int = 100_000) -> None:
        self._clock = clock
        self._capacity = capacity
        self._ready: Ranked[K] = Ranked()
        self._later: Ranked[K] = Ranked()
        self._rank_later: dict[K, Rank] = {}
        self._busy: set[K] = set()
        self._again: dict[K, Rank] = {}
        self._changed = asyncio.Event()
        self.overflowed = False
        """A key was rejected at capacity: once the queue is empty, the consumer has to reconcile everything again."""

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def active(self) -> int:
        """Keys in process."""
        return len(self._busy)

    @property
    def sleeping(self) -> int:
        """Keys that wait for their wake-up."""
        return len(self._later)

    def busy(self) -> bool:
        """Whether keys wait, or `MANY` are in process."""
        return len(self) > 0 or self.active >= MANY

    def put(self, key: K, rank: Rank) -> None:
        """Make `key` ready now, in the order of `rank`."""
        self._forget_wake(key)
        if key in self._busy:
            self._again[key] = rank
            return
        if key not in self._ready and len(self._ready) >= self._capacity:
            self.overflowed = True
            worst = self._ready.worst()
            if worst is None or worst[1] <= rank:
                return
            self._ready.discard(worst[0])
        self._ready.put(key, rank)
        self._changed.set()

    def wake(self, key: K, rank: Rank, at: float) -> None:
        """Make `key` ready no later than the monotonic second `at`."""
        if key in self._ready or key in self._again:
            return
        known = self._later.rank(key)
        if known is not None and known[0] <= at:
            return
        self._later.put(key, (at,))
        self._rank_later[key] = rank
        self._changed.set()

    def forget(self, key: K) -> None:
        """Drop `key`: it no longer exists."""
        self._ready.discard(key)
        self._again.pop(key, None)
        self._forget_wake(key)

    async def get(self) -> K:
        """The next key; it is in process until `done`."""
        while True:
            self._promote()
            first = self._ready.pop()
            if first is not None:
                self._busy.add(first[0])
                if len(self._ready):
                    self._changed.set()
                return first[0]
            self._changed.clear()
            await self._sleep()

    def done(self, key: K) -> None:
        """`key` is processed; if it was put meanwhile, it is ready again."""
        self._busy.discard(key)
        rank = self._again.pop(key, None)
        if rank is not None:
            self.put(key, rank)

    def depth(self) -> Iterable[Rank]:
        """Ranks of all ready keys: for metrics."""
        return self._ready.ranks()

    async def _sleep(self) -> None:
        first = self._later.peek()
        timeout = None if first is None else max(0.0, first[1][0] - self._clock())
        try:
            async with asyncio.timeout(timeout):
                await self._changed.wait()
        except TimeoutError:
            # A wake-up is due; the caller promotes it next.
            return

    def _promote(self) -> None:
        now = self._clock()
        while (first := self._later.peek()) is not None and first[1][0] <= now:
            key = first[0]
            rank = self._rank_later[key]
            self._forget_wake(key)
            self.put(key, rank)

    def _forget_wake(self, key: K) -> None:
        self._later.discard(key)
        self._rank_later.pop(key, None)
