"""UserTask: answers, approvals and refusals of a person."""

from __future__ import annotations

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, asked

OPEN = ObservedState(slots=GPU)


def test_a_question_needs_all_its_answers() -> None:
    one = {"answers": [{"id": "q1", "text": "a"}]}
    both = {"answers": [{"id": "q1", "text": "a"}, {"id": "q2", "text": "b"}]}
    assert decide(asked("Question", "q1", "q2"), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=one), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=both), OPEN, NOW).phase is Phase.READY_FOR_GPU


@pytest.mark.parametrize("kind", ["Question", "Approval", "Failure"])
def test_a_new_message_brings_any_user_task_back(kind: str) -> None:
    current = asked(kind, "q1", spec={"messages": [{"id": "m", "text": "go on"}]})
    status = after(current, decide(current, OPEN, NOW))
    assert (status.phase, status.user_task) == (Phase.READY_FOR_GPU, None)


@pytest.mark.parametrize(
    ("kind", "approval", "phase"),
    [
        ("Approval", {"verdict": "Approved"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Rejected"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Approved", "requestId": "run-2"}, Phase.READY_FOR_GPU),
        ("Approval", {"verdict": "Approved", "requestId": "run-1"}, None),
        ("Failure", {"verdict": "Approved"}, Phase.READY_FOR_GPU),
        ("Failure", {"verdict": "Rejected"}, Phase.ERROR),
        ("Question", {"verdict": "Approved"}, None),
    ],
)
def test_approvals(kind: str, approval: dict[str, str], phase: Phase | None) -> None:
    assert decide(asked(kind, "q1", spec={"approval": approval}), OPEN, NOW).phase is phase


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
def test_an_accepted_decision_is_kept_with_the_request_that_it_answers(verdict: str) -> None:
    given = {"verdict": verdict, "comment": "because", "author": "ada"}
    current = asked("Approval", spec={"approval": given}, attempt=2)
    status = after(current, decide(current, OPEN, NOW))
    assert [one.wire() for one in status.approvals] == [{**given, "requestId": "run-2", "attempt": 2}]


def test_the_latest_eight_decisions_are_kept_in_order() -> None:
    old = [{"requestId": f"run-{n}", "attempt": n, "verdict": "Approved"} for n in range(1, 9)]
    current = asked("Approval", spec={"approval": {"verdict": "Rejected"}}, attempt=9, approvals=old)
    status = after(current, decide(current, OPEN, NOW))
    assert [one.attempt for one in status.approvals] == list(range(2, 10))


def test_a_retry_of_a_failure_is_no_decision_on_an_approval() -> None:
    current = asked("Failure", spec={"approval": {"verdict": "Approved"}})
    assert after(current, decide(current, OPEN, NOW)).approvals == ()


def test_an_approval_of_an_earlier_request_of_the_same_run_does_not_count() -> None:
    first = asked("Failure")
    stale = {"approval": {"verdict": "Approved", "requestId": first.status.request_id}}
    again = asked("Failure", spec=stale)
    later = {Phase.USER_TASK: NOW}
    reopened = again.model_copy(update={"status": again.status.model_copy(update={"phase_times": later})})
    assert reopened.status.request_id != first.status.request_id
    assert decide(again, OPEN, NOW).phase is Phase.READY_FOR_GPU
    assert decide(reopened, OPEN, NOW).phase is None


def test_an_approval_that_is_older_than_the_request_does_not_count() -> None:
    current = asked("Approval", spec={"approval": {"verdict": "Approved"}})
    same = current.model_copy(update={"metadata": current.metadata.model_copy(update={"generation": 4})})
    assert decide(same, OPEN, NOW).phase is None
