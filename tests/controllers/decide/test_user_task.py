"""UserTask: answers, approvals and refusals of a person. Every way to a person is the same step: the request has an
identity, what was written before it decides nothing, and the run that asked is over, so that nothing goes round without
an outside event.

What a person says counts once, for the request that it is about, and also when it comes at the last moment.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from controllers.pendingtask import transitions
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, Limits, ObservedState, Outcome, Trouble
from controllers.pendingtask.policy import user_task
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
    more = {"requestId": "run-2", "attempt": 2, "arguments": "", "about": "", "ruleKey": "", "forTask": False}
    assert [one.wire() for one in status.approvals] == [{**given, **more}]


@pytest.mark.parametrize(("comment", "kept"), [("", 127), ("x" * 2000, 61)])
def test_the_latest_decisions_are_kept_in_order_as_far_as_a_status_has_place(comment: str, kept: int) -> None:
    old = [{"requestId": f"run-{n}", "attempt": n, "verdict": "Approved", "comment": comment} for n in range(1, 129)]
    current = asked("Approval", spec={"approval": {"verdict": "Rejected"}}, attempt=129, approvals=old)
    status = decided(current, OPEN).status
    assert [one.attempt for one in status.approvals] == list(range(129 - kept, 130))


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


def effect(number: int, **more: Any) -> approvals.Effect:
    given = {
        "tool": "sendMail",
        "targets": [f"p{number}@example.com"],
        "arguments": f'{{"to":"p{number}@example.com"}}',
    }
    return approvals.Effect.model_validate({"id": f"r1.d{number}/0", **given, **more})


MAILS = tuple(effect(number) for number in (1, 2, 3))


def mail(effects: Sequence[approvals.Effect] = MAILS[:1], waiting: int = 0, **spec: Any) -> pendingtask.PendingTask:
    """A task that asks whether it may send mails; asked at NOW."""
    current = asked("Approval", spec=spec, attempt=2)
    kind = pendingtask.UserTaskKind.APPROVAL
    user_task = pendingtask.UserTask(kind=kind, effects=tuple(effects), effects_waiting=waiting or len(effects))
    return changed(current, status={"user_task": user_task, "phase_times": {"UserTask": NOW}})


def request(task: pendingtask.PendingTask) -> str:
    return task.status.request_id


def approve(*answers: dict[str, Any], verdict: str = "Approved", **more: Any) -> dict[str, Any]:
    given = {"verdict": verdict, "requestId": request(mail()), "author": "ada", **more}
    return {**given, "effects": list(answers)} if answers else given


def answer(number: int, verdict: str = "Approved", **more: Any) -> dict[str, Any]:
    return {"id": f"r1.d{number}/0", "verdict": verdict, **more}


@pytest.mark.parametrize(
    ("given", "verdicts", "reason", "message"),
    [
        (approve(), "AAA", "Approved", "3 of 3 effects approved by ada."),
        (approve(verdict="Rejected"), "RRR", "Rejected", "0 of 3 effects approved by ada, 3 rejected."),
        (
            approve(answer(1), answer(3), verdict="Rejected"),
            "ARA",
            "PartlyApproved",
            "2 of 3 effects approved by ada, 1 rejected.",
        ),
        (
            approve(answer(2, "Rejected", comment="not she")),
            "ARA",
            "PartlyApproved",
            "2 of 3 effects approved by ada, 1 rejected.",
        ),
        (
            approve(answer(2, arguments='{"to":"bob@example.com"}'), forTask=True),
            "AAA",
            "Approved",
            "3 of 3 effects approved by ada, 1 with edited arguments, 3 for the whole task.",
        ),
        (
            approve(answer(1, "Rejected"), answer(2, "Rejected"), answer(3, "Rejected"), forTask=True),
            "RRR",
            "Rejected",
            "0 of 3 effects approved by ada, 3 rejected.",
        ),
    ],
)
def test_each_effect_of_a_request_has_its_decision(
    given: dict[str, Any], verdicts: str, reason: str, message: str
) -> None:
    current = mail(MAILS, approval=given)
    made = decide(current, OPEN, NOW)
    status = after(current, made)
    assert (status.phase, status.user_task) == (Phase.READY_FOR_GPU, None)
    assert [(one.about, one.verdict[0]) for one in status.approvals] == list(
        zip([one.id for one in MAILS], verdicts, strict=True)
    )
    assert {(one.request_id, one.attempt, one.author) for one in status.approvals} == {(request(current), 2, "ada")}
    closed = present(conditions.find(status.conditions, "WaitingForUser"))
    assert (closed.status, closed.reason, closed.message) == ("False", reason, message)
    assert present(made.note).message == message


def test_what_is_decided_otherwise_keeps_its_own_words_and_the_rest_those_of_all() -> None:
    edited = '{"to":"bob@example.com"}'
    given = approve(
        answer(1, arguments=edited, forTask=True), answer(2, "Rejected", comment="not she"), comment="go on"
    )
    one, two, three = decided(mail(MAILS, approval=given), OPEN).status.approvals
    assert (one.arguments, one.comment, one.for_task) == (edited, "go on", True)
    assert (two.arguments, two.comment, two.for_task) == ("", "not she", False)
    assert (three.arguments, three.comment, three.for_task) == ("", "go on", False)


def test_effects_that_are_not_listed_are_in_the_next_request() -> None:
    current = mail(MAILS, waiting=70, approval=approve())
    made = decide(current, OPEN, NOW)
    assert len(after(current, made).approvals) == 3
    assert present(made.note).message == ("3 of 3 effects approved by ada, 67 more are asked for in the next request.")


def test_a_rule_is_written_as_it_was_approved_or_taken_back() -> None:
    rule = effect(1, tool="proposeRule", arguments='{"key":"letters"}')
    for given, verdict in ((approve(), "Approved"), (approve(verdict="Rejected"), "Rejected")):
        (kept,) = decided(mail([rule], approval=given), OPEN).status.approvals
        assert (kept.rule_key, kept.verdict) == ("letters", verdict)


def test_a_decision_on_an_answer_names_it() -> None:
    current = asked("Approval", spec={"approval": approve(requestId="run-2")}, attempt=2)
    named = present(current.status.user_task).model_copy(update={"about": "r1.approval.abc/0"})
    current = changed(current, status={"user_task": named})
    assert [one.about for one in decided(current, OPEN).status.approvals] == ["r1.approval.abc/0"]


def test_an_edit_of_what_is_cut_leaves_the_request_open_and_says_how_to_edit_it() -> None:
    whole = {"to": ["ada@example.com"], "text": "Dear Ann, " * 300}
    cut = approvals.Recorded(id="r1.d1/0", tool="sendMail", arguments=whole).effect(2000)
    shown = json.loads(cut.arguments)
    for text, reason in ((shown["text"], "ApprovalUnusable"), (whole["text"], "Approved")):
        edited = json.dumps({"to": ["bob@example.com"], "text": text})
        status = decided(mail([cut], approval=approve(answer(1, arguments=edited))), OPEN).status
        said = present(conditions.find(status.conditions, "WaitingForUser"))
        assert said.reason == reason
        assert ("approve NAME --edit" in said.message) == (reason == "ApprovalUnusable")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        *(
            (answer(1, arguments=arguments), "spec.approval.effects[0].arguments is no JSON")
            for arguments in ("[1]", "{,", "no", '"{}"')
        ),
        (answer(4), "spec.approval.effects[0].id: the request has no effect 'r1.d4/0'; its effects are r1.d1/0, r1.d2"),
    ],
)
def test_an_answer_that_cannot_be_used_leaves_the_request_open_and_says_so(given: dict[str, Any], says: str) -> None:
    current = mail(MAILS, approval=approve(given))
    status = decided(current, OPEN).status
    waiting = present(conditions.find(status.conditions, "WaitingForUser"))
    assert (status.phase, waiting.reason, status.approvals) == (Phase.USER_TASK, "ApprovalUnusable", ())
    assert says in waiting.message
    # Said once.
    again = current.model_copy(update={"status": status})
    assert decide(again, OPEN, NOW).status_patch == {}
    # A message returns the task all the same.
    spoken = edited(again, messages=[{"id": "m1", "text": "never mind"}])
    assert decide(spoken, OPEN, NOW).phase is Phase.READY_FOR_GPU


def test_a_request_about_an_answer_has_no_effects_to_name() -> None:
    status = decided(asked("Approval", spec={"approval": {"verdict": "Approved", "effects": [answer(1)]}}), OPEN).status
    assert status.phase is Phase.USER_TASK
    assert "leave effects out" in present(conditions.find(status.conditions, "WaitingForUser")).message


def test_a_decision_on_an_earlier_request_that_comes_late_is_named_and_decides_nothing() -> None:
    current = mail(MAILS, approval=approve(requestId="run-1-7"))
    status = decided(current, OPEN).status
    waiting = present(conditions.find(status.conditions, "WaitingForUser"))
    assert (status.phase, waiting.status, waiting.reason) == (Phase.USER_TASK, "True", "OtherRequest")
    assert "spec.approval.requestId: run-1-7 is not open" in waiting.message
    assert f"decide on {request(current)}" in waiting.message
    again = current.model_copy(update={"status": status})
    assert decide(again, OPEN, NOW).status_patch == {}
    # The decision on the request before this one, which stands there still, is none that came late.
    digest = user_task.request_digest(current.spec.approval)
    known = present(current.status.user_task).model_copy(update={"earlier_approval": digest})
    assert decide(changed(current, status={"user_task": known}), OPEN, NOW).status_patch == {}


def test_a_decision_that_comes_with_a_message_is_taken_first() -> None:
    message = [{"id": "m1", "text": "And greet her."}]
    status = decided(mail(MAILS, approval=approve(), messages=message), OPEN).status
    assert (status.phase, len(status.approvals), status.messages_seen) == (Phase.READY_FOR_GPU, 3, 0)


def test_the_same_decision_again_decides_nothing_more() -> None:
    current = decided(mail(MAILS, approval=approve()), OPEN)
    later = changed(current, metadata={"generation": 9})
    status = decided(later, OPEN).status
    assert len(status.approvals) == 3


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
    current = mail(MAILS)
    made = decide(current, EXPIRING, NOW + DAY)
    status = after(current, made)
    assert (status.phase, len(status.approvals)) == (Phase.READY_FOR_GPU, 3)
    for rejection in status.approvals:
        assert (rejection.verdict, rejection.author) == ("Rejected", "jervis")
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
    status = decided(mail(MAILS, approval=approve()), EXPIRING, NOW + 3 * DAY).status
    assert [one.verdict for one in status.approvals] == ["Approved"] * 3


def test_arguments_that_cannot_be_used_do_not_stop_the_clock() -> None:
    for given in (approve(answer(1, arguments="[]")), approve(requestId="run-1-7")):
        assert decide(mail(approval=given), EXPIRING, NOW + DAY).phase is Phase.READY_FOR_GPU


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


RECORDED = Outcome(ExitReason.NEEDS_APPROVAL, "May it?", waiting=3, effects=MAILS)


def test_a_run_that_asks_names_its_effects_in_the_request() -> None:
    reported = Outcome(ExitReason.NEEDS_APPROVAL, "May it?", waiting=3, key="uid")
    pods = (pod(live=False, exit_code=0, outcome=reported),)
    state = ObservedState(job=job(JobState.COMPLETE), pods=pods, recorded=RECORDED)
    current = routed(Phase.ORCHESTRATING)
    made = decide(current, state, NOW)
    status = after(current, made)
    waiting = present(status.user_task)
    assert (waiting.kind, waiting.effects, waiting.effects_waiting) == (UserTaskKind.APPROVAL, MAILS, 3)
    said = present(conditions.find(status.conditions, "WaitingForUser")).message
    assert said.startswith(
        "3 effects wait for approval: 1 sendMail p1@example.com; 2 sendMail p2@example.com; 3 sendMail p3@example.com."
    )
    assert present(made.note).message.startswith("3 effects wait for approval")
    assert present(status.result).summary == "May it?"
    # Which effects, the termination message has no place for: the stored result is read before this is decided.
    assert not transitions._foreseeable(Phase.DISPATCHED_GPU, current, replace(state, recorded=None))


def test_a_run_whose_effects_are_not_stored_is_repeated_and_asks_again() -> None:
    reported = Outcome(ExitReason.NEEDS_APPROVAL, "May it?", waiting=3, key="uid")
    pods = (pod(live=False, exit_code=0, outcome=reported),)
    for recorded in (None, replace(RECORDED, effects=())):
        state = ObservedState(job=job(JobState.COMPLETE), pods=pods, recorded=recorded)
        status = decided(routed(Phase.ORCHESTRATING), state).status
        assert (status.phase, status.user_task) == (Phase.READY_FOR_GPU, None)


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
