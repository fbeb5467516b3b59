"""Several steps in one write: pure, like `decide`.

Every status write costs the apiserver, etcd and each watcher the same, whether it moves a task by one phase or by
four. So as long as a step asks for nothing but its write (no effect, no waiting) and the next decision needs no other
look at the world, that decision is made at once, about the task as the write will leave it. What is written is the
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
from controllers.pendingtask.decision import Decision, Room
from controllers.pendingtask.launch import ENDED
from controllers.pendingtask.world import World
from crds import pendingtask
from crds.phases import Phase

MAX_STEPS = len(Phase)
"""More than any task can pass; what is left is decided at the next look."""

LEISURE = timedelta(seconds=60)

Decide = Callable[[pendingtask.PendingTask, World, datetime], Decision]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision with a write of its own to tell of, and the phase in which it was made."""

    source: Phase
    made: Decision


@dataclass(frozen=True, slots=True)
class Course:
    """What to persist and perform, and what is to be told of it, in order.

    `more`: the last step was a write as well, so there is something new to decide about.
    """

    decision: Decision
    steps: tuple[Step, ...]
    more: bool


def course(task: pendingtask.PendingTask, world: World, now: datetime, *, judge: Decide = decide) -> Course:
    """The decisions about `task` from where it stands to where it has to wait for something, as one."""
    steps: list[Step] = []
    first = status = task.status.wire()
    while True:
        source = task.status.phase or Phase.NEW
        made = judge(task, world, now)
        if made.status_patch:
            steps.append(Step(source, made))
            status = mergepatch.merged(status, made.status_patch)
        if not _writes_only(made) or len(steps) == MAX_STEPS:
            break
        task = task.model_copy(update={"status": pendingtask.Status.model_validate(status)})
        if not _foreseeable(source, task, world):
            break
        # What an effect brought has been decided about; the next step must not take it for its own.
        world = replace(world, observed=None)
    patch = steps[0].made.status_patch if len(steps) == 1 else mergepatch.difference(first, status)
    return Course(replace(made, status_patch=patch), tuple(steps), more=bool(made.status_patch))


def can_wait(task: pendingtask.PendingTask, course: Course, now: datetime) -> bool:
    """Would the write only say that a new task is in line? Its next one, with its turn, says that as well.

    Where more tasks come than can be served, such writes take from the apiserver what those need whose turn it is. So
    they are put off while there is other work to do, for `LEISURE` after the task's creation: until then a person who
    looks sees a task without a phase.
    """
    made, created = course.decision, task.metadata.creation_timestamp
    bookkeeping = made.room is Room.QUALIFIER and not made.effects
    new = (task.status.phase or Phase.NEW) is Phase.NEW
    return bookkeeping and new and created is not None and timedelta(0) <= now - created < LEISURE


def _writes_only(made: Decision) -> bool:
    return bool(made.status_patch) and not made.effects and made.requeue_after is None and made.room is None


def _foreseeable(source: Phase, task: pendingtask.PendingTask, world: World) -> bool:
    """Would the API or MongoDB be asked for nothing more, now that `task` has left `source`?"""
    phase, status = task.status.phase or Phase.NEW, task.status
    if phase is source:
        return True
    if not phases.passes(source, phase):
        return False
    if phase is Phase.READY_FOR_GPU:
        return status.attempt == 0  # pods of earlier runs would have to be listed
    if phase is Phase.ORCHESTRATING and (world.job is None or world.job.state in ENDED):
        # How it ended is known only when a pod of this run has told; a stored result would have to be read.
        return any(pod.attempt == status.attempt and pod.outcome for pod in world.pods)
    return True
