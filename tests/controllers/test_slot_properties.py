"""Whatever happens in whatever order: slots are never overbooked, kept ones are kept, and every task ends. While every
dispatch is refused the backlog stays in the queue: what is done does not grow with it.

A failure is not shrunk, which would take minutes; `fleet` says what was wrong.
"""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from crds.exit_reasons import ExitReason
from crds.phases import HOLDS_SLOT
from tests import thorough
from tests.controllers.fleet import Fleet

HOW = [ExitReason.ANSWERED, ExitReason.ANSWERED, ExitReason.DRAINED, None]
ACTIONS = [
    *("look", "call", "watch", "pod", "time", "submit", "hold", "mode", "delete", "restart"),
    *("look", "call", "pod", "time", "submit", "work", "work", "work", "work"),
]


@given(st.data())
@settings(max_examples=thorough.examples(150), deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_any_history_keeps_the_book_and_ends(data: st.DataObject) -> None:
    chaos = [True]

    def one_in(count: int) -> bool:
        return chaos[0] and data.draw(st.integers(1, count)) == 1

    names = data.draw(st.sampled_from([{"a": 1}, {"a": 2}, {"a": 1, "b": 1}, {}]))
    fleet = Fleet(lambda _: one_in(15), lambda _: one_in(10), names)
    for number in range(data.draw(st.integers(1, 4))):
        fleet.submit("Background", number + 1 if data.draw(st.booleans()) else None)
    for _ in range(data.draw(st.integers(5, 60))):
        act(fleet, data)
    chaos[0] = False
    settle(fleet)


def act(fleet: Fleet, data: st.DataObject) -> None:
    uids = sorted(fleet.store)
    what = data.draw(st.sampled_from(ACTIONS))
    if what == "submit" and fleet.serial < 12:
        fleet.submit("Foreground")
    elif what == "work":
        for uid in uids:
            fleet.watch(uid)
            fleet.look(uid)
        for uid in fleet.calls():
            fleet.look(uid)
    elif what == "call":
        for uid in fleet.calls():
            fleet.look(uid)
    elif what == "pod":
        fleet.kubelet(data.draw(st.integers(0, 9)), data.draw(st.sampled_from(HOW)))
    elif what == "time":
        fleet.pass_time(data.draw(st.sampled_from([-3600, 0.3, 5, 31, 31, 31, 61])))
    elif what == "restart":
        fleet.restart()
    elif uids:
        uid = data.draw(st.sampled_from(uids))
        if what == "look":
            fleet.look(uid)
        elif what == "watch":
            fleet.watch(uid)
        elif what == "hold":
            fleet.edit(uid, suspend=not fleet.store[uid].spec.suspend)
        elif what == "mode":
            mode = fleet.store[uid].spec.mode
            fleet.edit(uid, mode=data.draw(st.sampled_from([mode, type(mode).FOREGROUND, type(mode).BACKGROUND])))
        elif what == "delete" and len(uids) > 1:
            fleet.delete(uid)


def settle(fleet: Fleet) -> None:
    """Nothing goes wrong any more, and users let go what they hold: everything ends."""
    if not fleet.total():
        fleet.capacity["a"] = 1
    for uid in list(fleet.store):
        if fleet.store[uid].spec.suspend:
            fleet.edit(uid, suspend=False)
    for _ in range(400):
        for uid in list(fleet.store):
            fleet.watch(uid)
            fleet.look(uid)
        for uid in fleet.calls():
            fleet.look(uid)
        fleet.kubelet(0, ExitReason.ANSWERED)
        fleet.pass_time(31)
        if not fleet.store:
            return
    left = {uid: (task.status.phase, task.status.retry) for uid, task in fleet.store.items()}
    raise AssertionError(f"not ended: {left}")


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
