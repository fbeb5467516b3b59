"""The survey of waiting tasks: why each one waits, since when, and which tasks come before it. Pure.

A survey is made from the task cache and the slots at one moment. On a standby replica it lacks the data that only the
leader has: last turns, the breaker, and users' activity at the router.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from contracts.api.queue_api import Reason, explain
from controllers.pendingtask.slots import fair_share
from controllers.pendingtask.task_index import Entry
from crds.phases import Phase

MOST_NAMES = 5
_HOLDERS = frozenset({Reason.JOB_SUSPENDED, Reason.NOT_ALLOWED})


@dataclass(frozen=True, slots=True)
class Wait:
    """`place` counts from 0 among all that wait for the same; None: it has no turn before another event.

    `own`: names of tasks of the same namespace and client that come before it. `cause`: a sentence for the
    administrator who has to act.
    """

    reason: Reason
    since: datetime
    place: int | None = None
    own: tuple[str, ...] = ()
    aged: bool = False
    cause: str = ""

    @property
    def message(self) -> str:
        """The reason as a sentence or two."""
        return explain(self.reason, self.cause)


@dataclass(frozen=True, slots=True)
class State:
    """What all waiters have in common.

    qualifier_free  free places at the qualifier
    slots_total     GPU slots of Ready backends
    slots_free      those of them that are free; `slots_open`: on GPUs that users do not hold back, too
    users_hold      users hold Background tasks back from every GPU
    circuit_open    nothing is dispatched after failures; `circuit_cause`: a sentence for the administrator
    aged_before     a Background task that waits since before that time has aged (seconds since the epoch)
    now             seconds since the epoch
    """

    now: float
    qualifier_free: int = 0
    slots_total: int = 0
    slots_free: int = 0
    slots_open: int = 0
    users_hold: bool = False
    circuit_open: bool = False
    circuit_cause: str = ""
    aged_before: float = float("-inf")

    def at_gpu(self, *, background: bool) -> Reason:
        """Why no task of that lane gets a GPU slot; `Turn`: one does."""
        if not self.slots_total:
            return Reason.NO_GPU_BACKEND
        if self.circuit_open:
            return Reason.CIRCUIT_OPEN
        if background and (self.users_hold or (self.slots_free > 0 and self.slots_open <= 0)):
            return Reason.USERS_ACTIVE
        return Reason.TURN if self.free(background=background) > 0 else Reason.NO_FREE_SLOT

    def free(self, *, background: bool) -> int:
        """Slots that a task of that lane may take now."""
        return min(self.slots_open, self.slots_free) if background else self.slots_free


@dataclass(frozen=True, slots=True)
class Survey:
    """`lines`: uids that wait for the qualifier, and for a GPU slot, in the order of turns."""

    state: State
    entries: Mapping[str, Entry]
    lines: tuple[Sequence[str], Sequence[str]]
    places: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def why(self, uid: str) -> Wait | None:
        """Why that task waits; None if it does not wait or is not known."""
        entry, state = self.entries.get(uid), self.state
        if entry is None:
            return None
        since = datetime.fromtimestamp(entry.queued, UTC)
        if entry.held:
            return Wait(_holder(entry), since)
        if entry.analyzing:
            return Wait(Reason.CODE_ANALYSIS, since)
        if entry.not_before > state.now:
            return Wait(Reason.POSTPONED, since)
        background, place = entry.order.lane != 0, self.places.get(uid)
        if entry.phase is not Phase.READY_FOR_GPU:
            reason = Reason.TURN if state.qualifier_free > (place or 0) else Reason.QUALIFIER_BUSY
        else:
            reason = state.at_gpu(background=background)
            if reason is Reason.TURN and place is not None and place >= state.free(background=background):
                reason = Reason.NO_FREE_SLOT
        aged = background and entry.queued < state.aged_before
        cause = state.circuit_cause if reason is Reason.CIRCUIT_OPEN else ""
        return Wait(reason, since, place, self.own.get(uid, ()), aged, cause)

    def __iter__(self) -> Iterator[str]:
        """Every waiting task: in the order of turns, for the GPU before those for the qualifier, others last."""
        yield from self.lines[1]
        yield from self.lines[0]
        yield from (uid for uid in self.entries if uid not in self.places)


@dataclass(frozen=True, slots=True)
class Observed:
    """The input of a survey. `entries` are all waiting tasks, including suspended and postponed ones.

    `standings` are those at the qualifier, of users' tasks at the GPU, and of Background tasks at the GPU.
    """

    state: State
    entries: Mapping[str, Entry]
    standings: tuple[fair_share.Standing, fair_share.Standing, fair_share.Standing]


def survey(found: Observed) -> Survey:
    """Takes some ten milliseconds for a thousand waiting tasks."""
    lines: tuple[list[fair_share.Waiter], list[fair_share.Waiter], list[fair_share.Waiter]] = ([], [], [])
    for uid, entry in found.entries.items():
        if not entry.held and not entry.analyzing and entry.not_before <= found.state.now:
            which = 0 if entry.phase is not Phase.READY_FOR_GPU else 1 if entry.order.lane == 0 else 2
            lines[which].append(fair_share.Waiter(entry.order, entry.queued, uid))
    qualifier, users, others = (fair_share.arrange(*one) for one in zip(lines, found.standings, strict=True))
    return _placed(found.state, found.entries, qualifier, [*users, *others])


def _placed(state: State, entries: Mapping[str, Entry], qualifier: Sequence[str], gpu: Sequence[str]) -> Survey:
    places: dict[str, int] = {}
    own: dict[str, tuple[str, ...]] = {}
    for line in (qualifier, gpu):
        before: dict[tuple[str, str], tuple[str, ...]] = {}
        for place, uid in enumerate(line):
            entry = entries[uid]
            key = (entry.namespace, entry.order.client)
            names = before.get(key, ())
            places[uid], own[uid] = place, names
            if len(names) < MOST_NAMES:
                before[key] = (*names, entry.name)
    return Survey(state, entries, (qualifier, gpu), places, own)


def _holder(entry: Entry) -> Reason:
    """Why a held task is held, by its conditions; `Suspended` (by its user) if they give no other reason."""
    return Reason(entry.noted) if entry.noted in _HOLDERS else Reason.SUSPENDED


def counts(found: Observed) -> Counter[tuple[int, Reason]]:
    """Number of waiting tasks by lane and reason, regardless of their order."""
    state, waiting = found.state, Counter[tuple[int, bool]]()
    known: Counter[tuple[int, Reason]] = Counter()
    for entry in found.entries.values():
        lane = entry.order.lane
        if entry.held:
            known[lane, _holder(entry)] += 1
        elif entry.analyzing:
            known[lane, Reason.CODE_ANALYSIS] += 1
        elif entry.not_before > state.now:
            known[lane, Reason.POSTPONED] += 1
        else:
            waiting[lane, entry.phase is Phase.READY_FOR_GPU] += 1
    taken = {True: 0, False: 0}
    for (lane, at_gpu), number in sorted(waiting.items()):
        background = lane != 0
        reason = state.at_gpu(background=background) if at_gpu else Reason.TURN
        free = state.free(background=background) if at_gpu else state.qualifier_free
        turns_come = max(0, min(number, free - taken[at_gpu])) if reason is Reason.TURN else 0
        if reason is Reason.TURN:
            reason = Reason.NO_FREE_SLOT if at_gpu else Reason.QUALIFIER_BUSY
        known[lane, Reason.TURN] += turns_come
        known[lane, reason] += number - turns_come
        taken[at_gpu] += number
    return known
