"""What a person says counts once, for the request that it is about, and also when it comes at the last moment."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome
from crds import pendingtask
from crds.exits import ExitReason
from crds.pendingtask import Question
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, decided, job, pod, present, routed
from tests.controllers.fleet import Fleet

OPEN = ObservedState(slots=GPU)
APPROVED = {"verdict": "Approved", "author": "ada"}


def asked(reason: ExitReason, spec: dict[str, Any] | None = None, *ids: str, **status: Any) -> pendingtask.PendingTask:
    """A run has ended with that question."""
    outcome = Outcome(reason, "?", questions=tuple(Question(id=one, text="?") for one in ids))
    around = ObservedState(job=job(JobState.COMPLETE), pods=(pod(live=False, exit_code=0, outcome=outcome),))
    return decided(routed(Phase.ORCHESTRATING, spec=spec, **status), around)


def edited(current: pendingtask.PendingTask, **spec: Any) -> pendingtask.PendingTask:
    raw = current.wire()
    raw["spec"] |= spec
    raw["metadata"]["generation"] = current.metadata.generation + 1
    return pendingtask.PendingTask.model_validate(raw)


def test_the_identity_of_a_request_stands_in_the_status() -> None:
    current = asked(ExitReason.NEEDS_APPROVAL)
    assert present(current.status.user_task).request_id == current.status.request_id == f"run-1-{int(NOW.timestamp())}"


def test_an_earlier_approval_decides_nothing_whatever_else_is_edited() -> None:
    current = asked(ExitReason.NEEDS_APPROVAL, {"approval": APPROVED})
    moved = edited(current, queuePosition=3)
    assert decide(moved, OPEN, NOW).phase is None
    again = edited(moved, approval={**APPROVED, "comment": "this one too"})
    assert decide(again, OPEN, NOW).phase is Phase.READY_FOR_GPU
    named = edited(moved, approval={**APPROVED, "requestId": current.status.request_id})
    assert decide(named, OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_the_condition_names_the_request_when_an_earlier_approval_stands_in_the_spec() -> None:
    first = asked(ExitReason.NEEDS_APPROVAL)
    second = asked(ExitReason.NEEDS_APPROVAL, {"approval": APPROVED})
    failed = asked(ExitReason.ERROR, {"approval": APPROVED})

    def told(current: pendingtask.PendingTask) -> str:
        return next(one.message for one in current.status.conditions if one.type == "WaitingForUser")

    assert "requestId" not in told(first)
    for current in (second, failed):
        assert told(current).endswith(f"spec.approval.requestId {current.status.request_id}.")


def test_a_first_approval_needs_no_name() -> None:
    current = asked(ExitReason.NEEDS_APPROVAL)
    assert decide(edited(current, approval=APPROVED), OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_an_answer_that_the_run_has_read_does_not_answer_what_it_asked_then() -> None:
    given = [{"id": "q1", "text": "a"}]
    current = asked(ExitReason.NEEDS_INPUT, {"answers": given}, "q1", answersSeen=1)
    assert decide(edited(current), OPEN, NOW).phase is None
    current = asked(ExitReason.NEEDS_INPUT, {"answers": given}, "q2", answersSeen=1)
    more = [*given, {"id": "q2", "text": "b"}]
    assert decide(edited(current, answers=more), OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_a_second_answer_changes_nothing_once_the_task_is_on_its_way() -> None:
    current = edited(asked(ExitReason.NEEDS_INPUT, None, "q1"), answers=[{"id": "q1", "text": "a"}])
    current = decided(current, OPEN)
    current = decided(current, OPEN)
    assert (current.status.phase, current.status.answers_seen) == (Phase.DISPATCHED_GPU, 1)
    late = edited(current, answers=[{"id": "q1", "text": "a"}, {"id": "q1-again", "text": "b"}])
    assert decide(late, ObservedState(job=job(), pods=(pod(2),)), NOW).phase is Phase.ORCHESTRATING


@pytest.mark.parametrize("again", [False, True])
def test_a_message_between_the_runs_end_and_the_write_is_not_lost(again: bool) -> None:
    """The shell decides about an old version; its write loses, and the new version has the message."""
    fleet = Fleet(lambda _: False, lambda _: False, {"a": 1})
    uid = fleet.submit("Foreground")
    fleet.look(uid)
    fleet.kubelet(0, ExitReason.ANSWERED)
    messages = (pendingtask.Message(id="m1", text="One more thing."),)
    fleet.edit(uid, messages=messages)  # the watch has not told of it
    fleet.look(uid)
    assert uid not in fleet.finished
    assert fleet.store[uid].status.messages_seen == 1, "the next run reads it"
    fleet.kubelet(0, ExitReason.ANSWERED)
    if again:
        fleet.edit(uid, messages=(*messages, pendingtask.Message(id="m2", text="And another.")))
        fleet.look(uid)
        fleet.kubelet(0, ExitReason.ANSWERED)
    fleet.look(uid)
    assert uid in fleet.finished
    assert len({job.attempt for job in fleet.jobs.values()}) == (3 if again else 2)
