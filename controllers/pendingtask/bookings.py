"""What bears on GPU slots, kept small: who runs, which user's tasks wait, who gave a slot up and for whom.

Derived from the objects alone, so it is the same after a restart. Tasks in other phases, the thousands that wait in the
background among them, take no room here.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from controllers.pendingtask import order
from crds import pendingtask
from crds.phases import HOLDS_SLOT, Phase


@dataclass(frozen=True, slots=True)
class Claim:
    """For whose run a slot is claimed: `status.preemption` without its time."""

    by: str
    run: int


@dataclass(frozen=True, slots=True)
class Run:
    """A task that holds a slot. `started` in seconds since the epoch; `preemptions`: how often its slot was claimed."""

    uid: str
    order: order.Order
    backend: str
    started: int
    preemptions: int
    claim: Claim | None

    @property
    def background(self) -> bool:
        """No person waits for it."""
        return self.order.lane != 0


@dataclass(frozen=True, slots=True)
class Newcomer:
    """A user's task in ReadyForGpu. `not_before`: it is postponed until then (seconds since the epoch)."""

    uid: str
    order: order.Order
    run: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Yielded:
    """A task that gave its slot up at `since` (seconds since the epoch) and has not run again."""

    uid: str
    backend: str
    claim: Claim
    since: float


class Bookings:
    """By uid. `claimed` are those of `runs` that have a claim; `taken` counts the booked slots by backend, which may be
    "" or not exist any more."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.claimed: set[str] = set()
        self.newcomers: dict[str, Newcomer] = {}
        self.yielded: dict[str, Yielded] = {}
        self.taken: Counter[str] = Counter()

    def observe(self, task: pendingtask.PendingTask, rank: order.Order) -> None:
        """Take in the present version of a task."""
        uid = task.metadata.uid
        self.forget(uid)
        if task.metadata.deletion_timestamp is not None:
            return  # its pods alone tell how long its slot is taken
        phase, status = task.status.phase, task.status
        claim = Claim(status.preemption.by, status.preemption.run) if status.preemption else None
        backend = status.dispatch.backend if status.dispatch else ""
        if phase in HOLDS_SLOT:
            started = _seconds(status.dispatch.started_at if status.dispatch else None)
            self.runs[uid] = Run(uid, rank, backend, int(started), status.preemptions, claim)
            self.taken[backend] += 1
            if claim is not None:
                self.claimed.add(uid)
        elif phase is Phase.READY_FOR_GPU:
            if rank.lane == 0 and not task.spec.suspend and not pendingtask.held_by_job(status):
                postponed = _seconds(status.retry.next_at if status.retry else None)
                self.newcomers[uid] = Newcomer(uid, rank, status.next_attempt, postponed)
            if claim is not None:
                self.yielded[uid] = Yielded(uid, backend, claim, _seconds(status.phase_times.get(phase)))

    def forget(self, uid: str) -> None:
        """The task is gone, or another version follows."""
        run = self.runs.pop(uid, None)
        if run is not None:
            self.taken[run.backend] -= 1
            if self.taken[run.backend] <= 0:
                del self.taken[run.backend]
        self.claimed.discard(uid)
        self.newcomers.pop(uid, None)
        self.yielded.pop(uid, None)

    def served(self) -> bool:
        """Does a run have a slot that a person waits for?"""
        return any(not run.background for run in self.runs.values())

    def waits(self, claim: Claim, now: float) -> Newcomer | None:
        """Whoever the claim is for, if that run still waits for a slot at `now` (seconds since the epoch)."""
        found = self.newcomers.get(claim.by)
        return found if found is not None and found.run == claim.run and found.not_before <= now else None


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()
