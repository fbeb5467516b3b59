"""A rule that wants a person's approval: the run stops before it answers, and goes on as the person decided."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge
from tests.orchestrator_job.test_standing import rule

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
async def test_an_approved_answer_is_given(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    asked = await task.run()
    assert (asked.status, asked.message["exitReason"]) == (0, "NeedsApproval")
    assert asked.message["summary"].endswith("before this answer is given: On Friday [1].")
    assert asked.message["remedy"] == "Approve it to give the answer, reject it to withhold it."
    assert asked.message["ref"]["key"] == task.uid
    [proposed] = store.all("task_results")
    assert (proposed["exitReason"], proposed["answer"], proposed["attempt"]) == ("NeedsApproval", "On Friday [1].", 1)
    assert store.all("session_memory") == []

    store.remember(task.memory(approvals=[decided(1, "Approved")]))
    ended = await task.run(attempt=2)
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered")
    assert ended.message["summary"] == "On Friday [1]."
    [result] = store.all("task_results")
    assert (result["exitReason"], result["attempt"], result["round"]) == ("Answered", 2, 1)
    assert result["approval"]["author"] == "ada"
    # The very answer that was approved: the model was not asked again.
    assert fake.count(path="/api/chat") == 1
    assert len(store.all("session_memory")) == 1


@pytest.mark.usefixtures("guarded")
async def test_a_rejected_answer_is_withheld(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    await task.run()
    store.remember(task.memory(approvals=[decided(1, "Rejected", "too early")]))
    ended = await task.run(attempt=2)
    assert (ended.status, ended.message["exitReason"]) == (0, "Rejected")
    assert ended.message["summary"] == "The answer is withheld. Rejected by ada: too early"
    [result] = store.all("task_results")
    assert (result["exitReason"], result["answer"], result["citations"]) == ("Rejected", "", [])
    assert result["stepResults"] == []
    [session] = store.all("session_memory")
    assert "Friday" not in session["summary"]


@pytest.mark.usefixtures("guarded")
async def test_without_a_decision_on_its_own_request_it_asks_again(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    # Decided before anything was asked, as an approval in a manifest is.
    store.remember(task.memory(approvals=[decided(0, "Approved")], approval={"verdict": "Approved"}))
    assert (await task.run()).message["exitReason"] == "NeedsApproval"
    again = await task.run(attempt=2)
    assert again.message["exitReason"] == "NeedsApproval"
    assert [one["attempt"] for one in store.all("task_results")] == [2]
    # The first request is not the open one any more.
    store.remember(task.memory(approvals=[decided(1, "Approved")]))
    assert (await task.run(attempt=3)).message["exitReason"] == "NeedsApproval"
    store.remember(task.memory(approvals=[decided(1, "Rejected"), decided(3, "Approved")]))
    assert (await task.run(attempt=4)).message["exitReason"] == "Answered"
    assert fake.count(path="/api/chat") == 1


@pytest.mark.usefixtures("guarded")
async def test_another_answer_needs_another_approval(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [job.reply(), job.reply(answer="On Monday [1].")]})
    await task.run()
    said = [{"id": "m1", "text": "It was moved."}]
    store.remember(task.memory(messages=said, approvals=[decided(1, "Approved")]))
    second = await task.run(attempt=2)
    assert second.message["exitReason"] == "NeedsApproval"
    assert "On Monday" in second.message["summary"]
    store.remember(task.memory(messages=said, approvals=[decided(1, "Approved"), decided(2, "Approved")]))
    assert (await task.run(attempt=3)).message["summary"] == "On Monday [1]."


@pytest.mark.usefixtures("guarded")
async def test_a_question_back_needs_no_approval(task: job.Job, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [job.reply(answer="", citations=[], needsInput=True, questions=["Which router?"])]})
    assert (await task.run()).message["exitReason"] == "NeedsInput"


async def test_a_run_without_such_a_rule_reads_past_decisions_and_answers(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(task.memory(approvals=[decided(1, "Rejected")]))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"


@pytest.mark.usefixtures("guarded")
async def test_a_thread_that_is_gone_does_not_begin_anew(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    """The answer that was approved is in no checkpoint any more: another one must not be given in its place."""
    fake.set_script({job.TAG: [job.reply(), job.reply(answer="On Saturday [1].")]})
    await task.run()
    for name in ("orchestrator_checkpoints", "orchestrator_checkpoint_writes"):
        store.database[name].delete_many({})
    store.remember(task.memory(approvals=[decided(1, "Approved")]))
    ended = await task.run(attempt=2)
    assert (ended.status, ended.message["exitReason"]) == (1, "Error")
    assert "its ledger has reached round 1" in ended.message["summary"]
    assert "orchestrator_checkpoints" in ended.message["remedy"]
    assert fake.count(path="/api/chat") == 1
