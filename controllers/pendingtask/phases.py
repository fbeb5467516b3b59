"""The transition table: which phase may follow which. It is defined here only; other modules call `check`.

Source: blueprint section 4 and 9; seed 000 "Task States Flow"; seed 002 "State Flow Guarantees".

    New -> Scheduled -> ReadyForQualification -> Qualifying -> Done | ReadyForGpu | Scheduled | UserTask | Error
    ReadyForGpu -> DispatchedGpu -> Orchestrating -> Completed | ReadyForGpu | UserTask
    UserTask -> ReadyForGpu (answered) | Error (given up by a person)
    Scheduled | ReadyForQualification | ReadyForGpu | UserTask -> Done (answered in its thread before it ran)
    any of them -> UserTask (the operator cannot decide about it) -> Scheduled | ReadyForQualification, without a route

Two rules go beyond pairs. A task with a route (it was qualified) never returns to ReadyForQualification or Qualifying:
a deferred task becomes due for the GPU, not for another qualification. Qualifying returns to ReadyForQualification only
without a route, that is, after an operational error.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds.phases import TERMINAL, Phase

TRANSITIONS: Mapping[Phase, frozenset[Phase]] = {
    Phase.NEW: frozenset({Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.USER_TASK}),
    Phase.SCHEDULED: frozenset({Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK, Phase.DONE}),
    Phase.READY_FOR_QUALIFICATION: frozenset({Phase.QUALIFYING, Phase.USER_TASK, Phase.DONE}),
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
    Phase.READY_FOR_GPU: frozenset({Phase.DISPATCHED_GPU, Phase.USER_TASK, Phase.DONE}),
    Phase.DISPATCHED_GPU: frozenset({Phase.ORCHESTRATING, Phase.READY_FOR_GPU, Phase.USER_TASK}),
    Phase.ORCHESTRATING: frozenset({Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK}),
    Phase.USER_TASK: frozenset(
        {Phase.READY_FOR_GPU, Phase.ERROR, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.DONE}
    ),
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
"""Phase -> the sources from which a task may pass through it: one write takes the task to the phase and further."""

BEFORE_ROUTE = frozenset({Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING})
"""Forbidden for a task with a route."""


class ForbiddenTransitionError(AssertionError):
    """A policy proposed a transition that the table does not list: a bug in the operator, never a user's mistake."""


def permitted(source: Phase, target: Phase, *, qualified: bool) -> bool:
    """Whether a task may go from `source` to `target`. `qualified`: it has a route after the step."""
    return target in TRANSITIONS[source] and not (qualified and target in BEFORE_ROUTE)


def check(source: Phase, target: Phase, *, qualified: bool) -> None:
    """Raise `ForbiddenTransitionError` unless the step is permitted."""
    if not permitted(source, target, qualified=qualified):
        state = "qualified" if qualified else "not yet qualified"
        raise ForbiddenTransitionError(f"a {state} task cannot go from {source} to {target}")


def passes(source: Phase, phase: Phase) -> bool:
    """Whether the write that takes a task from `source` to `phase` may take it further."""
    return source in PASSING.get(phase, frozenset())


def reach(source: Phase) -> frozenset[Phase]:
    """Every phase to which one write may take a task from `source`, directly or through passed phases."""
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
