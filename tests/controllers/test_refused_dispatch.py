"""While every dispatch is refused the backlog stays in the queue: what is done does not grow with it."""

from __future__ import annotations

import pytest

from crds.phases import HOLDS_SLOT
from tests.controllers.fleet import Fleet

SLOTS = 4
PERIOD = 30
"""Seconds for which the breaker rests."""


def work(fleet: Fleet) -> None:
    """As the queue has it: the due tasks, then the admitted ones, until there are none."""
    for uid in [uid for uid, at in fleet.wakes.items() if at <= fleet.now]:
        fleet.look(uid)
    while admitted := fleet.calls():
        for uid in admitted:
            fleet.look(uid)


def refused(mode: str, waiters: int, periods: int) -> tuple[Fleet, list[tuple[int, int]]]:
    """Looks and status writes in each period of the breaker, once so many tasks wait and none can be dispatched."""
    fleet = Fleet(lambda _: False, lambda _: False, {"a": SLOTS})
    fleet.refused = True
    for _ in range(waiters):
        fleet.look(fleet.submit(mode))
    counts = []
    for _ in range(periods):
        looks, writes = fleet.looks, fleet.writes
        for _ in range(PERIOD):
            fleet.pass_time(1)
            work(fleet)
        counts.append((fleet.looks - looks, fleet.writes - writes))
    return fleet, counts


@pytest.mark.parametrize("mode", ["Background", "Foreground"])
def test_looks_and_writes_do_not_grow_with_the_backlog(mode: str) -> None:
    _, few = refused(mode, 50, 20)
    _, many = refused(mode, 500, 20)
    assert many == few
    looks, writes = map(max, zip(*many[1:], strict=True))
    assert looks <= 12, "the probe, and those before it whose wait is over, once"
    assert writes <= 3, "the probe's claim and its end"


@pytest.mark.parametrize("mode", ["Background", "Foreground"])
def test_once_nothing_is_refused_all_of_them_go(mode: str) -> None:
    fleet, _ = refused(mode, 50, 20)
    fleet.refused = False
    for _ in range(2 * PERIOD):
        fleet.pass_time(1)
        work(fleet)
    assert sum(task.status.phase in HOLDS_SLOT for task in fleet.store.values()) == SLOTS
