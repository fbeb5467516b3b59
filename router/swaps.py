"""When a GPU changes from one model set to another, and which GPU does: pure rules.

Changing costs a drain, an unload and a load, so requests for the loaded set are collected and served first (A B A B
becomes A A B B), a set stays for a while, and background work alone causes no change before it is due, unless the GPU
has nothing else to do. An announced reservation stands against every change; one that came with a P0 request yields to
another P0 and to who is due.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from router.priority import Level


class Demand(NamedTuple):
    """Who waits for a set: the most urgent level, and when the first of them is due (see `ageing`)."""

    level: Level
    due: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What a change would cost."""

    evicts: bool
    """Something must go; otherwise the set fits beside what is there."""
    since: float
    """When the present sets were chosen."""
    reserved: bool
    """It is reserved by an announcement."""
    urgent: bool
    """A P0 request reserved it for the present set; the next one for it is expected."""
    kept: Demand | None
    """Who waits for what would go."""
    idle: bool = False
    """Nothing runs there."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`residence`: seconds that a set stays at least, except for P0."""

    residence: float = 30.0


def worthwhile(demand: Demand, standing: Standing, now: float, pace: Pace) -> bool:
    """Change now?"""
    if not standing.evicts:
        return True
    if standing.reserved:
        return False
    kept, due = standing.kept, now >= demand.due
    if demand.level is Level.P0 and (kept is None or kept.level > Level.P0):
        return True
    if demand.level is not Level.P0 and standing.urgent and not due:
        return False
    if now - standing.since < pace.residence:
        return False
    if demand.level >= Level.P3 and not due and not (standing.idle and kept is None):
        return False
    if kept is None or kept.level > demand.level:
        return True
    return due and demand.due <= kept.due


class Cost(NamedTuple):
    """How much a GPU loses by taking a set; the smallest is chosen."""

    rank: int
    """0 has the set, 1 has room for it, 2 would lose what another GPU has as well, 3 would lose something."""
    reserved: bool
    load: int
    name: str
