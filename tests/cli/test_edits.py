"""Patches: what they say, when none is needed, what is refused; and what the operator's own `decide` makes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cli import approving, edits, errors
from controllers.pendingtask import decide, observed
from crds import pendingtask
from crds.pendingtask import Verdict
from crds.phases import Phase
from tests.cli import objects


def decided(raw: Any) -> Phase | None:
    """Where the operator sends the task as it now stands."""
    task = pendingtask.PendingTask.model_validate(raw)
    return decide.decide(task, observed.ObservedState(), objects.NOW).phase


def test_the_last_answer_brings_the_task_back() -> None:
    raw = objects.asking("Question", objects.QUESTIONS)
    first = edits.answer(raw, "r1-q1", "C4", "alice")
    assert first == {"spec": {"answers": [{"id": "r1-q1", "text": "C4", "author": "alice"}]}}
    raw = objects.merged(raw, first)
    assert decided(raw) is None
    second = edits.answer(raw, "r1-q2", "the third", "bob")
    raw = objects.merged(raw, second)
    assert [one["id"] for one in raw["spec"]["answers"]] == ["r1-q1", "r1-q2"]
    assert decided(raw) is Phase.READY_FOR_GPU


def test_the_same_answer_again_writes_nothing_and_another_one_is_refused() -> None:
    raw = objects.asking("Question", objects.QUESTIONS, answers=[{"id": "r1-q1", "text": "C4", "author": "alice"}])
    assert edits.answer(raw, "r1-q1", "C4", "bob") is None
    with pytest.raises(errors.Misplaced, match="answered already by alice: 'C4'") as refused:
        edits.answer(raw, "r1-q1", "D1", "bob")
    assert refused.value.field == "spec.answers"
    assert "tell mail-7" in (refused.value.remedy or "")
    # Also once the task has gone on.
    raw["status"] = {"phase": "Orchestrating"}
    assert edits.answer(raw, "r1-q1", "C4", "bob") is None


def test_an_unknown_question_names_those_there_are() -> None:
    with pytest.raises(errors.Misplaced, match="'r9'") as refused:
        edits.answer(objects.asking("Question", objects.QUESTIONS), "r9", "C4", "")
    assert refused.value.remedy == "Its questions are: r1-q1, r1-q2."


def test_a_task_that_names_no_questions_takes_any_answer() -> None:
    raw = objects.asking("Question")
    assert decided(objects.merged(raw, edits.answer(raw, "free", "C4", ""))) is Phase.READY_FOR_GPU


@pytest.mark.parametrize(
    ("kind", "verdict", "phase"),
    [
        ("Approval", Verdict.APPROVED, Phase.READY_FOR_GPU),
        ("Approval", Verdict.REJECTED, Phase.READY_FOR_GPU),
        ("Failure", Verdict.APPROVED, Phase.READY_FOR_GPU),
        ("Failure", Verdict.REJECTED, Phase.ERROR),
    ],
)
def test_a_decision(kind: str, verdict: Verdict, phase: Phase) -> None:
    # An approval of an earlier run is still there, with a comment that is not this one's.
    old = {"verdict": "Approved", "requestId": "run-1", "comment": "fine", "author": "carol"}
    raw = objects.asking(kind, approval=old)
    assert decided(raw) is None
    patch = edits.decide(raw, approving.Choice(verdict), "")
    after = objects.merged(raw, patch)
    assert after["spec"]["approval"]["verdict"] == verdict.value
    assert after["spec"]["approval"].get("comment", "") == ""
    assert decided(after) is phase
    assert edits.decide(after, approving.Choice(verdict, "again"), "bob") is None


@pytest.mark.parametrize("phase", ["ReadyForGpu", "Orchestrating", "Completed"])
def test_the_same_decision_is_harmless_once_the_task_has_gone_on(phase: str) -> None:
    accepted = {"requestId": "run-2", "attempt": 2, "verdict": "Approved"}
    raw = objects.task(status={"phase": phase, "attempt": 3, "approvals": [accepted]})
    assert edits.decide(raw, approving.Choice(Verdict.APPROVED), "bob") is None
    with pytest.raises(errors.Misplaced, match="waits for no decision"):
        edits.decide(raw, approving.Choice(Verdict.REJECTED), "bob")


def test_a_decision_is_not_turned_round() -> None:
    raw = objects.asking("Approval", approval={"verdict": "Approved", "requestId": "run-2", "author": "carol"})
    with pytest.raises(errors.Misplaced, match="decided already: Approved by carol"):
        edits.decide(raw, approving.Choice(Verdict.REJECTED), "")


def test_retry_of_a_failure() -> None:
    raw = objects.asking("Failure")
    after = objects.merged(raw, edits.retry(raw, "alice"))
    assert decided(after) is Phase.READY_FOR_GPU
    assert edits.retry(after, "bob") is None


@pytest.mark.parametrize("phase", ["Error", "Done", "Completed"])
def test_nothing_brings_an_ended_task_back(phase: str) -> None:
    raw = objects.task(status={"phase": phase}, labels={"jervis.dev/archived": "true"})
    # The claim of the refusal, asked of the operator itself: not even an approval does.
    assert decided(objects.merged(raw, {"spec": {"approval": {"verdict": "Approved"}}})) is None
    with pytest.raises(errors.Misplaced, match=f"ended in {phase}") as refused:
        edits.retry(raw, "")
    assert refused.value.remedy == "Make a new task of it with: kubectl jervis retry mail-7 --as mail-7-again"


def test_a_new_task_of_an_ended_one_is_seen_by_the_operator() -> None:
    raw = objects.task(
        spec={"answers": [{"id": "a", "text": "b"}], "approval": {"verdict": "Rejected"}, "messages": [{"id": "m"}]},
        status={"phase": "Error", "attempt": 4},
        labels={"jervis.dev/archived": "true", "team": "storage"},
        annotations={"jervis.dev/title": "Disk", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    )
    raw["spec"]["messages"] = [{"id": "m", "text": "hurry"}]
    created = edits.again(raw, "mail-8")
    assert created["metadata"] == {
        "name": "mail-8",
        "labels": {"team": "storage"},
        "annotations": {"jervis.dev/title": "Disk"},
    }
    assert created["spec"] == {
        "type": "EmailProcessing",
        "clientId": "acme",
        "mode": "Background",
        "content": "Please replace the disk.",
        "messages": [{"id": "m", "text": "hurry"}],
    }
    assert "status" not in created
    with pytest.raises(errors.Misplaced, match="has not ended"):
        edits.again(objects.asking("Failure"), "mail-8")


def test_retry_says_when_the_operator_does_it_by_itself() -> None:
    raw = objects.task(status={"phase": "ReadyForGpu", "retry": {"count": 2, "nextAt": objects.at(30)}})
    with pytest.raises(errors.Misplaced) as refused:
        edits.retry(raw, "")
    assert refused.value.remedy == "The operator tries it again by itself at 2026-11-18T12:00:30+00:00."


def test_messages_are_appended_and_the_same_id_is_one_message() -> None:
    raw = objects.task(spec={"messages": [{"id": "m1", "text": "a"}]}, status={"phase": "Orchestrating"})
    patch = edits.say(raw, "m2", "b", "alice", objects.NOW)
    assert patch is not None
    assert patch["spec"]["messages"] == [
        {"id": "m1", "text": "a"},
        {"id": "m2", "text": "b", "author": "alice", "at": "2026-11-18T12:00:00Z"},
    ]
    assert edits.say(objects.merged(raw, patch), "m2", "b", "alice", objects.NOW) is None
    with pytest.raises(errors.Misplaced, match="reads no more messages: it has ended in Done"):
        edits.say(objects.task(status={"phase": "Done"}), "m3", "c", "", objects.NOW)


def test_positions() -> None:
    raw = objects.task()
    assert edits.position(raw, None) is None
    after = objects.merged(raw, edits.position(raw, 4))
    assert after["spec"]["queuePosition"] == 4
    assert edits.position(after, 4) is None
    assert "queuePosition" not in objects.merged(after, edits.position(after, None))["spec"]
    with pytest.raises(errors.Misplaced, match="is in no queue"):
        edits.position(objects.task(status={"phase": "Completed"}), 1)


@pytest.mark.parametrize(
    ("kind", "edit", "remedy"),
    [
        ("Approval", lambda raw: edits.answer(raw, "q", "a", ""), "approve|reject"),
        ("Failure", lambda raw: edits.answer(raw, "q", "a", ""), "retry|reject"),
        ("Question", lambda raw: edits.decide(raw, approving.Choice(Verdict.APPROVED), ""), "answer"),
        ("Question", lambda raw: edits.retry(raw, ""), "answer"),
        ("Approval", lambda raw: edits.retry(raw, ""), "approve|reject"),
    ],
)
def test_the_wrong_command_names_the_right_one(kind: str, edit: Callable[[Any], Any], remedy: str) -> None:
    with pytest.raises(errors.Misplaced) as refused:
        edit(objects.asking(kind))
    assert refused.value.remedy == f"Use: kubectl jervis {remedy} mail-7"


@pytest.mark.parametrize("phase", sorted(set(Phase) - {Phase.USER_TASK}))
def test_who_asks_nothing_is_not_answered(phase: Phase) -> None:
    raw = objects.task(status={"phase": phase.value})
    with pytest.raises(errors.Misplaced, match=f"its phase is {phase.value}"):
        edits.answer(raw, "q", "a", "")
    with pytest.raises(errors.Misplaced, match=f"its phase is {phase.value}"):
        edits.decide(raw, approving.Choice(Verdict.APPROVED), "")


def test_an_object_of_a_later_version_is_said_so() -> None:
    with pytest.raises(errors.Unusable) as refused:
        edits.position(objects.task(status={"phase": "Dreaming"}), 1)
    assert refused.value.field == "status.phase"
