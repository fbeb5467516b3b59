"""Whatever happens in whatever order: slots are never overbooked, kept ones are kept, and every task ends.

A failure is not shrunk, which would take minutes; `fleet` says what was wrong.
"""

from __future__ import annotations

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from crds.exits import ExitReason
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
