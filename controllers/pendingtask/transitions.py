"""Batched transitions: several steps in one status write. Pure, like `decide`.

A status write costs the apiserver, etcd and each watcher the same, whether it passes one phase or four. If a step needs
only its write (no effect, no waiting) and the next decision needs no further request, that decision is made at once,
about the task as the write will leave it. The patch is the difference between the first and the last status:
`phaseTimes` names every phase that was passed. Each step is checked against the phase table and keeps its own Event.

Effects come last: the write before them holds the intent of all of them (docs/decisions/0008).
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
"""More than any task can pass; the rest is decided at the next reconciliation."""

MAX_NEW_TASK_DELAY = timedelta(seconds=60)
"""Since the creation of a task: the longest delay of the write that it waits for the qualifier."""
MAX_RUNNING_DELAY = timedelta(seconds=10)
"""Since the dispatch of a task: the longest delay of the write that its run has started."""
RECHECK_SECONDS = 10.0
"""A delayed write is reconsidered after this time: the queue may be idle by then."""
SECOND = timedelta(seconds=1)
"""Resolution of the times in a status, which are rounded up (`decision.whole`)."""
_UNREAD = frozenset({Phase.NEW, Phase.READY_FOR_QUALIFICATION})

Decide = Callable[[pendingtask.PendingTask, ObservedState, datetime], Decision]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision that changes the status, and the phase in which it was made."""

    source: Phase
    made: Decision


@dataclass(frozen=True, slots=True)
class Batch:
    """The decision to persist and perform, and the steps to report, in order.

    `more`: the last step changed the status too, so another decision is due.
    """

    decision: Decision
    steps: tuple[Step, ...]
    more: bool


def batched(task: pendingtask.PendingTask, state: ObservedState, now: datetime, *, judge: Decide = decide) -> Batch:
    """The decisions about `task` until it has to wait for something, as one."""
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
    """The state for the step after one from `source`.

    The result of an effect is for one step only. Before Qualifying it is kept: a reading that started ahead of its
    claim (`reads_first`) is for the step in Qualifying.
    """
    return state if source in _UNREAD else replace(state, observed=None)


def reads_first(task: pendingtask.PendingTask, batch: Batch) -> bool:
    """Whether the write only claims a new task for the qualifier: it can then be made together with the result of the
    reading.

    A reading may be repeated, so a crash in the middle leaves no wrong state.
    """
    made = batch.decision
    unread = (task.status.phase or Phase.NEW) in _UNREAD
    return unread and made.phase is Phase.QUALIFYING and made.effects == (Ingest(),)


def write_delay(task: pendingtask.PendingTask, batch: Batch, now: datetime) -> float:
    """Seconds until the write is reconsidered; 0.0: write now. Called while the queue is busy.

    Two writes can be delayed, because the next write repeats them: that a new task waits for the qualifier (until
    `MAX_NEW_TASK_DELAY` after the creation; the task has no phase until then), and that a Background run has started
    (until `MAX_RUNNING_DELAY` after the dispatch). The apiserver then has more capacity for other tasks.
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
    """Seconds; 0 if the clock was set back. `since` may be up to a second ahead: times are rounded up."""
    if since is None or not -SECOND < now - since < whole:
        return 0.0
    return min(whole, since + whole - now).total_seconds()


def _writes_only(made: Decision) -> bool:
    return bool(made.status_patch) and not made.effects and made.requeue_after is None and made.wait_for is None


def _foreseeable(source: Phase, task: pendingtask.PendingTask, state: ObservedState) -> bool:
    """Whether the next decision, after `task` has left `source`, needs no request to the API or MongoDB."""
    phase, status = task.status.phase or Phase.NEW, task.status
    if phase is source:
        return True
    if not phases.passes(source, phase):
        return False
    if phase is Phase.READY_FOR_GPU:
        return status.attempt == 0  # pods of earlier runs would have to be listed
    if phase is Phase.ORCHESTRATING and (state.job is None or state.job.state in ENDED):
        # Without the outcome of a pod of this run, or where it names effects, the stored result would have to be read.
        reported = last_word(state.pods, status.attempt, state.job)
        return reported is not None and not reported.waiting
    return True
