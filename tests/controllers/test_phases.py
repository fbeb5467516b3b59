"""The table of transitions: complete, closed, and what the seeds promise about it."""

from __future__ import annotations

import itertools

import pytest

from controllers.pendingtask import phases
from controllers.pendingtask.decide import CHAINS
from crds.phases import TERMINAL, Phase

FOLLOWING = {
    Phase.NEW: {Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION},
    Phase.SCHEDULED: {Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU},
    Phase.READY_FOR_QUALIFICATION: {Phase.QUALIFYING},
    Phase.QUALIFYING: {
        *(Phase.DONE, Phase.READY_FOR_GPU, Phase.SCHEDULED, Phase.USER_TASK, Phase.ERROR, Phase.READY_FOR_QUALIFICATION)
    },
    Phase.READY_FOR_GPU: {Phase.DISPATCHED_GPU},
    Phase.DISPATCHED_GPU: {Phase.ORCHESTRATING, Phase.READY_FOR_GPU, Phase.USER_TASK},
    Phase.ORCHESTRATING: {Phase.COMPLETED, Phase.READY_FOR_GPU, Phase.USER_TASK},
    # A person has it tried again also where the operator could not decide about it.
    Phase.USER_TASK: {Phase.READY_FOR_GPU, Phase.ERROR, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION},
}
WAITING = (Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU)
LISTED = {
    *((source, target) for source, targets in FOLLOWING.items() for target in targets),
    # Answered in its thread before it ran.
    *((source, Phase.DONE) for source in (*WAITING, Phase.USER_TASK)),
    # The operator cannot decide about it.
    *((source, Phase.USER_TASK) for source in (Phase.NEW, *WAITING)),
}


@pytest.mark.parametrize(("source", "target"), list(itertools.product(Phase, Phase)))
def test_exactly_the_listed_steps_are_permitted(source: Phase, target: Phase) -> None:
    assert phases.permitted(source, target, qualified=False) == ((source, target) in LISTED)
    after_route = (source, target) in LISTED and target not in phases.BEFORE_ROUTE
    assert phases.permitted(source, target, qualified=True) == after_route


def test_the_table_and_the_chains_know_every_phase() -> None:
    assert set(phases.TRANSITIONS) == set(Phase) == set(CHAINS)


def test_terminal_phases_have_no_successor_and_only_they() -> None:
    assert {phase for phase, targets in phases.TRANSITIONS.items() if not targets} == TERMINAL


def test_every_phase_is_reachable_from_new() -> None:
    assert reach(Phase.NEW, qualified=False) == set(Phase)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_reaches_a_terminal_one(phase: Phase) -> None:
    assert reach(phase, qualified=False) & TERMINAL


@pytest.mark.parametrize("target", sorted(phases.TRANSITIONS[Phase.QUALIFYING] - phases.BEFORE_ROUTE))
def test_no_directive_leads_back_to_qualifying(target: Phase) -> None:
    """Seed 002 "State Flow Guarantees": never returns to QUALIFYING."""
    assert not reach(target, qualified=True) & {Phase.QUALIFYING, Phase.READY_FOR_QUALIFICATION}


def test_a_forbidden_step_is_refused_loudly() -> None:
    with pytest.raises(phases.ForbiddenTransitionError, match="Done to New"):
        phases.check(Phase.DONE, Phase.NEW, qualified=True)


def reach(start: Phase, *, qualified: bool) -> set[Phase]:
    """All phases that can be entered from `start`, itself included."""
    found, edge = {start}, [start]
    while edge:
        source = edge.pop()
        for target in phases.TRANSITIONS[source]:
            if target not in found and phases.permitted(source, target, qualified=qualified):
                found.add(target)
                edge.append(target)
    return found
