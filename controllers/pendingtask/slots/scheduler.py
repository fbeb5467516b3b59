"""The slot scheduler: places at the qualifier, GPU slots, and what holds Background work back.

A waiting task is admitted when its turn comes (`fair_share`). A task that is reconciled for another reason takes a free
place only when no other waiter comes before it. With one Ready GPU users hold back all Background work; with several,
the work on the GPUs that serve users. A Background task that has aged is not held back by users, within a bounded
share.

The scheduler fills the shared part of an `ObservedState` and names the tasks to reconcile when something changed:
waiting tasks whose turn it is, and runs whose slot another task gets. Synchronous, in one event loop: a snapshot
and the booking that follows it without an `await` in between are one step.

Which slots are taken is in `ledger`, which GPUs users hold back in `user_hold`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from contracts.api.queue_api import Reason
from controllers import breaker, queue
from controllers.pendingtask import observed, task_index
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.slots import bookings, fair_share, ledger, router_use, user_hold, user_line, wait_reasons
from controllers.pendingtask.slots.bookings import Offer
from crds import order

AGED_SHARE = 4
"""One of this many slots, and at least one, may go to aged Background tasks while users are active."""
AGED_AMONG_USERS = 10
"""After this many slots for users' tasks one goes to an aged Background task, if users leave none free."""


class Admitted(NamedTuple):
    """A task to reconcile now, and its rank."""

    uid: str
    rank: queue.Rank


class SlotScheduler:
    """`offers` returns the present GPU backends; `readings` are the tasks that the knowledge base reads now, in any
    phase; `wall` and `monotonic` are the clocks."""

    def __init__(
        self,
        tasks: task_index.Tasks,
        limits: observed.Limits,
        offers: Callable[[], Iterable[Offer]],
        *,
        workloads: loads.Workloads,
        readings: Iterable[str],
        users: router_use.UserActivity,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._tasks, self._limits, self._users = tasks, limits, users
        self._wall, self._monotonic = wall, monotonic
        self._ledger = ledger.Ledger(tasks, limits, offers, workloads, readings, wall)
        self._hold = user_hold.UserHold(tasks, limits, self._ledger, users, wall)
        self._waiting: dict[WaitFor, fair_share.WaitQueue] = {wait_for: fair_share.WaitQueue() for wait_for in WaitFor}
        self._line = user_line.UserLine(tasks, self._ledger, monotonic)
        self._admitted: dict[str, None] = {}  # users' tasks to reconcile because a slot is free now, in order
        self._background: dict[WaitFor, dict[str, None]] = {one: {} for one in WaitFor}  # the same for all other tasks
        self._spared: set[str] = set()  # those of `_background` that users' tasks leave a slot to
        self._user_slots = 0  # given to users since the last one of a Background task, while an aged one waited
        self._recovered = False
        self.reasons_to_write: dict[str, Reason] = {}
        """Tasks whose next reconciliation writes into their condition why they wait (`wait_conditions`)."""
        self._plan = bookings.Plan()
        self.breaker = breaker.Breaker()

    # -- places ----------------------------------------------------------------------------------------------------

    def claim(self, uid: str, wait_for: WaitFor, backend: str = "") -> None:
        """Book a place (with a slot: of that backend) for the time until the claim is persisted."""
        self._ledger.claims[uid] = (wait_for, backend)
        entry = self._tasks.entry(uid)
        if entry is None:
            return
        if wait_for is WaitFor.GPU and entry.order.lane == 0:
            self._line.turns.took(entry.order.client)
            self._user_slots += self._waiting[WaitFor.GPU].aged(self._aged_before())
        else:
            self._waiting[wait_for].took(entry.order.client)
            if wait_for is WaitFor.GPU:
                self._user_slots = 0

    def settle(self, uid: str) -> bool:
        """The claim is persisted or has failed. True: the task was admitted, and others may be admitted now."""
        self._ledger.claims.pop(uid, None)
        admitted = self._withdraw(uid)
        self._line.settle(uid)
        return admitted

    def enter(self, uid: str, wait_for: WaitFor, rank: queue.Rank) -> None:
        """Add the task to the wait queue of `wait_for`."""
        place = order.Order(*rank)
        if wait_for is WaitFor.GPU and place.lane == 0:
            self._line.enter(uid)
            return
        entry = self._tasks.entry(uid)
        self._waiting[wait_for].enter(fair_share.Waiter(place, place.created if entry is None else entry.queued, uid))
        if wait_for is WaitFor.GPU:
            self._users.wanted()

    def leave(self, uid: str) -> None:
        """Remove the task from all wait queues."""
        for waiting in self._waiting.values():
            waiting.leave(uid)
        self._line.leave(uid)
        self.reasons_to_write.pop(uid, None)
        self._withdraw(uid)

    def _withdraw(self, uid: str) -> bool:
        admitted = [one for one in (self._admitted, *self._background.values()) if uid in one]
        for one in admitted:
            del one[uid]
        self._spared.discard(uid)
        return bool(admitted)

    def waiting(self, wait_for: WaitFor) -> int:
        """Number of tasks that wait for it."""
        return len(self._waiting[wait_for]) + (len(self._line) if wait_for is WaitFor.GPU else 0)

    @property
    def background_waits(self) -> bool:
        """Background work waits for a slot or for the end of users' activity."""
        return len(self._waiting[WaitFor.GPU]) > 0

    def qualifying(self, uid: str = "") -> int:
        """Places at the qualifier that `uid` cannot get: taken places, and those of waiters that come before it."""
        taken = self._ledger.reading()
        taken.discard(uid)
        return len(taken) + (self._ahead(uid, WaitFor.QUALIFIER) if uid else 0)

    def _ahead(self, uid: str, wait_for: WaitFor) -> int:
        """Number of tasks before `uid` in that wait queue; users' tasks at the GPU do not count."""
        admitted = self._background[wait_for]
        if uid in admitted:
            return list(admitted).index(uid)
        waiting = self._waiting[wait_for]
        return len(admitted) + len(waiting) - (uid in waiting)

    # -- GPU slots -------------------------------------------------------------------------------------------------

    def slots(self, uid: str = "") -> observed.Slots:
        """The GPU slots that `uid` may use; without a uid, all that are free or reserved for a waiter."""
        taken = self._ledger.taken(uid)
        entry = self._tasks.entry(uid)
        if entry is None:
            return self._ledger.free(taken)
        reserved = self._ledger.reserved()
        # If fewer are free than reserved, they go by the order of their owners, as in `bookings.plan`.
        ahead = (one for one in reserved if one != uid and (uid not in reserved or self._before(one, entry.order)))
        taken.update(reserved[one] for one in ahead)
        background = entry.order.lane != 0
        if uid not in reserved:
            users = list(self._admitted) if uid in self._spared else [*self._line, *self._admitted]
            if uid in self._admitted:
                users = users[len(self._line) :][: list(self._admitted).index(uid)]
            elif not background:
                users = [one for one in users if one in self._admitted or self._line.before(one, uid)]
            taken[""] += len({*users} - reserved.keys() - {uid})
            taken[""] += self._ahead(uid, WaitFor.GPU) if background else len(self._spared)
        return self._placed(uid, self._ledger.free(taken))

    def _placed(self, uid: str, book: observed.Slots) -> observed.Slots:
        """Users' tasks prefer GPUs that serve users already; Background tasks start on none of those."""
        if not self._ledger.is_user(uid):
            return replace(book, held=frozenset(self.held_back(uid)))
        serving = self._ledger.serving()
        return replace(book, free=tuple(sorted(book.free, key=lambda one: one[0] not in serving)))

    def claimant(self, uid: str) -> observed.Claimant | None:
        """The task that gets the slot of that run; its name only if both are in one namespace."""
        owner = self._plan.claims.get(uid)
        if owner is None:
            return None
        run, other = self._tasks.entry(uid), self._tasks.entry(owner.uid)
        same = run is not None and other is not None and run.namespace == other.namespace
        return observed.Claimant(owner.uid, owner.run, owner.order.name if same else "")

    def waited(self, uid: str) -> float | None:
        """Seconds since the user's task that gets the slot of run `uid` found none."""
        owner = self._plan.claims.get(uid)
        return None if owner is None else self._line.waited(owner.uid)

    def immune(self) -> int:
        """Number of Background runs that are not claimed again (`Limits.max_preemptions`)."""
        runs = self._tasks.bookings.runs.values()
        return sum(run.background and run.preemptions >= self._limits.max_preemptions for run in runs)

    def dispatch_open(self) -> bool:
        """Whether the breaker allows a dispatch."""
        return self.breaker.allows(self._monotonic())

    # -- users -----------------------------------------------------------------------------------------------------

    def users(self, uid: str) -> observed.Users:
        """The users' activity that holds that task back from every GPU."""
        entry = self._tasks.entry(uid)
        if entry is None or entry.order.lane == 0 or not self._limits.idle_threshold:
            return observed.Users()
        return self._hold.activity() if self._hold.everywhere(self.held_back(uid)) else observed.Users()

    def held_back(self, uid: str = "") -> Mapping[str, float | None]:
        """`UserHold.held_back` for that task: one that has aged is not held back."""
        return {} if uid and uid in self._excused() else self._hold.held_back()

    # -- ageing ----------------------------------------------------------------------------------------------------

    def _aged_before(self) -> float:
        """A task that waits since before that time (seconds since the epoch) has aged."""
        age = self._limits.background_age
        return self._wall().timestamp() - age.total_seconds() if age else float("-inf")

    def _excused(self) -> frozenset[str]:
        """Admitted tasks that users do not hold back, since they have aged."""
        before = self._aged_before()
        admitted = ((uid, self._tasks.entry(uid)) for uid in self._background[WaitFor.GPU])
        return frozenset(uid for uid, entry in admitted if entry is not None and entry.queued < before)

    def _share_left(self) -> int:
        """Number of Background runs that may still start while users are active."""
        total = sum(one.slots for one in self._ledger.ready())
        runs = sum(run.background for run in self._tasks.bookings.runs.values())
        claims = sum(not self._ledger.is_user(uid) for uid in self._ledger.slot_claims())
        return max(1, total // AGED_SHARE) - runs - claims - len(self._background[WaitFor.GPU]) if total else 0

    def _admit_aged(self, count: int) -> list[Admitted]:
        """Admit aged Background tasks while users are active; `count` slots are free for them."""
        waiting, before = self._waiting[WaitFor.GPU], self._aged_before()
        count = min(count, self._share_left(), 1)
        if count <= 0 or not waiting.aged(before):
            return []
        return self._next_waiters(WaitFor.GPU, count, aged_only=True)

    # -- turns -----------------------------------------------------------------------------------------------------

    def admit(self) -> tuple[list[Admitted], float | None]:
        """The tasks to reconcile now, and the seconds until the next call (None: only after a change)."""
        self._recover()
        admitted: list[Admitted] = []
        free = self._limits.qualifying_at_once - self.qualifying() - len(self._background[WaitFor.QUALIFIER])
        admitted += self._next_waiters(WaitFor.QUALIFIER, free)
        waiting, now = self._waiting[WaitFor.GPU], self._monotonic()
        breaker_closed = self.breaker.state(now) is breaker.State.CLOSED
        if breaker_closed and self._line and self._user_slots >= AGED_AMONG_USERS:
            admitted_already = len(self._admitted) + len(self._background[WaitFor.GPU])
            aged = self._admit_aged(self._ledger.left() - len(self._ledger.reserved()) - admitted_already)
            self._spared.update(one.uid for one in aged)
            admitted += aged
        self._plan = self._planned()
        admitted += self._claimed()
        if not (self._line or waiting):
            return admitted, None
        if not self.breaker.allows(now):
            return admitted, max(0.05, (self.breaker.opens_at() or now) - now)
        going = self._plan.go
        one = not breaker_closed  # half open: a single probe
        if one:
            if self._on_its_way():
                return admitted, None  # its reconciliation decides how to continue
            going = going[:1]
        for uid in going:
            self._line.leave(uid)
            self._admitted[uid] = None
            admitted.append(Admitted(uid, self._tasks.bookings.user_waiters[uid].order))
        reserved = self._ledger.reserved()
        again = [ledger.RESERVED_SECONDS] if reserved else []  # an unused reservation ends without an event
        if not len(waiting) or (one and going):
            return admitted, min(again, default=None)
        background, offers = self._background[WaitFor.GPU], self._ledger.ready()
        ahead = len({*self._line, *self._admitted} - reserved.keys())
        left = self._ledger.left() - len(reserved) - ahead - len(background)
        held = self.held_back()
        quiet = self._hold.quiet()
        if held or (not offers and quiet != 0.0):
            again += [seconds for seconds in (*held.values(), *([] if offers else [quiet])) if seconds is not None]
            young = waiting.next_to_age(self._aged_before())
            if self._limits.background_age and young is not None:
                again.append(max(0.05, young - self._aged_before()))
        elsewhere = bookings.count(offers, self._ledger.taken() + Counter(reserved.values())).free
        free = min(left, sum(number for name, number in elsewhere if name not in held) - len(background))
        admitted += self._next_waiters(WaitFor.GPU, min(1, free) if one else free)
        if free <= 0 and held:
            admitted += self._admit_aged(left)
        return admitted, min(again, default=None)

    def _on_its_way(self) -> bool:
        """Whether a task is admitted to a GPU slot, or its claim is being written."""
        return bool(self._ledger.slot_claims() or self._admitted or self._background[WaitFor.GPU])

    def _next_waiters(self, wait_for: WaitFor, count: int, *, aged_only: bool = False) -> list[Admitted]:
        """The next `count` waiters. They are reconciled before other Background tasks: a place is reserved for them."""
        if count <= 0 or not self._waiting[wait_for]:
            return []
        held = self._ledger.clients(self._takers(wait_for))
        held.update(self._ledger.clients(self._background[wait_for]))
        found = self._waiting[wait_for].call(count, held, self._aged_before(), aged_only=aged_only)
        self._background[wait_for].update(dict.fromkeys(uid for uid, _ in found))
        return [Admitted(uid, rank._replace(position=-1)) for uid, rank in found]

    def _takers(self, wait_for: WaitFor) -> set[str]:
        """Tasks that have what the wait queue of `wait_for` waits for."""
        return self._ledger.reading() if wait_for is WaitFor.QUALIFIER else self._ledger.runs(background=True)

    def _recover(self) -> None:
        """After a restart the last turns are derived from the present runs."""
        if self._recovered:
            return
        self._recovered = True
        for run in sorted(self._tasks.bookings.runs.values(), key=lambda one: (one.started, one.order)):
            took = self._waiting[WaitFor.GPU].took if run.background else self._line.turns.took
            took(run.order.client)

    def users_in_turn(self) -> list[str]:
        """Users' tasks that found no slot, in the order of turns."""
        return self._line.in_turn(self._admitted)

    def _standing(self, wait_for: WaitFor) -> fair_share.Standing:
        queue = self._waiting[wait_for]
        held = self._ledger.clients(self._takers(wait_for))
        return fair_share.Standing(held, queue.turns.known(), queue.since_aged, self._aged_before())

    def observed(self) -> wait_reasons.Observed:
        """The present input for a survey of the waiting tasks."""
        entries = {uid: entry for uid in self._tasks.phase(*task_index.WAITING) if (entry := self._tasks.entry(uid))}
        state = replace(
            self._state(),
            now=self._wall().timestamp(),
            qualifier_free=self._limits.qualifying_at_once - len(self._ledger.reading()),
            aged_before=self._aged_before(),
        )
        standings = self._standing(WaitFor.QUALIFIER), self._line.standing(self._admitted), self._standing(WaitFor.GPU)
        return wait_reasons.Observed(state, entries, standings)

    def background_lacks(self) -> Reason:
        """Why no Background task gets a GPU slot now; `Turn` if one does."""
        return self._state().at_gpu(background=True)

    def _state(self) -> wait_reasons.State:
        book, held = self.slots(), self.held_back()
        return wait_reasons.State(
            0.0,
            slots_total=book.total,
            slots_free=sum(number for _, number in book.free),
            slots_open=sum(number for name, number in book.free if name not in held),
            users_hold=self._hold.everywhere(held),
            circuit_open=not self.dispatch_open(),
            circuit_cause=self.breaker.cause,
        )

    def _planned(self) -> bookings.Plan:
        if not self._line and not self._tasks.bookings.claimed:
            return bookings.Plan()
        known, now = self._tasks.bookings, self._wall().timestamp()
        offers = list(self._ledger.offers())
        waiting = [known.user_waiters[uid] for uid in self.users_in_turn()]
        if not any(one.slots or one.absent for one in offers):
            # Without a GPU no run can be preempted for users' tasks; a few of them start without one.
            admitted = sum(uid not in self._ledger.claims for uid in self._admitted)
            going = self._limits.runs_without_gpu - self._ledger.taken()[""] - admitted
            return bookings.Plan(tuple(one.uid for one in waiting[: max(0, going)]))
        served, calm = {one.name for one in offers if one.slots}, self.breaker.allows(self._monotonic())
        most = self._limits.max_preemptions
        reserved = self._ledger.reserved()
        return bookings.plan(
            waiting,
            reserved.keys(),
            self._ledger.left() - len(self._admitted.keys() - reserved.keys()) - len(self._spared),
            known.runs.values(),
            lambda claim: known.waits(claim, now),
            lambda run: calm and run.preemptions < most and run.backend in served,
        )

    def _claimed(self) -> list[Admitted]:
        """Runs whose claim in the object is outdated, at the rank of the task that claims their slot."""
        found, known = [], self._tasks.bookings
        for uid in self._plan.claims.keys() | known.claimed:
            run, owner = known.runs[uid], self._plan.claims.get(uid)
            wanted = None if owner is None else bookings.Claim(owner.uid, owner.run)
            if wanted != run.claim:
                found.append(Admitted(uid, run.order if owner is None else owner.order))
        return found

    def _before(self, uid: str, rank: queue.Rank) -> bool:
        known = self._tasks.bookings.user_waiters.get(uid)
        return known is not None and known.order < order.Order(*rank)
