"""Users' tasks that found no GPU slot, and the order of their clients' turns.

They do not wait in a `fair_share.WaitQueue`, because each change of the free slots arranges them anew: one that gets no
free slot may claim a running one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from controllers.pendingtask import task_index
from controllers.pendingtask.slots import fair_share
from controllers.pendingtask.slots.ledger import Ledger


class UserLine:
    """`monotonic` is the clock of `since`, in seconds."""

    def __init__(self, tasks: task_index.Tasks, ledger: Ledger, monotonic: Callable[[], float]) -> None:
        self._tasks, self._ledger, self._monotonic = tasks, ledger, monotonic
        self._uids: set[str] = set()
        self._since: dict[str, float] = {}  # kept until the claim of the slot has settled
        self.turns = fair_share.Turns()

    def __len__(self) -> int:
        return len(self._uids)

    def __iter__(self) -> Iterator[str]:
        return iter(self._uids)

    def enter(self, uid: str) -> None:
        """The task found no slot."""
        self._uids.add(uid)
        self._since.setdefault(uid, self._monotonic())

    def leave(self, uid: str) -> None:
        """The task is admitted, or waits no longer."""
        self._uids.discard(uid)

    def settle(self, uid: str) -> None:
        """The task's claim is persisted or has failed."""
        if uid not in self._uids:
            self._since.pop(uid, None)

    def waited(self, uid: str) -> float | None:
        """Seconds since the task found no slot."""
        since = self._since.get(uid)
        return None if since is None else self._monotonic() - since

    def in_turn(self, admitted: Collection[str]) -> list[str]:
        """The waiting tasks in the order of turns; `admitted` users' tasks have a slot that they have not claimed."""
        known = self._tasks.bookings.user_waiters
        waiting = [fair_share.Waiter(known[uid].order, 0, uid) for uid in self._uids if uid in known]
        return fair_share.arrange(waiting, self.standing(admitted)) if waiting else []

    def standing(self, admitted: Iterable[str]) -> fair_share.Standing:
        """What the order of turns depends on."""
        running = self._ledger.runs(background=False)
        return fair_share.Standing(self._ledger.clients(running.union(admitted)), self.turns.known())

    def before(self, one: str, other: str) -> bool:
        """Whether `one` comes before `other`; both are users' tasks that wait for a slot."""
        first, second = self._tasks.entry(one), self._tasks.entry(other)
        if first is None or second is None:
            return False
        if first.order.client == second.order.client or first.order.position != second.order.position:
            return first.order < second.order
        runs = self._tasks.bookings.runs
        held = self._ledger.clients(uid for uid, run in runs.items() if not run.background)
        places = [(held[e.order.client], self.turns.last(e.order.client), e.order) for e in (first, second)]
        return places[0] < places[1]
