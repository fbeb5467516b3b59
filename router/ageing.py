"""How long each level may wait before it goes first: the guard against starvation.

A waiter whose limit is nearly over is *due*. While others wait as well, every `every`-th slot of a backend goes to a
request that is due; the levels that have such requests take turns, the oldest of a level first. Each backend has one
account of this (`Turns`) for all of its models, because they share its slots. A request that is due goes before a P0
only after `every` - 1 P0s in a row: a P0 never waits for anything but what runs and for other P0s. So an old backlog
does not stand before the next P0, and no level is shut out by an overload of the others: with the default at least one
slot in seven goes to the requests that are due.

Source: the design's router page, "promote one class per N s: 5/30/120/600", "at most every k-th slot".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from router.priority import Level
from router.waiting import SlotRequest

# Due a little before the limit, so that a request is served within it and not shortly after.
_LEAD = 0.9
_P0 = Level.P0


@dataclass(frozen=True, slots=True)
class Ageing:
    """`limits` are seconds by `Level` (P0, P1, P2, Auto, P3)."""

    limits: tuple[float, float, float, float, float] = (5.0, 30.0, 120.0, 240.0, 600.0)
    every: int = 4

    def due(self, level: Level, arrived: float) -> float:
        """The moment from which a waiter goes before its level."""
        return arrived + _LEAD * self.limits[level]


class Turns:
    """One backend's account of the slots that it gave."""

    __slots__ = ("_critical", "_given", "_last")

    def __init__(self) -> None:
        self._given = 0
        """Slots since the last one that went to a request because it was due."""
        self._critical = 0
        """P0s in a row among them, up to now."""
        self._last = [0] * len(Level)
        """By level: the number of the turn in which it got such a slot for the last time."""

    def owed(self, ageing: Ageing, usual: SlotRequest | None) -> bool:
        """Does the next slot go to a request that is due, before `usual`, which would get it otherwise?"""
        if usual is None:
            return True
        return (self._critical if usual.level is Level.P0 else self._given) + 1 >= ageing.every

    def choose(self, due: Iterable[SlotRequest], ageing: Ageing, usual: SlotRequest | None) -> SlotRequest | None:
        """Which of those that are due: `usual`'s level last, then the level whose turn is longest ago, then the one
        that is due for longest."""
        return min(
            due,
            key=lambda one: (
                usual is not None and one.level is usual.level,
                self._last[one.level],
                ageing.due(one.level, one.arrived),
            ),
            default=None,
        )

    def count(self, level: Level, promoted: bool) -> None:
        """A request of that level got a slot; `promoted`: because it was due."""
        if promoted:
            self._given = self._critical = 0
            self._last[level] = max(self._last) + 1
        else:
            self._given += 1
            self._critical = self._critical + 1 if level is _P0 else 0
