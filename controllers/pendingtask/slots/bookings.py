"""GPU slots: what the backends offer, which tasks hold or wait for one, and which run is preempted for which task.
Pure.

`count` subtracts bookings from offers; a slot is one of a backend's `numParallel`. `Bookings` is derived from the
objects alone, so a restart does not change it; tasks in other phases are not stored. `plan` is preemption:

- A slot that a run released is reserved for the user's task that claimed it.
- Other free slots go to users' tasks in the order of their clients' turns.
- Each remaining user's task claims one run: one that is stopping already, else the last in queue order, of several the
  youngest. A run that was claimed `Limits.max_preemptions` times is not claimed again.
- If the claiming task has its slot, or no longer waits, the claim passes to the next task or is withdrawn: the run
  continues.

Source: blueprint section 4 "a GPU slot (from GpuBackend)", "Preemption"; operator.md point 11.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from controllers.pendingtask import observed
from crds import order, pendingtask
from crds.phases import HOLDS_SLOT, Phase


@dataclass(frozen=True, slots=True)
class Offer:
    """One backend's slots.

    slots   slots that may be booked: 0 unless it is a Ready GPU that is not draining
    absent  slots of a backend that stopped serving a moment ago and is expected back: they exist, none is free
    """

    name: str
    slots: int
    absent: int = 0


def count(offers: Iterable[Offer], booked: Mapping[str, int], without_gpu: int = 0) -> observed.Slots:
    """The free slots, emptiest backend first. A booking without a known backend takes one from the common total.

    `booked` counts runs by backend, "" for runs without a slot. A backend whose offer shrank can have more bookings
    than slots; the others then offer that many fewer. Without any GPU up to `without_gpu` runs may start.
    """
    offers = list(offers)
    listed = [offer for offer in offers if offer.slots > 0]
    total = sum(offer.slots + offer.absent for offer in offers)
    if not total:
        return observed.Slots(without_gpu=max(0, without_gpu - booked.get("", 0)))
    left = sum(offer.slots for offer in listed) - sum(booked.values())
    free = sorted(
        ((offer.name, min(left, offer.slots - booked.get(offer.name, 0))) for offer in listed),
        key=lambda one: (-one[1], one[0]),
    )
    return observed.Slots(total=total, free=tuple(one for one in free if one[1] > 0))


@dataclass(frozen=True, slots=True)
class Claim:
    """The task and its run that a slot is claimed for: `status.preemption` without its time."""

    by: str
    run: int


@dataclass(frozen=True, slots=True)
class Run:
    """A task that holds a slot. `started`: seconds since the epoch; `preemptions`: number of claims so far; `attempt`:
    number of the run."""

    uid: str
    order: order.Order
    backend: str
    started: int
    preemptions: int
    claim: Claim | None
    attempt: int = 0

    @property
    def background(self) -> bool:
        """Whether it is a Background run, which no person waits for."""
        return self.order.lane != 0


@dataclass(frozen=True, slots=True)
class UserWaiter:
    """A user's task in ReadyForGpu. `not_before`: postponed until then (seconds since the epoch)."""

    uid: str
    order: order.Order
    run: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Released:
    """A task that released its slot at `since` (seconds since the epoch) and has not run again."""

    uid: str
    backend: str
    claim: Claim
    since: float


class Bookings:
    """By uid. `claimed`: the `runs` with a claim; `taken`: number of booked slots by backend, which may be "" or no
    longer exist; `stopped`: those that wait for a slot after this attempt, which they resume, or which was the last."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.claimed: set[str] = set()
        self.user_waiters: dict[str, UserWaiter] = {}
        self.released: dict[str, Released] = {}
        self.stopped: dict[str, int] = {}
        self.taken: Counter[str] = Counter()

    def observe(self, task: pendingtask.PendingTask, rank: order.Order) -> None:
        """Store the present version of a task."""
        uid = task.metadata.uid
        self.forget(uid)
        if task.metadata.deletion_timestamp is not None:
            return  # only its pods show how long its slot is taken
        phase, status = task.status.phase, task.status
        claim = Claim(status.preemption.by, status.preemption.run) if status.preemption else None
        backend = status.dispatch.backend if status.dispatch else ""
        if phase in HOLDS_SLOT:
            started = _seconds(status.dispatch.started_at if status.dispatch else None)
            self.runs[uid] = Run(uid, rank, backend, int(started), status.preemptions, claim, status.attempt)
            self.taken[backend] += 1
            if claim is not None:
                self.claimed.add(uid)
        elif phase is Phase.READY_FOR_GPU:
            if status.attempt:
                self.stopped[uid] = status.attempt
            if rank.lane == 0 and not pendingtask.held(task):
                postponed = _seconds(status.retry.next_at if status.retry else None)
                self.user_waiters[uid] = UserWaiter(uid, rank, status.next_attempt, postponed)
            if claim is not None:
                self.released[uid] = Released(uid, backend, claim, _seconds(status.phase_times.get(phase)))

    def forget(self, uid: str) -> None:
        """Remove the task: it is gone, or another version follows."""
        run = self.runs.pop(uid, None)
        if run is not None:
            self.taken[run.backend] -= 1
            if self.taken[run.backend] <= 0:
                del self.taken[run.backend]
        self.claimed.discard(uid)
        self.user_waiters.pop(uid, None)
        self.released.pop(uid, None)
        self.stopped.pop(uid, None)

    def served(self) -> bool:
        """Whether a run that a person waits for holds a slot."""
        return any(not run.background for run in self.runs.values())

    def waits(self, claim: Claim, now: float) -> UserWaiter | None:
        """The task that the claim is for, if it still waits for that run at `now` (seconds since the epoch)."""
        found = self.user_waiters.get(claim.by)
        return found if found is not None and found.run == claim.run and found.not_before <= now else None


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()


@dataclass(frozen=True, slots=True)
class Plan:
    """`go`: users' tasks that get a slot now, in order. `claims`: uid of a run -> the task that gets its slot."""

    go: tuple[str, ...] = ()
    claims: Mapping[str, UserWaiter] = field(default_factory=dict)


def plan(
    waiting: Sequence[UserWaiter],
    reserved: Collection[str],
    free: int,
    runs: Iterable[Run],
    waits: Callable[[Claim], UserWaiter | None],
    may_stop: Callable[[Run], bool],
) -> Plan:
    """
    waiting   users' tasks that were reconciled and found no slot, in order
    reserved  uids of the users' tasks with a reserved free slot, in `waiting` or being reconciled
    free      free slots including reserved ones; below 0 if more are booked than exist
    runs      all runs that hold a slot
    waits     the task that a claim is for, while it waits
    may_stop  whether a run without a claim may be claimed
    """
    owners = sorted((one for one in waiting if one.uid in reserved), key=lambda one: one.order)
    others = [one for one in waiting if one.uid not in reserved]
    unbound = max(0, free - len(reserved))
    # A task in `go` must find a slot when it is reconciled: slots of owners in reconciliation stay reserved.
    owned = max(0, free - (len(reserved) - len(owners)))
    going = [*owners[:owned], *others[:unbound]]
    without = {one.uid: one for one in [*owners[owned:], *others[unbound:]]}
    served = {one.uid for one in going} | set(reserved)
    claims: dict[str, UserWaiter] = {}
    withdrawn: list[Run] = []
    candidates: list[Run] = []
    for run in runs:
        if not run.background:
            continue
        if run.claim is None:
            candidates.append(run)
            continue
        owner = waits(run.claim)
        if owner is None or owner.uid in served:
            withdrawn.append(run)
            continue
        claims[run.uid] = owner
        served.add(owner.uid)
        without.pop(owner.uid, None)
    withdrawn.sort(key=_preemption_rank)
    for one in without.values():
        if withdrawn:
            claims[withdrawn.pop().uid] = one
    left = [one for one in without.values() if one not in claims.values()]
    if left:
        victims = heapq.nlargest(len(left), (run for run in candidates if may_stop(run)), key=_preemption_rank)
        claims.update(zip((run.uid for run in victims), left, strict=False))
    place = {one.uid: number for number, one in enumerate(waiting)}
    return Plan(tuple(sorted((one.uid for one in going), key=place.__getitem__)), claims)


def _preemption_rank(run: Run) -> tuple[int, int, int, int, str]:
    """The largest is preempted first: last in queue order, then the youngest run."""
    rank = run.order
    return rank.position, rank.urgency, run.started, rank.created, run.uid
