"""What a run is told about its task."""

from __future__ import annotations

from controllers.memory import document
from crds.phases import Phase
from tests.controllers import build

SPEC = {
    "messages": [{"id": "m1", "text": "More."}, {"id": "m2", "text": "And more."}],
    "answers": [{"id": "q1", "text": "This."}, {"id": "q2", "text": "That."}],
}


def test_a_run_reads_what_its_claim_counted_and_no_more() -> None:
    """A message between the claim and the Job brings the task back; were this run to read it, that one had no news."""
    claimed = build.routed(Phase.DISPATCHED_GPU, spec=SPEC, messagesSeen=1, answersSeen=1)
    told = document.of_task(claimed, 1, build.NOW)
    assert [one["id"] for one in told["messages"]] == ["m1"]
    assert [one["id"] for one in told["answers"]] == ["q1"]


def test_a_run_reads_the_decisions_that_were_accepted_and_not_what_stands_in_the_spec() -> None:
    decided = {"requestId": "run-1-1", "attempt": 1, "verdict": "Rejected", "comment": "no", "author": "ada"}
    spec = {"approval": {"verdict": "Approved"}}
    told = document.of_task(build.routed(Phase.DISPATCHED_GPU, spec=spec, approvals=[decided]), 2, build.NOW)
    assert told["approvals"] == [decided]
    assert "approval" not in told
    assert document.of_task(build.routed(Phase.DISPATCHED_GPU, spec=spec), 1, build.NOW)["approvals"] == []


def test_the_claim_of_another_run_counts_all_of_it() -> None:
    claimed = build.routed(Phase.DISPATCHED_GPU, spec=SPEC, messagesSeen=2, answersSeen=2)
    told = document.of_task(claimed, 2, build.NOW)
    assert [one["id"] for one in told["messages"]] == ["m1", "m2"]
    assert [one["id"] for one in told["answers"]] == ["q1", "q2"]


def test_a_chat_is_in_the_foreground_whatever_its_mode_says() -> None:
    chat = build.routed(Phase.DISPATCHED_GPU, spec={"type": "UserInputProcessing"})
    assert document.of_task(chat, 1, build.NOW)["mode"] == "Foreground"
    assert document.of_task(build.routed(Phase.DISPATCHED_GPU), 1, build.NOW)["mode"] == "Background"
