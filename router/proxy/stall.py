"""The watch over exchanges that stand still.

There is no total timeout: a healthy stream may last for hours. What is bounded is silence, per phase: until the
backend's first byte, between its chunks, and until a client takes what was written to it. One sweep a second looks at
all exchanges, so that a chunk costs no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of silence. `first` is longer than OLLAMA_LOAD_TIMEOUT (5 min); an answer that is not streamed comes in
    one piece when it is finished, so `whole` bounds that."""

    first: float = 330.0
    whole: float = 3600.0
    between: float = 120.0
    write: float = 60.0


class Guard:
    """The deadline of one exchange: `expire` is called once when `limit` seconds pass without a `move`, `cut` when the
    process goes."""

    __slots__ = ("cut", "expire", "limit", "since")

    def __init__(self, cut: Callable[[], None]) -> None:
        self.cut = cut
        self.limit = 0.0
        self.since = 0.0
        self.expire: Callable[[], None] | None = None

    def move(self, now: float, limit: float, expire: Callable[[], None]) -> None:
        """Something happened; from now on `limit` holds."""
        self.since = now
        self.limit = limit
        self.expire = expire

    def forget(self) -> None:
        """The exchange is over: let go of it, so that no cycle keeps it in memory until a collection."""
        self.expire = None
        self.cut = _nothing


def _nothing() -> None:
    """Nothing is left to cut."""


class Watch:
    """All guards of a process."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._guards: set[Guard] = set()

    def open(self, cut: Callable[[], None]) -> Guard:
        """A guard that is swept until it is closed."""
        guard = Guard(cut)
        self._guards.add(guard)
        return guard

    def close(self, guard: Guard) -> None:
        """The exchange is over."""
        self._guards.discard(guard)

    def __len__(self) -> int:
        return len(self._guards)

    def sweep(self) -> int:
        """Expire what stands still; returns how many."""
        now = self._now()
        late = [g for g in self._guards if g.expire is not None and now - g.since > g.limit]
        for guard in late:
            expire, guard.expire = guard.expire, None
            if expire is not None:
                expire()
        return len(late)

    def cut_all(self) -> int:
        """The process goes: end every exchange; returns how many."""
        guards = list(self._guards)
        for guard in guards:
            guard.cut()
        return len(guards)

    async def run(self, interval: float = 1.0) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(interval)
            self.sweep()
