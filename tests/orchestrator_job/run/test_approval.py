"""A rule that wants a person's approval: the run stops before it answers, and goes on as the person decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services


@pytest.fixture
def guarded(known: knowledge.Knowledge) -> None:
    """Answers of this client need an approval."""
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]


def decided(attempt: int, verdict: str, comment: str = "") -> dict[str, Any]:
    """As the operator writes it into the memory once a person has decided."""
    request = f"run-{attempt}-1767225600"
    return {"requestId": request, "attempt": attempt, "verdict": verdict, "comment": comment, "author": "ada"}


@pytest.mark.usefixtures("guarded")
async def test_an_approved_answer_is_given(desk: Desk) -> None:
    asked = await desk.ends("NeedsApproval", [job.reply()])
    assert asked.message["summary"].endswith("before this answer is given: On Friday [1].")
    assert asked.message["remedy"] == "Approve it to give the answer, reject it to withhold it."
    assert asked.message["ref"]["key"] == desk.task.uid
    proposed = desk.result()
    assert (proposed["exitReason"], proposed["answer"], proposed["attempt"]) == ("NeedsApproval", "On Friday [1].", 1)
    assert desk.store.all("session_memory") == []

    ended = await desk.ends("Answered", approvals=[decided(1, "Approved")])
    assert ended.message["summary"] == "On Friday [1]."
    result = desk.result()
    assert (result["exitReason"], result["attempt"], result["round"]) == ("Answered", 2, 1)
    assert result["approval"]["author"] == "ada"
    # The very answer that was approved: the model was not asked again.
    assert desk.calls() == 1
    assert len(desk.store.all("session_memory")) == 1


@pytest.mark.usefixtures("guarded")
async def test_a_rejected_answer_is_withheld(desk: Desk) -> None:
    await desk.run([job.reply()])
    ended = await desk.ends("Rejected", approvals=[decided(1, "Rejected", "too early")])
    assert ended.message["summary"] == "The answer is withheld. Rejected by ada: too early"
    result = desk.result()
    assert (result["exitReason"], result["answer"], result["citations"]) == ("Rejected", "", [])
    assert result["stepResults"] == []
    [session] = desk.store.all("session_memory")
    assert "Friday" not in session["summary"]


@pytest.mark.usefixtures("guarded")
async def test_without_a_decision_on_its_own_request_it_asks_again(desk: Desk) -> None:
    # Decided before anything was asked, as an approval in a manifest is.
    early = {"approvals": [decided(0, "Approved")], "approval": {"verdict": "Approved"}}
    await desk.ends("NeedsApproval", [job.reply()], **early)
    await desk.ends("NeedsApproval")
    assert [one["attempt"] for one in desk.store.all("task_results")] == [2]
    # The first request is not the open one any more.
    await desk.ends("NeedsApproval", approvals=[decided(1, "Approved")], approval=None)
    await desk.ends("Answered", approvals=[decided(1, "Rejected"), decided(3, "Approved")])
    assert desk.calls() == 1


@pytest.mark.usefixtures("guarded")
async def test_another_answer_needs_another_approval(desk: Desk) -> None:
    await desk.run([job.reply(), job.reply(answer="On Monday [1].")])
    said = [{"id": "m1", "text": "It was moved."}]
    second = await desk.ends("NeedsApproval", messages=said, approvals=[decided(1, "Approved")])
    assert "On Monday" in second.message["summary"]
    third = await desk.run(approvals=[decided(1, "Approved"), decided(2, "Approved")])
    assert third.message["summary"] == "On Monday [1]."


@pytest.mark.usefixtures("guarded")
async def test_a_question_back_needs_no_approval(desk: Desk) -> None:
    await desk.ends("NeedsInput", [job.reply(answer="", citations=[], needsInput=True, questions=["Which router?"])])


async def test_a_run_without_such_a_rule_reads_past_decisions_and_answers(desk: Desk) -> None:
    await desk.ends("Answered", [job.reply()], approvals=[decided(1, "Rejected")], attempt=2)


@pytest.mark.usefixtures("guarded")
async def test_a_thread_that_is_gone_does_not_begin_anew(desk: Desk) -> None:
    """The answer that was approved is in no checkpoint any more: another one must not be given in its place."""
    await desk.run([job.reply(), job.reply(answer="On Saturday [1].")])
    for name in ("orchestrator_checkpoints", "orchestrator_checkpoint_writes"):
        desk.store.database[name].delete_many({})
    ended = await desk.ends("Error", approvals=[decided(1, "Approved")])
    assert "its ledger has reached round 1" in ended.message["summary"]
    assert "orchestrator_checkpoints" in ended.message["remedy"]
    assert desk.calls() == 1
