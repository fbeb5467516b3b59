"""UserTask: answers, approvals and refusals of a person. Every way to a person is the same step: the request has an
identity, what was written before it decides nothing, and the run that asked is over, so that nothing goes round without
an outside event.

What a person says counts once, for the request that it is about, and also when it comes at the last moment.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, Limits, ObservedState, Outcome, Trouble
from crds import approvals, conditions, pendingtask
from crds.exit_reasons import ExitReason
from crds.pendingtask import Question, UserTaskKind
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, apply, asked, changed, decided, job, pod, present, routed
from tests.controllers.fleet import Fleet

OPEN = ObservedState(slots=GPU)


def test_a_question_needs_all_its_answers() -> None:
    one = {"answers": [{"id": "q1", "text": "a"}]}
    both = {"answers": [{"id": "q1", "text": "a"}, {"id": "q2", "text": "b"}]}
    assert decide(asked("Question", "q1", "q2"), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=one), OPEN, NOW).phase is None
    assert decide(asked("Question", "q1", "q2", spec=both), OPEN, NOW).phase is Phase.READY_FOR_GPU


@pytest.mark.parametrize("kind", ["Question", "Approval", "Failure"])
def test_a_new_message_brings_any_user_task_back(kind: str) -> None:
    status = decided(asked(kind, "q1", spec={"messages": [{"id": "m", "text": "go on"}]}), OPEN).status
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
    status = decided(asked("Approval", spec={"approval": given}, attempt=2), OPEN).status
    more = {"requestId": "run-2", "attempt": 2, "arguments": "", "about": "", "ruleKey": ""}
    assert [one.wire() for one in status.approvals] == [{**given, **more}]


def test_the_latest_eight_decisions_are_kept_in_order() -> None:
    old = [{"requestId": f"run-{n}", "attempt": n, "verdict": "Approved"} for n in range(1, 9)]
    current = asked("Approval", spec={"approval": {"verdict": "Rejected"}}, attempt=9, approvals=old)
    status = decided(current, OPEN).status
    assert [one.attempt for one in status.approvals] == list(range(2, 10))


def test_a_retry_of_a_failure_is_no_decision_on_an_approval() -> None:
    assert decided(asked("Failure", spec={"approval": {"verdict": "Approved"}}), OPEN).status.approvals == ()


def test_an_approval_of_an_earlier_request_of_the_same_run_does_not_count() -> None:
    first = asked("Failure")
    stale = {"approval": {"verdict": "Approved", "requestId": first.status.request_id}}
    again = asked("Failure", spec=stale)
    later = {Phase.USER_TASK: NOW}
    reopened = changed(again, status={"phase_times": later})
    assert reopened.status.request_id != first.status.request_id
    assert decide(again, OPEN, NOW).phase is Phase.READY_FOR_GPU
    assert decide(reopened, OPEN, NOW).phase is None


def test_an_approval_that_is_older_than_the_request_does_not_count() -> None:
    current = asked("Approval", spec={"approval": {"verdict": "Approved"}})
    same = changed(current, metadata={"generation": 4})
    assert decide(same, OPEN, NOW).phase is None


MAIL = approvals.Action(tool="send_mail", arguments='{"to":"ada@example.com"}')


def mail(**spec: Any) -> pendingtask.PendingTask:
    """A task that asks whether it may send a mail; asked at NOW."""
    current = asked("Approval", spec=spec, attempt=2)
    waiting = pendingtask.UserTask(kind=pendingtask.UserTaskKind.APPROVAL, action=MAIL)
    more = {"user_task": waiting, "phase_times": {"UserTask": NOW}}
    return changed(current, status=more)


def request(task: pendingtask.PendingTask) -> str:
    return task.status.request_id


def decided_with(arguments: str, **more: Any) -> pendingtask.PendingTask:
    named = request(mail())
    return mail(approval={"verdict": "Approved", "requestId": named, "arguments": arguments}, **more)


def test_edited_arguments_reach_the_next_run() -> None:
    edited = '{"to":"bob@example.com"}'
    current = decided_with(edited)
    made = decide(current, OPEN, NOW)
    status = after(current, made)
    assert (status.phase, [one.arguments for one in status.approvals]) == (Phase.READY_FOR_GPU, [edited])
    assert present(made.note).message == "Approved by a user, with edited arguments."


def test_a_decision_names_what_the_run_asked_about() -> None:
    current = mail(approval={"verdict": "Approved", "requestId": request(mail())})
    named = present(current.status.user_task).model_copy(update={"about": "r1.d3.approval/2"})
    current = changed(current, status={"user_task": named})
    assert [one.about for one in decided(current, OPEN).status.approvals] == ["r1.d3.approval/2"]


def test_an_edit_of_what_is_cut_leaves_the_request_open_and_says_how_to_edit_it() -> None:
    whole = {"to": ["ada@example.com"], "text": "Dear Ann, " * 300}
    action = approvals.Wanted(tool="send_mail", arguments=whole).action(2000)
    shown = json.loads(action.arguments)
    for text, reason in ((shown["text"], "ArgumentsUnusable"), (whole["text"], "Approved")):
        current = decided_with(json.dumps({"to": ["bob@example.com"], "text": text}))
        waiting = present(current.status.user_task).model_copy(update={"action": action})
        current = changed(current, status={"user_task": waiting})
        said = present(conditions.find(decided(current, OPEN).status.conditions, "WaitingForUser"))
        assert said.reason == reason
        assert ("approve NAME --arguments FILE" in said.message) == (reason == "ArgumentsUnusable")


@pytest.mark.parametrize("arguments", ["[1]", "{,", "no", '"{}"'])
def test_arguments_that_are_no_object_leave_the_request_open_and_say_so(arguments: str) -> None:
    current = decided_with(arguments)
    status = decided(current, OPEN).status
    waiting = present(conditions.find(status.conditions, "WaitingForUser"))
    assert (status.phase, waiting.reason, status.approvals) == (Phase.USER_TASK, "ArgumentsUnusable", ())
    assert "approve with a JSON object" in waiting.message
    # Said once.
    again = current.model_copy(update={"status": status})
    assert decide(again, OPEN, NOW).status_patch == {}


def test_an_answer_has_no_arguments_to_edit() -> None:
    status = decided(asked("Approval", spec={"approval": {"verdict": "Approved", "arguments": "{}"}}), OPEN).status
    assert status.phase is Phase.USER_TASK


DAY = timedelta(days=1)
EXPIRING = replace(OPEN, limits=Limits(approval_expires=DAY))


def test_a_request_waits_for_as_long_as_it_takes_unless_a_policy_says_otherwise() -> None:
    made = decide(mail(), OPEN, NOW + 365 * DAY)
    assert (made.status_patch, made.requeue_after) == ({}, None)


def test_the_time_of_expiry_is_written_down_and_waited_for() -> None:
    current = mail()
    made = decide(current, EXPIRING, NOW + timedelta(hours=1))
    assert (made.status_patch, made.requeue_after) == ({"userTask": {"expiresAt": "2027-03-02T12:00:00Z"}}, 23 * 3600)
    known = current.model_copy(update={"status": after(current, made)})
    again = decide(known, EXPIRING, NOW + timedelta(hours=2))
    assert (again.status_patch, again.requeue_after) == ({}, 22 * 3600)


def test_an_expired_request_is_rejected_and_the_run_goes_on() -> None:
    current = mail()
    made = decide(current, EXPIRING, NOW + DAY)
    status = after(current, made)
    (rejection,) = status.approvals
    assert (status.phase, rejection.verdict, rejection.author) == (Phase.READY_FOR_GPU, "Rejected", "jervis")
    assert rejection.comment == "No decision came until 2027-03-02T12:00:00Z."
    closed = present(conditions.find(status.conditions, "WaitingForUser"))
    assert (closed.status, closed.reason) == ("False", "ApprovalExpired")
    assert (present(made.note).reason, present(made.note).warning) == ("ApprovalExpired", True)


@pytest.mark.parametrize(
    ("own", "at", "phase"),
    [
        ({"expireAfter": "1h"}, timedelta(hours=1), Phase.READY_FOR_GPU),
        ({"expireAfter": "1h", "default": "GiveUp"}, timedelta(hours=1), Phase.ERROR),
        ({"expireAfter": "1h"}, timedelta(minutes=59), None),
        ({"expireAfter": "48h"}, DAY, None),
        ({"expireAfter": "0s"}, 100 * DAY, None),
        ({"default": "GiveUp"}, DAY, Phase.ERROR),
    ],
)
def test_the_task_s_own_policy_comes_first(own: dict[str, str], at: timedelta, phase: Phase | None) -> None:
    assert decide(mail(approvalPolicy=own), EXPIRING, NOW + at).phase is phase


def test_a_decision_that_came_in_time_counts_however_late_it_is_read() -> None:
    status = decided(decided_with("{}"), EXPIRING, NOW + 3 * DAY).status
    assert [one.verdict for one in status.approvals] == ["Approved"]


def test_arguments_that_cannot_be_used_do_not_stop_the_clock() -> None:
    assert decide(decided_with("[]"), EXPIRING, NOW + DAY).phase is Phase.READY_FOR_GPU


def test_a_task_that_is_held_does_not_expire() -> None:
    assert decide(mail(suspend=True), EXPIRING, NOW + 2 * DAY).phase is None


def test_questions_and_failures_do_not_expire() -> None:
    for kind in ("Question", "Failure"):
        assert decide(asked(kind, "q1"), EXPIRING, NOW + 365 * DAY).phase is None


REFUSED = ObservedState(observed=Trouble("resources are wrong", operational=False, field="job.resources"))
FAILED = ObservedState(job=job(), pods=(pod(live=False, exit_code=1, outcome=Outcome(ExitReason.STUCK, "stuck")),))
MESSAGE = {"messages": [{"id": "m1", "text": "again"}]}
ANSWER = {"answers": [{"id": "a1", "text": "again"}]}


def refused(spec: dict[str, Any] | None = None) -> pendingtask.PendingTask:
    return decided(routed(Phase.DISPATCHED_GPU, spec=spec), REFUSED)


def test_a_refused_dispatch_asks_as_a_failed_run_does() -> None:
    ran = routed(Phase.ORCHESTRATING)
    over = ObservedState(job=job(state=FAILED.job.state.COMPLETE), pods=FAILED.pods) if FAILED.job else FAILED
    statuses = [refused().status, decided(ran, over).status]
    for status in statuses:
        assert status.phase is Phase.USER_TASK
        assert status.dispatch is None
        assert present(status.user_task).kind is UserTaskKind.FAILURE
        assert present(status.user_task).request_id == status.request_id
        waiting = present(conditions.find(status.conditions, "WaitingForUser"))
        assert (waiting.status, waiting.reason) == (conditions.Status.TRUE, "Failure")


@pytest.mark.parametrize("said", [MESSAGE, ANSWER])
def test_a_refused_dispatch_is_tried_once_for_each_thing_that_a_person_says(said: dict[str, Any]) -> None:
    current, moved = refused(), []
    raw = current.wire()
    raw["spec"] |= said
    current = pendingtask.PendingTask.model_validate(raw)
    for _ in range(20):
        holds = current.status.phase is Phase.DISPATCHED_GPU
        made = decide(current, REFUSED if holds else OPEN, NOW)
        if made.phase is None:
            break
        moved.append(made.phase)
        current = apply(current, made.status_patch)
    assert moved == [Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU, Phase.USER_TASK]
    assert current.status.attempt == 2


@pytest.mark.parametrize("verdict", ["Approved", "Rejected"])
def test_an_approval_that_stands_in_the_manifest_decides_nothing(verdict: str) -> None:
    current = refused({"approval": {"verdict": verdict}})
    assert decide(current, OPEN, NOW).phase is None


def test_the_request_names_the_field() -> None:
    status = refused().status
    waiting = present(conditions.find(status.conditions, "WaitingForUser"))
    assert "job.resources" in waiting.message


APPROVED = {"verdict": "Approved", "author": "ada"}


def asks(reason: ExitReason, spec: dict[str, Any] | None = None, *ids: str, **status: Any) -> pendingtask.PendingTask:
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
    current = asks(ExitReason.NEEDS_APPROVAL)
    assert present(current.status.user_task).request_id == current.status.request_id == f"run-1-{int(NOW.timestamp())}"


def test_an_earlier_approval_decides_nothing_whatever_else_is_edited() -> None:
    current = asks(ExitReason.NEEDS_APPROVAL, {"approval": APPROVED})
    moved = edited(current, queuePosition=3)
    assert decide(moved, OPEN, NOW).phase is None
    again = edited(moved, approval={**APPROVED, "comment": "this one too"})
    assert decide(again, OPEN, NOW).phase is Phase.READY_FOR_GPU
    named = edited(moved, approval={**APPROVED, "requestId": current.status.request_id})
    assert decide(named, OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_the_condition_names_the_request_when_an_earlier_approval_stands_in_the_spec() -> None:
    first = asks(ExitReason.NEEDS_APPROVAL)
    second = asks(ExitReason.NEEDS_APPROVAL, {"approval": APPROVED})
    failed = asks(ExitReason.ERROR, {"approval": APPROVED})

    def told(current: pendingtask.PendingTask) -> str:
        return next(one.message for one in current.status.conditions if one.type == "WaitingForUser")

    assert "requestId" not in told(first)
    for current in (second, failed):
        assert told(current).endswith(f"spec.approval.requestId {current.status.request_id}.")


def test_a_first_approval_needs_no_name() -> None:
    current = asks(ExitReason.NEEDS_APPROVAL)
    assert decide(edited(current, approval=APPROVED), OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_an_answer_that_the_run_has_read_does_not_answer_what_it_asked_then() -> None:
    given = [{"id": "q1", "text": "a"}]
    current = asks(ExitReason.NEEDS_INPUT, {"answers": given}, "q1", answersSeen=1)
    assert decide(edited(current), OPEN, NOW).phase is None
    current = asks(ExitReason.NEEDS_INPUT, {"answers": given}, "q2", answersSeen=1)
    more = [*given, {"id": "q2", "text": "b"}]
    assert decide(edited(current, answers=more), OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_a_second_answer_changes_nothing_once_the_task_is_on_its_way() -> None:
    current = edited(asks(ExitReason.NEEDS_INPUT, None, "q1"), answers=[{"id": "q1", "text": "a"}])
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
