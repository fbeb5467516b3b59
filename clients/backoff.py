"""Delays before a retry. Numbers from seed 000; in seconds; no randomness, no clock."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Doubling:
    """`first`, then doubled each time, at most `cap`."""

    first: float
    cap: float

    def delay(self, count: int) -> float:
        """The delay after the `count`-th consecutive failure, `count` >= 1."""
        # 2**20 * first is far beyond any cap; the bound avoids an overflow for a large count.
        return min(self.cap, self.first * 2.0 ** min(max(count, 1) - 1, 20))


@dataclass(frozen=True, slots=True)
class Steps:
    """The listed delays in order; the last one repeats."""

    seconds: tuple[float, ...]

    def delay(self, count: int) -> float:
        """The delay after the `count`-th consecutive failure, `count` >= 1."""
        return self.seconds[min(max(count, 1), len(self.seconds)) - 1]


QUALIFICATION = Doubling(first=5.0, cap=300.0)
"""Seed 000 "Qualification Loop": 5 s, 10 s, 20 s ... 5 min, without end."""

DISPATCH = Steps((5.0, 15.0, 30.0, 60.0, 300.0))
"""Seed 000 "Orchestrator Dispatch Backoff"."""

PROBE = Doubling(first=2.0, cap=60.0)
"""Unreachable GPU backends."""

SECRET = Doubling(first=5.0, cap=300.0)
"""Missing credentials of Connections; existing ones are checked again after `cap`."""
