"""Every pair of phases, asked of the apiserver: exactly what the operator writes goes through, and for it alone."""

from __future__ import annotations

import pytest

from controllers.pendingtask import phases
from crds.phases import Phase
from tests.chart.admission import callers
from tests.chart.admission.callers import HOME, Caller

pytestmark = pytest.mark.apiserver
ROUTE = {"decision": "Execute"}


@pytest.mark.parametrize("source", list(Phase), ids=str)
def test_what_may_follow(source: Phase, operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, source)
    wrong = []
    for target in Phase:
        for qualified in (False, True):
            moved = callers.status(target, route=ROUTE if qualified else None)
            answer = operator.patch(HOME, f"{path}/status", moved, dry=True)
            # New is the absence of a phase, so that staying in a phase is never a step.
            reached = target in phases.reach(source) and not (qualified and target in phases.BEFORE_ROUTE)
            expected = source is target or reached
            if answer.is_success is not expected:
                wrong.append((target.value, qualified, answer.text))
            if not answer.is_success:
                assert "status.phase: " in callers.refusal(answer)
    assert not wrong


def test_a_task_cannot_be_made_new_again(operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, Phase.READY_FOR_GPU)
    message = callers.refusal(operator.patch(HOME, f"{path}/status", {"status": {"phase": None}}))
    assert "status.phase: a task cannot go from ReadyForGpu to New; possible is DispatchedGpu" in message


def test_the_end_is_the_end(operator: Caller, admin: Caller) -> None:
    path = callers.at(operator, admin, HOME, Phase.COMPLETED)
    message = callers.refusal(operator.patch(HOME, f"{path}/status", callers.status(Phase.READY_FOR_GPU)))
    assert "cannot go from Completed to ReadyForGpu; nothing follows, create a new PendingTask" in message


def test_a_frozen_leader_loses(operator: Caller, admin: Caller) -> None:
    """Its write would be fine but for the epoch; the leader of today, and one after it, go on."""
    path = f"{callers.at(operator, admin, HOME, Phase.READY_FOR_GPU)}/status"
    message = callers.refusal(operator.patch(HOME, path, callers.status(Phase.DISPATCHED_GPU, epoch=callers.EPOCH - 1)))
    assert f"status.leaderEpoch: may not go down from {callers.EPOCH} to {callers.EPOCH - 1}" in message
    assert f"raises its Lease {HOME}/jervis-operator beyond {callers.EPOCH} by itself" in message
    assert "down from 5 to 0" in callers.refusal(operator.patch(HOME, path, {"status": {"leaderEpoch": None}}))
    callers.succeed(operator.patch(HOME, path, callers.status(Phase.DISPATCHED_GPU, epoch=callers.EPOCH + 1)))
    late = operator.patch(HOME, path, callers.status(Phase.ORCHESTRATING))
    assert "down from 6 to 5" in callers.refusal(late)
