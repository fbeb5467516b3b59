"""GPU slots: what the Ready backends offer, which tasks hold or wait for a slot, and which run gives its slot to whom. Pure.

`count` subtracts bookings from offers; a slot is one of a backend's `numParallel`. `Bookings` is derived from the objects
alone, so it is the same after a restart; tasks in other phases take no memory here. `plan` is preemption:

- A slot that a run gave up is reserved for the user's task that claimed it.
- Other free slots go to users' tasks in the order of their clients' turns.
- Each remaining user's task gets one run to wait for: a run that is stopping already, else the lowest in the queue's order,
  of those the youngest. A run that was claimed `limit` times is left alone from then on.
- A claim whose task has its slot, or does not wait any more, passes to the next task or lapses: the run goes on.

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

    slots   may be booked: zero unless it is a Ready GPU that is not draining
    absent  it had so many until a moment ago, and is expected back: there is a GPU, and none of its slots is free
    """

    name: str
    slots: int
    absent: int = 0


def count(offers: Iterable[Offer], booked: Mapping[str, int], without_gpu: int = 0) -> observed.Slots:
    """The free slots, emptiest backend first. A booking without a known backend takes one from the common total.

    `booked` counts by backend, "" is a run without a slot. One backend may be booked beyond what it offers (it offers
    less than it did): then the others have as much less to give. Without any GPU so many runs as `without_gpu` may go.
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
class UserWaiter:
    """A user's task in ReadyForGpu. `not_before`: it is postponed until then (seconds since the epoch)."""

    uid: str
    order: order.Order
    run: int
    not_before: float


@dataclass(frozen=True, slots=True)
class Released:
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
        self.user_waiters: dict[str, UserWaiter] = {}
        self.released: dict[str, Released] = {}
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
            if rank.lane == 0 and not pendingtask.held(task):
                postponed = _seconds(status.retry.next_at if status.retry else None)
                self.user_waiters[uid] = UserWaiter(uid, rank, status.next_attempt, postponed)
            if claim is not None:
                self.released[uid] = Released(uid, backend, claim, _seconds(status.phase_times.get(phase)))

    def forget(self, uid: str) -> None:
        """The task is gone, or another version follows."""
        run = self.runs.pop(uid, None)
        if run is not None:
            self.taken[run.backend] -= 1
            if self.taken[run.backend] <= 0:
                del self.taken[run.backend]
        self.claimed.discard(uid)
        self.user_waiters.pop(uid, None)
        self.released.pop(uid, None)

    def served(self) -> bool:
        """Does a run have a slot that a person waits for?"""
        return any(not run.background for run in self.runs.values())

    def waits(self, claim: Claim, now: float) -> UserWaiter | None:
        """Whoever the claim is for, if that run still waits for a slot at `now` (seconds since the epoch)."""
        found = self.user_waiters.get(claim.by)
        return found if found is not None and found.run == claim.run and found.not_before <= now else None


def _seconds(at: datetime | None) -> float:
    return 0.0 if at is None else at.timestamp()


@dataclass(frozen=True, slots=True)
class Plan:
    """`go`: users' tasks that have a slot now, in order. `claims`: uid of a run -> who gets its slot."""

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
    waiting   users' tasks that were seen to find no slot, in order
    reserved  uids of the users' tasks for which a free slot is reserved, in `waiting` or being reconciled
    free      free slots, the reserved ones included; below 0 when more is booked than there is
    runs      all that hold a slot
    waits     whoever a claim is for, while it waits
    may_stop  may this run be claimed that is not claimed yet?
    """
    owners = sorted((one for one in waiting if one.uid in reserved), key=lambda one: one.order)
    others = [one for one in waiting if one.uid not in reserved]
    unbound = max(0, free - len(reserved))
    # Whoever goes must find a slot when looked at: those of the owners that are being looked at are not for others.
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
    withdrawn.sort(key=_worth)
    for one in without.values():
        if withdrawn:
            claims[withdrawn.pop().uid] = one
    left = [one for one in without.values() if one not in claims.values()]
    if left:
        victims = heapq.nlargest(len(left), (run for run in candidates if may_stop(run)), key=_worth)
        claims.update(zip((run.uid for run in victims), left, strict=False))
    place = {one.uid: number for number, one in enumerate(waiting)}
    return Plan(tuple(sorted((one.uid for one in going), key=place.__getitem__)), claims)


def _worth(run: Run) -> tuple[int, int, int, int, str]:
    """The largest gives its slot up first: last in the queue's order, then the youngest run."""
    rank = run.order
    return rank.position, rank.urgency, run.started, rank.created, run.uid
