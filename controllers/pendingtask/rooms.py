"""Who may go on now: the places at the qualifier, the GPU slots, the quiet after a user, the circuit breaker.

One object holds what tasks compete for. It gives the shell the shared part of a `World` and says which tasks to look at
when something changed: waiting ones whose turn it is, and runs whose slot somebody else is to get. Synchronous; lives
in one event loop, so a snapshot and the booking that follows it without an `await` in between are one step.

A slot is taken by a task that holds one, by a claim that is not persisted yet, by the live pods of a task that holds
none (any more: it was deleted, say), and by being kept for the task that it was given up for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from controllers import breaker, queue
from controllers.gpubackend import slots
from controllers.pendingtask import activity, bookings, index, order, preemption, world
from controllers.pendingtask.decision import Room
from crds.phases import Phase

KEPT_SECONDS = 60.0
"""For so long at most a slot that was given up is kept: whoever does not take it in that time is in trouble himself."""


class Called(NamedTuple):
    """A task to look at now, and its rank."""

    uid: str
    rank: queue.Rank


class Rooms:
    """`offers` gives the present GPU backends; `wall` and `monotonic` are the clocks."""

    def __init__(
        self,
        tasks: index.Tasks,
        limits: world.Limits,
        offers: Callable[[], Iterable[slots.Offer]],
        *,
        workloads: index.Workloads,
        users: activity.Users,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._tasks, self._limits, self._offers = tasks, limits, offers
        self._workloads, self._users = workloads, users
        self._wall, self._monotonic = wall, monotonic
        self._waiting: dict[Room, queue.Waiting[str]] = {room: queue.Waiting() for room in Room}
        self._newcomers: set[str] = set()  # users' tasks that found no slot
        self._called: set[str] = set()  # those of them that are looked at because there is one now
        self._since: dict[str, float] = {}  # when they found none, in monotonic seconds
        self._claims: dict[str, tuple[Room, str]] = {}
        self._plan = preemption.Plan()
        self.breaker = breaker.Breaker()
        self.reading: Callable[[], Iterable[str]] = lambda: ()
        """Tasks that the knowledge base reads now, whatever their phase says; set by the composition root."""

    # -- places ----------------------------------------------------------------------------------------------------

    def claim(self, uid: str, room: Room, backend: str = "") -> None:
        """Book a place (with a slot: of that backend) for the time until the claim is persisted."""
        self._claims[uid] = (room, backend)

    def settle(self, uid: str) -> None:
        """The claim is persisted (the index knows now) or failed."""
        self._claims.pop(uid, None)
        self._called.discard(uid)
        if uid not in self._newcomers:
            self._since.pop(uid, None)

    def enter(self, uid: str, room: Room, rank: queue.Rank) -> None:
        """Wait in `room`."""
        if room is Room.GPU and order.Order(*rank).lane == 0:
            self._newcomers.add(uid)
            self._since.setdefault(uid, self._monotonic())
            return
        self._waiting[room].enter(uid, rank)
        if room is Room.GPU:
            self._users.wanted()

    def leave(self, uid: str) -> None:
        """Wait nowhere."""
        for waiting in self._waiting.values():
            waiting.leave(uid)
        self._newcomers.discard(uid)
        self._called.discard(uid)

    def waiting(self, room: Room) -> int:
        """How many wait there."""
        return len(self._waiting[room]) + (len(self._newcomers) if room is Room.GPU else 0)

    @property
    def background_waits(self) -> bool:
        """Background work waits for a slot, or for users to be quiet."""
        return len(self._waiting[Room.GPU]) > 0

    def qualifying(self, uid: str) -> int:
        """Places at the qualifier that are taken by others."""
        taken = set(self._tasks.phase(Phase.QUALIFYING))
        taken.update(one for one, (room, _) in self._claims.items() if room is Room.QUALIFIER)
        taken.update(self.reading())
        taken.discard(uid)
        return len(taken)

    # -- GPU slots -------------------------------------------------------------------------------------------------

    def slots(self, uid: str = "") -> world.Slots:
        """The book of GPU slots as `uid` may use it; without one, everything that is free or kept for somebody."""
        taken = self._taken(uid)
        entry = self._tasks.entry(uid)
        if entry is not None:
            kept = self._kept()
            # Fewer may be free than are kept: then they go by their owners' order, as `preemption.plan` has it.
            ahead = (one for one in kept if one != uid and (uid not in kept or self._before(one, entry.order)))
            taken.update(kept[one] for one in ahead)
            if uid not in kept:
                first = (self._newcomers | self._called) - kept.keys() - {uid}
                taken[""] += sum(self._before(one, entry.order) for one in first)
        return slots.count(self._offers(), taken)

    def claimant(self, uid: str) -> world.Claimant | None:
        """Who is to get the slot of that run."""
        owner = self._plan.claims.get(uid)
        return None if owner is None else world.Claimant(owner.uid, owner.run, owner.order.name)

    def waited(self, uid: str) -> float | None:
        """Seconds since the user's task that gets the slot of run `uid` found none."""
        owner = self._plan.claims.get(uid)
        since = None if owner is None else self._since.get(owner.uid)
        return None if since is None else self._monotonic() - since

    def immune(self) -> int:
        """Background runs that were claimed so often that they are left alone."""
        runs = self._tasks.bookings.runs.values()
        return sum(run.background and run.preemptions >= self._limits.max_preemptions for run in runs)

    def dispatch_open(self) -> bool:
        """The breaker lets a dispatch through."""
        return self.breaker.allows(self._monotonic())

    # -- users -----------------------------------------------------------------------------------------------------

    @property
    def last_user(self) -> datetime | None:
        """When a user was last active, as far as tasks and the router tell."""
        known = [at for at in (self._tasks.last_user, self._users.last) if self._past(at)]
        return max((at for at in known if at is not None), default=None)

    @property
    def in_doubt_since(self) -> datetime | None:
        """Since when the router could not tell."""
        since = self._users.in_doubt_since
        return since if self._past(since) else None

    def _past(self, at: datetime | None) -> bool:
        """A moment that is still to come was noted before the clock was set back: nobody knows when it was."""
        return at is not None and at <= self._wall() + timedelta(seconds=1)

    # -- whose turn it is ------------------------------------------------------------------------------------------

    def call(self) -> tuple[list[Called], float | None]:
        """Whom to look at now, and in how many seconds to ask again (None: only when something changes)."""
        called: list[Called] = []
        free = self._limits.qualifying_at_once - self.qualifying("")
        if free > 0:
            called += [Called(*one) for one in self._waiting[Room.QUALIFIER].call(free)]
        self._plan = self._planned()
        called += self._claimed()
        now = self._monotonic()
        if not (self._newcomers or self._waiting[Room.GPU]):
            return called, None
        if not self.breaker.allows(now):
            return called, max(0.05, (self.breaker.opens_at() or now) - now)
        going = self._plan.go
        one = self.breaker.state(now) is not breaker.State.CLOSED  # half open: a single probe
        if one:
            going = going[:1]
        for uid in going:
            self._newcomers.discard(uid)
            self._called.add(uid)
            called.append(Called(uid, self._tasks.bookings.newcomers[uid].order))
        kept = self._kept()
        again = KEPT_SECONDS if kept else None  # one that is kept in vain has to be offered again without an event
        if not len(self._waiting[Room.GPU]) or (one and going):
            return called, again
        quiet = self._quiet()
        if quiet is None or quiet > 0:
            return called, min((at for at in (quiet, again) if at is not None), default=None)
        ahead = len((self._newcomers | self._called) - kept.keys())
        free = self._left() - len(kept) - ahead
        called += [Called(*each) for each in self._waiting[Room.GPU].call(min(1, free) if one else max(0, free))]
        return called, again

    def _planned(self) -> preemption.Plan:
        if not self._newcomers and not self._tasks.bookings.claimed:
            return preemption.Plan()
        known, now = self._tasks.bookings, self._wall().timestamp()
        offers = [one for one in self._offers() if one.slots > 0]
        waiting = [known.newcomers[uid] for uid in self._newcomers if uid in known.newcomers]
        waiting.sort(key=lambda one: one.order)
        if not offers:
            # Without a GPU users' tasks go at once, and nobody has anything to give to them.
            return preemption.Plan(tuple(one.uid for one in waiting))
        served, calm = {one.name for one in offers}, self.breaker.allows(self._monotonic())
        most = self._limits.max_preemptions
        kept = self._kept()
        return preemption.plan(
            waiting,
            kept.keys(),
            self._left() - len(self._called - kept.keys()),
            known.runs.values(),
            lambda claim: known.waits(claim, now),
            lambda run: calm and run.preemptions < most and run.backend in served,
        )

    def _claimed(self) -> list[Called]:
        """Runs whose claim is not in the object yet, or holds no more: at the rank of whom they make room for."""
        found, known = [], self._tasks.bookings
        for uid in self._plan.claims.keys() | known.claimed:
            run, owner = known.runs[uid], self._plan.claims.get(uid)
            wanted = None if owner is None else bookings.Claim(owner.uid, owner.run)
            if wanted != run.claim:
                found.append(Called(uid, run.order if owner is None else owner.order))
        return found

    def _taken(self, uid: str) -> Counter[str]:
        """Slots by backend that others than `uid` have."""
        known = self._tasks.bookings
        taken = Counter(known.taken)
        own = known.runs.get(uid)
        if own is not None:
            taken[own.backend] -= 1
        claims = {one: backend for one, (room, backend) in self._claims.items() if room is Room.GPU}
        for one, backend in {**self._workloads.occupied(self._wall(), but=known.runs.keys()), **claims}.items():
            if one != uid and one not in known.runs:
                taken[backend] += 1
        return taken

    def _left(self) -> int:
        """Free slots, kept ones included; below 0 when backends went away under what runs on them."""
        return sum(one.slots for one in self._offers()) - sum(self._taken("").values())

    def _kept(self) -> Mapping[str, str]:
        """Users' tasks for which a slot was given up that is still kept -> its backend."""
        now = self._wall().timestamp()
        kept: dict[str, str] = {}
        for one in self._tasks.bookings.yielded.values():
            owner = self._tasks.bookings.waits(one.claim, now)
            if owner is not None and abs(now - one.since) < KEPT_SECONDS:
                kept[owner.uid] = one.backend
        return kept

    def _before(self, uid: str, rank: queue.Rank) -> bool:
        known = self._tasks.bookings.newcomers.get(uid)
        return known is not None and known.order < order.Order(*rank)

    def _quiet(self) -> float | None:
        """Seconds until Background work may go on; None while a user is active."""
        if self._tasks.user_active:
            return None
        known = [at for at in (self.last_user, self.in_doubt_since) if at is not None]
        if not known:
            return 0.0
        return max(0.0, (max(known) + self._limits.idle_threshold - self._wall()) / timedelta(seconds=1))
