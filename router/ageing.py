"""How long each level may wait before it goes first: the guard against starving anybody.

A waiter whose limit is nearly over is *due*. While somebody more urgent waits, every `every`-th slot goes to who is
due, and the levels that have such waiters take turns, the oldest of a level first. So a backlog of old background work
is no wall for the next P0, and no level is shut out by an overload of the others: with the default each of them keeps
at least a sixteenth of the slots.

Source: the design's router page, "promote one class per N s: 5/30/120/600", "at most every k-th slot".
"""

from __future__ import annotations

from dataclasses import dataclass

from router.priority import Level

# Due a little before the limit, so that a request is served within it and not shortly after.
_LEAD = 0.9


@dataclass(frozen=True, slots=True)
class Ageing:
    """`limits` are seconds by `Level` (P0, P1, P2, Auto, P3)."""

    limits: tuple[float, float, float, float, float] = (5.0, 30.0, 120.0, 240.0, 600.0)
    every: int = 4

    def due(self, level: Level, arrived: float) -> float:
        """The moment from which a waiter goes before its level."""
        return arrived + _LEAD * self.limits[level]
