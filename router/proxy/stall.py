"""The watch over exchanges that stand still.

For clients there is no total timeout: a healthy stream may last for hours. What is bounded is silence, per phase: until
the backend's first byte, between its chunks, and until a client takes what was written to it. Requests of Jervis's own
are bounded as a whole, too, because a small model in a loop writes until it is stopped (decision 0171). One sweep a
second looks at all exchanges, so that a chunk costs no timer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds of silence. `first` is longer than OLLAMA_LOAD_TIMEOUT (5 min); an answer that is not streamed comes in
    one piece when it is finished, so `whole` bounds that; `embedding` bounds vectors, which take less. `whole` bounds
    the silence of a request with tools as well: Ollama sends nothing while it composes a tool call."""

    first: float = 330.0
    whole: float = 3600.0
    embedding: float = 600.0
    between: float = 120.0
    write: float = 60.0
    cpu_first: float = 1800.0
    """In place of `first` on a CPU, which reads a long prompt at a tenth of a GPU's speed or less."""
    cpu_between: float = 600.0
    hold: float = NEVER
    """Seconds from the first byte of an answer on for which a request of Jervis's own may hold a GPU. It counts neither
    the wait in the queue, nor the load of the model, nor the prompt that is read."""
    foreign_hold: float = NEVER
    """The same for all other clients."""

    def held(self, *, internal: bool) -> float:
        """The longest hold of a request."""
        return self.hold if internal else self.foreign_hold


class Guarded(Protocol):
    """An exchange under watch."""

    since: float
    """When something happened last."""
    limit: float
    """Seconds of silence that are allowed from then on; NEVER while nothing is waited for."""

    def expire(self, limit: float) -> None:
        """That limit is over; called once until `limit` is set anew."""

    ends: float
    """When its hold of a GPU ends, in monotonic seconds; NEVER while nothing bounds it."""

    def exceed(self) -> None:
        """That time has come; called once."""

    def cut(self) -> None:
        """The process goes."""

    def lose(self, backend: str) -> None:
        """That backend answers nothing any more."""


class Watch:
    """All exchanges of a process."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._guarded: set[Guarded] = set()
        self.open: Callable[[Guarded], None] = self._guarded.add
        """Look at an exchange until it is closed."""
        self.close: Callable[[Guarded], None] = self._guarded.discard
        """An exchange is over."""

    def __len__(self) -> int:
        return len(self._guarded)

    def sweep(self) -> int:
        """Expire what stands still, and end what has held its GPU for too long; returns how many."""
        now = self._now()
        over = [one for one in self._guarded if now > one.ends]
        for one in over:
            one.ends = NEVER
            one.exceed()
        late = [one for one in self._guarded if now - one.since > one.limit]
        for one in late:
            limit, one.limit = one.limit, NEVER
            one.expire(limit)
        return len(over) + len(late)

    def lose(self, backend: str) -> None:
        """A backend answers nothing any more: what has not begun there need not wait for its limit."""
        for one in list(self._guarded):
            one.lose(backend)

    def cut_all(self) -> int:
        """The process goes: end every exchange; returns how many."""
        guarded = list(self._guarded)
        for one in guarded:
            one.cut()
        return len(guarded)

    async def run(self, interval: float = 1.0) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(interval)
            self.sweep()
