"""Which slots and places are taken, and by which tasks: the sum of the runs, the claims and the live pods.

A slot is taken by a task that holds one, by a claim that is not persisted yet, by live pods of a task that no longer
holds one (for example after its deletion), and by the reservation of a released slot for the task that claimed it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from controllers.pendingtask import observed, task_index
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.slots import bookings
from controllers.pendingtask.slots.bookings import Offer
from crds.phases import Phase

RESERVED_SECONDS = 60.0
"""Longest time that a released slot stays reserved for the task that claimed it."""


class Ledger:
    """The parameters are those of `scheduler.SlotScheduler`."""

    def __init__(
        self,
        tasks: task_index.Tasks,
        limits: observed.Limits,
        offers: Callable[[], Iterable[Offer]],
        workloads: loads.Workloads,
        readings: Iterable[str],
        wall: Callable[[], datetime],
    ) -> None:
        self._tasks, self._limits, self.offers = tasks, limits, offers
        self._workloads, self._readings, self._wall = workloads, readings, wall
        self.claims: dict[str, tuple[WaitFor, str]] = {}
        """Claims that are not persisted yet: what for, and the slot's backend."""

    def ready(self) -> list[Offer]:
        """The backends with slots that may be booked."""
        return [one for one in self.offers() if one.slots > 0]

    def free(self, taken: Mapping[str, int]) -> observed.Slots:
        """The slots that are left when these are taken."""
        return bookings.count(self.offers(), taken, self._limits.runs_without_gpu)

    # -- whose -----------------------------------------------------------------------------------------------------

    def is_user(self, uid: str) -> bool:
        """Whether a user waits for that task; False for an unknown one."""
        entry = self._tasks.entry(uid)
        return entry is not None and entry.order.lane == 0

    def clients(self, uids: Iterable[str]) -> Counter[str]:
        """Number of these tasks by client."""
        entries = (self._tasks.entry(uid) for uid in uids)
        return Counter(entry.order.client for entry in entries if entry is not None)

    def reading(self) -> set[str]:
        """Tasks with a place at the qualifier."""
        taken = set(self._tasks.phase(Phase.QUALIFYING))
        taken.update(one for one, (wait_for, _) in self.claims.items() if wait_for is WaitFor.QUALIFIER)
        taken.update(self._readings)
        return taken

    def slot_claims(self) -> dict[str, str]:
        """Tasks whose claim of a slot is not persisted yet -> its backend."""
        return {uid: backend for uid, (wait_for, backend) in self.claims.items() if wait_for is WaitFor.GPU}

    def runs(self, *, background: bool) -> set[str]:
        """Tasks with a slot, persisted or not: those of users, or the others."""
        runs = {uid for uid, run in self._tasks.bookings.runs.items() if run.background is background}
        return runs | {uid for uid in self.slot_claims() if self.is_user(uid) is not background}

    def serving(self) -> set[str]:
        """Backends on which users' runs have a slot."""
        runs = {run.backend for run in self._tasks.bookings.runs.values() if not run.background}
        claimed = {backend for uid, backend in self.slot_claims().items() if self.is_user(uid)}
        return (runs | claimed) - {""}

    # -- how many --------------------------------------------------------------------------------------------------

    def taken(self, uid: str = "") -> Counter[str]:
        """Slots by backend that tasks other than `uid` take; reserved ones do not count."""
        known = self._tasks.bookings
        taken = Counter(known.taken)
        own = known.runs.get(uid)
        if own is not None:
            taken[own.backend] -= 1
        occupied = self._workloads.occupied(self._wall(), but=known.runs.keys())
        for one, backend in {**occupied, **self.slot_claims()}.items():
            if one != uid and one not in known.runs:
                taken[backend] += 1
        return taken

    def left(self) -> int:
        """Free slots including reserved ones; below 0 if backends with runs are gone."""
        return sum(one.slots for one in self.offers()) - sum(self.taken().values())

    def reserved(self) -> Mapping[str, str]:
        """Users' tasks with a reserved slot -> its backend."""
        now = self._wall().timestamp()
        reserved: dict[str, str] = {}
        for one in self._tasks.bookings.released.values():
            owner = self._tasks.bookings.waits(one.claim, now)
            if owner is not None and abs(now - one.since) < RESERVED_SECONDS:
                reserved[owner.uid] = one.backend
        return reserved
