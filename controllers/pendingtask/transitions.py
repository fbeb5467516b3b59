"""Several steps in one write: pure, like `decide`.

Every status write costs the apiserver, etcd and each watcher the same, whether it moves a task by one phase or by
four. So as long as a step asks for nothing but its write (no effect, no waiting) and the next decision needs no other
look at the state, that decision is made at once, about the task as the write will leave it. What is written is the
difference between the first and the last status: `phaseTimes` names every phase that was passed. Each step was checked
against the phase table by whoever proposed it, and each keeps its own note, so the story has no gaps.

Effects come last: the write that precedes them holds the intent of all of them (docs/decisions/0008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers import mergepatch
from controllers.pendingtask import phases
from controllers.pendingtask.decide import decide
from controllers.pendingtask.decision import Decision, Ingest, WaitFor
from controllers.pendingtask.observed import ObservedState, last_word
from controllers.pendingtask.policy.dispatched import ENDED
from crds import order, pendingtask
from crds.phases import Phase

MAX_STEPS = len(Phase)
"""More than any task can pass; what is left is decided at the next look."""

MAX_NEW_TASK_DELAY = timedelta(seconds=60)
"""After a task's creation, until which nobody is told that it stands in line."""
MAX_RUNNING_DELAY = timedelta(seconds=10)
"""After a task's dispatch, until which nobody is told that its run has begun."""
RECHECK_SECONDS = 10.0
"""After which a write that was put off is thought of again: there may be nothing else to do by then."""
SECOND = timedelta(seconds=1)
"""Moments in a status are whole seconds, rounded up (`decision.whole`)."""
_UNREAD = frozenset({Phase.NEW, Phase.READY_FOR_QUALIFICATION})

Decide = Callable[[pendingtask.PendingTask, ObservedState, datetime], Decision]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision with a write of its own to tell of, and the phase in which it was made."""

    source: Phase
    made: Decision


@dataclass(frozen=True, slots=True)
class Batch:
    """What to persist and perform, and what is to be told of it, in order.

    `more`: the last step was a write as well, so there is something new to decide about.
    """

    decision: Decision
    steps: tuple[Step, ...]
    more: bool


def batched(task: pendingtask.PendingTask, state: ObservedState, now: datetime, *, judge: Decide = decide) -> Batch:
    """The decisions about `task` from where it stands to where it has to wait for something, as one."""
    steps: list[Step] = []
    first = status = task.status.wire()
    while True:
        source = task.status.phase or Phase.NEW
        made = judge(task, state, now)
        if made.status_patch:
            steps.append(Step(source, made))
            status = mergepatch.merged(status, made.status_patch)
        if not _writes_only(made) or len(steps) == MAX_STEPS:
            break
        task = task.model_copy(update={"status": pendingtask.Status.model_validate(status)})
        if not _foreseeable(source, task, state):
            break
        state = seen_after(source, state)
    patch = steps[0].made.status_patch if len(steps) == 1 else mergepatch.difference(first, status)
    return Batch(replace(made, status_patch=patch), tuple(steps), more=bool(made.status_patch))


def seen_after(source: Phase, state: ObservedState) -> ObservedState:
    """The state as the step after one from `source` may see it.

    What an effect brought has been decided about; the next step must not take it for its own. Only a reading that was
    not waited for with the claim belongs to the step behind those that lead there.
    """
    return state if source in _UNREAD else replace(state, observed=None)


def reads_first(task: pendingtask.PendingTask, batch: Batch) -> bool:
    """Is the write the claim of a new task at the qualifier, which can as well be made with what the reading brings?

    Reading may be repeated: a process that dies in the middle leaves nothing behind that says otherwise.
    """
    made = batch.decision
    unread = (task.status.phase or Phase.NEW) in _UNREAD
    return unread and made.phase is Phase.QUALIFYING and made.effects == (Ingest(),)


def write_delay(task: pendingtask.PendingTask, batch: Batch, now: datetime) -> float:
    """Seconds after which to think of the write again; 0.0: it cannot be put off.

    Delayed are two writes that the next one repeats: that a new task waits for the qualifier, and that a Background run
    has begun. While the queue is busy they take from the apiserver what other tasks need. The first waits until
    `MAX_NEW_TASK_DELAY` after the creation (until then the task has no phase), the second until `MAX_RUNNING_DELAY`
    after the dispatch.
    """
    made, phase = batch.decision, task.status.phase or Phase.NEW
    if made.effects:
        return 0.0
    if phase is Phase.DISPATCHED_GPU:
        since = task.status.phase_times.get(phase.value)
        begun = made.phase is Phase.ORCHESTRATING and made.requeue_after is not None
        left = _left(since, now, MAX_RUNNING_DELAY) if begun and not order.foreground(task.spec) else 0.0
    else:
        in_line = phase is Phase.NEW and made.wait_for is WaitFor.QUALIFIER
        left = _left(task.metadata.creation_timestamp, now, MAX_NEW_TASK_DELAY) if in_line else 0.0
    return min(left, RECHECK_SECONDS, made.requeue_after or RECHECK_SECONDS)


def _left(since: datetime | None, now: datetime, whole: timedelta) -> float:
    """Seconds. A clock that was set back tells nobody for how long; a moment's whole second may be the one to come."""
    if since is None or not -SECOND < now - since < whole:
        return 0.0
    return min(whole, since + whole - now).total_seconds()


def _writes_only(made: Decision) -> bool:
    return bool(made.status_patch) and not made.effects and made.requeue_after is None and made.wait_for is None


def _foreseeable(source: Phase, task: pendingtask.PendingTask, state: ObservedState) -> bool:
    """Would the API or MongoDB be asked for nothing more, now that `task` has left `source`?"""
    phase, status = task.status.phase or Phase.NEW, task.status
    if phase is source:
        return True
    if not phases.passes(source, phase):
        return False
    if phase is Phase.READY_FOR_GPU:
        return status.attempt == 0  # pods of earlier runs would have to be listed
    if phase is Phase.ORCHESTRATING and (state.job is None or state.job.state in ENDED):
        # How it ended is known only when a pod of this run has told; a stored result would have to be read.
        return last_word(state.pods, status.attempt, state.job) is not None
    return True
