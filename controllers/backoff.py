"""How long to wait before the next try. Numbers from seed 000; all in seconds; no randomness, no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubling:
    """`first`, then twice as long each time, never more than `cap`."""

    first: float
    cap: float

    def delay(self, count: int) -> float:
        """The wait after the `count`-th failure in a row, `count` >= 1."""
        # 2**20 * first is far beyond any cap; the bound keeps the power small for a count that grows for ever.
        return min(self.cap, self.first * 2.0 ** min(max(count, 1) - 1, 20))


@dataclass(frozen=True, slots=True)
class Steps:
    """The listed waits in order; the last one stays."""

    seconds: tuple[float, ...]

    def delay(self, count: int) -> float:
        """The wait after the `count`-th failure in a row, `count` >= 1."""
        return self.seconds[min(max(count, 1), len(self.seconds)) - 1]


QUALIFICATION = Doubling(first=5.0, cap=300.0)
"""Seed 000 "Qualification Loop": 5 s, 10 s, 20 s ... 5 min, for ever."""

DISPATCH = Steps((5.0, 15.0, 30.0, 60.0, 300.0))
"""Seed 000 "Orchestrator Dispatch Backoff"."""

PROBE = Doubling(first=2.0, cap=60.0)
"""Unreachable GPU backends."""

SECRET = Doubling(first=5.0, cap=300.0)
"""Credentials of Connections that are not there; those that are get looked at again after the longest wait."""
