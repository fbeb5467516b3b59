"""Where each task has to end, and whether it did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crds import pendingtask
from crds.phases import TERMINAL, Phase

ENDS = TERMINAL | {Phase.SCHEDULED, Phase.USER_TASK}
"""Phases in which a task stays until a person acts or its day comes."""


@dataclass(frozen=True)
class Expectation:
    """A task by name with the phases that it may end in."""

    task: str
    story: str
    phases: frozenset[Phase]
    may_fail: bool = True
    """Whether it may become a UserTask because its run failed."""

    def settled(self, task: pendingtask.PendingTask | None) -> bool:
        """Whether nothing more is to be waited for, as expected or not."""
        return task is not None and task.status.phase in self.phases | ENDS

    def met(self, task: pendingtask.PendingTask | None) -> bool:
        """Whether it is where it has to be."""
        return task is not None and task.status.phase in self.phases and (self.may_fail or not failed(task))


@dataclass(frozen=True)
class Verdict:
    """One line of the table that is shown when something went wrong."""

    task: str
    expected: str
    actual: str
    ok: bool
    because: str


def judge(expectations: list[Expectation], seen: Mapping[str, pendingtask.PendingTask]) -> list[Verdict]:
    """One verdict per expectation, in order."""
    return [
        Verdict(
            e.task,
            " or ".join(sorted(e.phases)),
            phase(seen.get(e.task)),
            e.met(seen.get(e.task)),
            reason(seen.get(e.task)),
        )
        for e in expectations
    ]


def relaxed(expectations: list[Expectation]) -> list[Expectation]:
    """For a real model, whose judgement is not ours to know: every task has to end, in whatever phase but Error, and
    with no failure that a person is asked about."""
    return [Expectation(e.task, e.story, e.phases | ENDS - {Phase.ERROR}, may_fail=False) for e in expectations]


def failed(task: pendingtask.PendingTask) -> bool:
    """Whether its run failed (such as InvalidOutput), so that a person is asked what to do."""
    asked = task.status.user_task
    return task.status.phase is Phase.USER_TASK and asked is not None and asked.kind is pendingtask.UserTaskKind.FAILURE


def finished(tasks: Iterable[pendingtask.PendingTask]) -> int:
    """How many have come to their own end: Completed or Done."""
    return sum(task.status.phase in (Phase.COMPLETED, Phase.DONE) for task in tasks)


def phase(task: pendingtask.PendingTask | None) -> str:
    """The phase in a word, also for a task that the operator has not seen."""
    if task is None:
        return "missing"
    return (task.status.phase or Phase.NEW).value


def reason(task: pendingtask.PendingTask | None) -> str:
    """Why it stands where it stands: the retry that is waited for, else the latest condition, else the route."""
    if task is None:
        return ""
    if task.status.retry is not None and task.status.retry.reason and task.status.phase not in TERMINAL:
        return task.status.retry.reason
    if task.status.user_task is not None and task.status.phase == Phase.USER_TASK:
        asked = "; ".join(question.text for question in task.status.user_task.questions)
        return asked or (task.status.result.summary if task.status.result else task.status.user_task.kind.value)
    troubles = [c for c in task.status.conditions if c.status.value == "False" and c.message]
    if troubles:
        return max(troubles, key=lambda c: c.last_transition_time).message
    return task.status.route.reason if task.status.route else ""
