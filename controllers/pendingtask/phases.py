"""Which phase may follow which: data, and the only place that knows. Everything else asks `check`.

Source: blueprint section 4 and 9; seed 000 "Task States Flow"; seed 002 "State Flow Guarantees".

    New -> Scheduled -> ReadyForQualification -> Qualifying -> Done | ReadyForGpu | Scheduled | UserTask | Error
    ReadyForGpu -> DispatchedGpu -> Orchestrating -> Completed | ReadyForGpu | UserTask
    UserTask -> ReadyForGpu (answered) | Error (given up by a person)
    any of them -> UserTask (the operator cannot decide about it) -> Scheduled | ReadyForQualification, without a route

Two rules go beyond pairs. A task that has a route (it was qualified) never enters ReadyForQualification or Qualifying
again: a deferred one is due for the GPU, not for another qualification. And Qualifying returns to
ReadyForQualification only without a route, that is, after an operational error.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds.phases import TERMINAL, Phase

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.NEW: frozenset({Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.USER_TASK}),
    Phase.SCHEDULED: frozenset({Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK}),
    Phase.READY_FOR_QUALIFICATION: frozenset({Phase.QUALIFYING, Phase.USER_TASK}),
    Phase.QUALIFYING: frozenset(
        {
            Phase.DONE,
            Phase.READY_FOR_GPU,
            Phase.SCHEDULED,
            Phase.USER_TASK,
            Phase.ERROR,
            Phase.READY_FOR_QUALIFICATION,
        }
    ),
    Phase.READY_FOR_GPU: frozenset({Phase.DISPATCHED_GPU, Phase.USER_TASK}),
    Phase.DISPATCHED_GPU: frozenset({Phase.ORCHESTRATING, Phase.READY_FOR_GPU, Phase.USER_TASK}),
    Phase.ORCHESTRATING: frozenset({Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK}),
    Phase.USER_TASK: frozenset({Phase.READY_FOR_GPU, Phase.ERROR, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION}),
    Phase.DONE: frozenset(),
    Phase.COMPLETED: frozenset(),
    Phase.ERROR: frozenset(),
}

PASSING: Mapping[Phase, frozenset[Phase]] = {
    Phase.READY_FOR_QUALIFICATION: frozenset({Phase.NEW, Phase.SCHEDULED}),
    Phase.QUALIFYING: frozenset({Phase.READY_FOR_QUALIFICATION}),
    Phase.READY_FOR_GPU: frozenset({Phase.SCHEDULED, Phase.QUALIFYING}),
    Phase.ORCHESTRATING: frozenset({Phase.DISPATCHED_GPU}),
}
"""Phases in which a task that comes from one of those need not stay: one write may take it there and further."""

BEFORE_ROUTE = frozenset({Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING})
"""Closed to a task that has a route."""


class ForbiddenTransitionError(AssertionError):
    """A policy proposed a transition that the table does not list: a bug of ours, never a user's mistake."""


def permitted(source: Phase, target: Phase, *, qualified: bool) -> bool:
    """May a task go from `source` to `target`? `qualified` means that it has a route after the step."""
    return target in TRANSITIONS[source] and not (qualified and target in BEFORE_ROUTE)


def check(source: Phase, target: Phase, *, qualified: bool) -> None:
    """Raise `ForbiddenTransitionError` unless the step is permitted."""
    if not permitted(source, target, qualified=qualified):
        state = "qualified" if qualified else "not yet qualified"
        raise ForbiddenTransitionError(f"a {state} task cannot go from {source} to {target}")


def passes(source: Phase, phase: Phase) -> bool:
    """May the write that takes a task from `source` to `phase` take it further at once?"""
    return source in PASSING.get(phase, frozenset())


def reach(source: Phase) -> frozenset[Phase]:
    """Every phase to which one write may take a task from `source`: the steps of the table, and what they pass."""
    steps: set[tuple[Phase, Phase]] = set()
    ahead = [(source, target) for target in TRANSITIONS[source]]
    while ahead:
        step = ahead.pop()
        if step not in steps and passes(*step):
            ahead += [(step[1], following) for following in TRANSITIONS[step[1]]]
        steps.add(step)
    return frozenset(target for _, target in steps)


def terminal(phase: Phase) -> bool:
    """No phase follows."""
    return phase in TERMINAL
