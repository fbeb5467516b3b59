"""What the conditions say after each kind of end: no step leaves one behind that is not true any more."""

from __future__ import annotations

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome
from controllers.pendingtask.policy import interruption
from crds import conditions, pendingtask
from crds.exits import ExitReason
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, apply, asked, job, pod, routed

RUNNING = {
    "type": "Dispatched",
    "status": "True",
    "reason": "Running",
    "message": "Job x runs.",
    "lastTransitionTime": "2027-03-01T11:00:00Z",
}


def said(status: pendingtask.Status, type_: str) -> tuple[str, str] | None:
    found = conditions.find(status.conditions, type_)
    return None if found is None else (found.status.value, found.reason)


def ended(outcome: Outcome | None, **spec: object) -> pendingtask.Status:
    current = routed(Phase.ORCHESTRATING, spec=spec, conditions=[RUNNING])
    state = ObservedState(job=job(JobState.COMPLETE), pods=(pod(live=False, exit_code=0, outcome=outcome),))
    return apply(current, decide(current, state, NOW).status_patch).status


@pytest.mark.parametrize(
    ("outcome", "phase", "reason"),
    [
        (Outcome(ExitReason.ANSWERED), Phase.COMPLETED, "Completed"),
        (Outcome(ExitReason.UNAVAILABLE, "router away"), Phase.READY_FOR_GPU, "Unavailable"),
        (Outcome(ExitReason.FENCED), Phase.READY_FOR_GPU, "Fenced"),
        (Outcome(ExitReason.NEEDS_INPUT), Phase.USER_TASK, "NeedsInput"),
        (Outcome(ExitReason.STUCK), Phase.USER_TASK, "Stuck"),
        (None, Phase.READY_FOR_GPU, "WorkerLost"),
    ],
)
def test_what_has_ended_is_not_dispatched(outcome: Outcome | None, phase: Phase, reason: str) -> None:
    status = ended(outcome)
    assert status.phase is phase
    assert said(status, "Dispatched") == ("False", reason)


def test_what_runs_again_for_new_messages_is_not_dispatched() -> None:
    status = ended(Outcome(ExitReason.ANSWERED), messages=[{"id": "m", "text": "And?"}])
    assert said(status, "Dispatched") == ("False", "NewMessages")


def test_what_was_given_up_waits_for_no_one() -> None:
    current = asked("Failure", spec={"approval": {"verdict": "Rejected"}})
    status = apply(current, decide(current, ObservedState(slots=GPU), NOW).status_patch).status
    assert said(status, "WaitingForUser") == ("False", "GivenUp")
    assert said(status, "Succeeded") == ("False", "GivenUp")
    assert said(status, "Finished") == ("True", "GivenUp")


def test_success_has_a_condition_of_its_own() -> None:
    assert said(ended(Outcome(ExitReason.ANSWERED)), "Succeeded") == ("True", "Completed")
    assert said(ended(Outcome(ExitReason.STUCK)), "Succeeded") is None


def test_what_was_stopped_for_a_user_is_not_running() -> None:
    current = routed(Phase.ORCHESTRATING, spec={"suspend": True}, conditions=[RUNNING])
    made = decide(current, ObservedState(job=job(JobState.SUSPENDED)), NOW)
    status = apply(current, made.status_patch).status
    assert status.phase is Phase.READY_FOR_GPU
    assert said(status, "Dispatched") == ("False", "Suspended")
    assert interruption.PREEMPTED not in {one.type for one in status.conditions}


@pytest.mark.parametrize("left", ["NoFreeSlot", "UsersActive", "Preempted", "JobSuspended"])
def test_what_has_ended_waits_for_no_slot(left: str) -> None:
    """The reason of the condition is the column DISPATCH of `kubectl get`."""
    waited = {"type": "Dispatched", "status": "False", "reason": left, "lastTransitionTime": "2027-03-01T11:00:00Z"}
    current = asked("Failure", spec={"approval": {"verdict": "Rejected"}})
    current = current.model_copy(
        update={
            "status": current.status.model_copy(
                update={"conditions": (*current.status.conditions, conditions.Condition.model_validate(waited))}
            )
        }
    )
    status = apply(current, decide(current, ObservedState(slots=GPU), NOW).status_patch).status
    assert status.phase is Phase.ERROR
    assert said(status, "Dispatched") == ("False", "GivenUp")


def test_how_the_last_run_ended_is_kept() -> None:
    stuck = {"type": "Dispatched", "status": "False", "reason": "Stuck", "lastTransitionTime": "2027-03-01T11:00:00Z"}
    current = asked("Failure", spec={"approval": {"verdict": "Rejected"}})
    current = current.model_copy(
        update={
            "status": current.status.model_copy(
                update={"conditions": (*current.status.conditions, conditions.Condition.model_validate(stuck))}
            )
        }
    )
    status = apply(current, decide(current, ObservedState(slots=GPU), NOW).status_patch).status
    assert said(status, "Dispatched") == ("False", "Stuck")
