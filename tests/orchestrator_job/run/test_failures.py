"""What the operator reads when something is wrong, and that nothing is lost when it was only away."""

from __future__ import annotations

import pytest

from orchestrator_job import errors
from orchestrator_job.run import graph
from tests import waiting
from tests.orchestrator_job import job, mongowire
from tests.orchestrator_job.context.test_rules_context import rule
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services

_NOBODY = "http://127.0.0.1:9"
_BUSY = {"match": {"path": "/api/chat"}, "times": 2, "status": {"code": 503, "retryAfter": 0}}
_THEN = {"id": "m1", "text": "And then?"}


async def test_a_wrong_model_name(desk: Desk) -> None:
    ended = await desk.ends("WrongModel", JERVIS_MODEL="no-such-model:1b")
    assert ended.message["field"] == "model"
    assert "no-such-model:1b" in ended.message["summary"]
    assert "GpuBackend" in ended.message["remedy"]
    assert "ref" not in ended.message
    assert desk.calls() == 1


async def test_a_router_that_is_away(desk: Desk) -> None:
    away = {"JERVIS_ROUTER_URL": _NOBODY, "JERVIS_UNAVAILABLE_SECONDS": job.FEW_SECONDS}
    ended = await desk.ends("Unavailable", [job.reply()], **away)
    assert ended.message["unavailable"] == "router"
    assert "waiting" in ended.events()
    await desk.ends("Answered")
    assert len(desk.known.asked) == 1


async def test_busy_services_are_outwaited(desk: Desk) -> None:
    desk.known.refusals = [(status, {"code": "busy", "message": "models busy"}) for status in (503, 429)]
    desk.fake.set_faults([_BUSY])
    ended = await desk.ends("Answered", [job.reply()])
    assert (ended.events().count("waiting"), desk.calls(), len(desk.known.asked)) == (4, 3, 1)


async def test_a_knowledge_base_that_is_away_or_refuses(desk: Desk) -> None:
    ended = await desk.ends("Unavailable", JERVIS_KB_URL=_NOBODY, JERVIS_UNAVAILABLE_SECONDS=job.FEW_SECONDS)
    assert ended.message["unavailable"] == "kb"
    desk.known.refusals = [
        (422, {"code": "invalid", "message": "no such client", "field": "scope.clientId", "remedy": "Name one."})
    ]
    ended = await desk.ends("InvalidInput")
    assert (ended.message["field"], ended.message["remedy"]) == ("scope.clientId", "Name one.")


async def test_mongodb_away_from_the_start(desk: Desk) -> None:
    ended = await desk.ends("Unavailable", JERVIS_MONGODB_URI="mongodb://127.0.0.1:9", JERVIS_UNAVAILABLE_SECONDS="1")
    assert ended.message["unavailable"] == "mongodb"


async def test_mongodb_that_loses_answers(desk: Desk, mongodb_uri: str) -> None:
    """Every collection's first and every fifth change happens, and the Job is not told."""
    lost: list[tuple[str, int]] = []

    def lose(collection: str, number: int) -> bool:
        if number % 5 == 1:
            lost.append((collection, number))
        return number % 5 == 1

    async with mongowire.proxying(mongodb_uri) as proxy:
        proxy.after = lose
        ended = await desk.ends("Answered", [job.reply()], JERVIS_MONGODB_URI=proxy.url)
    # On a busy machine a call may wait for another reason.
    waited = [line["reason"] for line in ended.lines if line.get("event") == "waiting"]
    assert sum("connection closed" in reason for reason in waited) == len(lost) >= 8, waited
    assert len(desk.store.all("task_results")) == len(desk.store.all("session_memory")) == 1
    assert [entry["state"] for entry in desk.store.all("orchestrator_ledger")] == ["done"] * 3
    assert desk.calls() == len(desk.known.asked) == 1


async def test_a_later_attempt_takes_over(desk: Desk) -> None:
    desk.fake.set_faults([{"match": {"tag": job.TAG}, "nth": 1, "stall": {"afterBytes": 0, "gate": "older"}}])
    desk.fake.set_script({job.TAG: [job.reply(answer="Old [1]."), job.reply(answer="New [1].")]})
    older = desk.task.start(attempt=1)
    await waiting.eventually(lambda: desk.calls() == 1)
    await desk.ends("Answered", attempt=2)
    desk.fake.open_gate("older")
    fenced = await desk.task.end(older, attempt=1)
    assert (fenced.status, fenced.message["exitReason"]) == (1, "Fenced")
    result = desk.result()
    assert (result["attempt"], result["epoch"]) == (2, 2)
    assert {entry["attempt"] for entry in desk.store.all("orchestrator_ledger")} == {2}
    assert {checkpoint["attempt"] for checkpoint in desk.store.all("orchestrator_checkpoints")} == {2}
    await desk.ends("Fenced", attempt=1)
    assert len(desk.store.all("session_memory")) == 1


async def test_settings_that_cannot_be_used(desk: Desk) -> None:
    ended = await desk.ends("InvalidInput", JERVIS_KB_URL="kb", JERVIS_MAX_STEPS="0", JERVIS_MONGODB_URI="")
    for name in ("JERVIS_KB_URL", "JERVIS_MAX_STEPS", "JERVIS_MONGODB_URI"):
        assert name in ended.message["summary"]
    ended = await desk.run(attempt=1, JERVIS_MONGODB_URI="mongodb://")
    assert (ended.status, ended.message["field"]) == (1, "JERVIS_MONGODB_URI")


async def test_task_memory_that_is_missing_or_wrong(desk: Desk) -> None:
    ended = await desk.ends("InvalidInput", content="x" * 10, scope={"projectId": "p"})
    assert ended.message["field"] == "task_memory.scope.clientId"
    desk.store.remember(desk.task.memory(content="  \n"))
    assert (await desk.run(attempt=1)).message["field"] == "spec.content"
    desk.store.database["task_memory"].delete_one({"_id": desk.task.uid})
    ended = await desk.ends("InvalidInput", attempt=1)
    assert ended.message["field"] == "JERVIS_TASK_UID"


async def test_the_wall_clock(desk: Desk) -> None:
    ended = await desk.ends("DeadlineExceeded", JERVIS_WALL_CLOCK_SECONDS="0.01")
    assert ended.message["field"] == "spec.activeDeadlineSeconds"
    assert "spec.activeDeadlineSeconds" in ended.message["remedy"]
    assert "JERVIS_" not in ended.message["summary"]
    assert desk.store.all("task_results") == []


def _handed_back(desk: Desk, ended: job.Ended, reason: str, limit: str) -> None:
    """The evidence, and which limit ended the run."""
    assert (ended.status, ended.message["exitReason"]) == (1, reason), ended
    assert "ref" in ended.message
    result = desk.result()
    assert (result["exitReason"], result["round"], result["citations"]) == (reason, 1, [])
    assert "The release of the router is on Friday." in [one["content"] for one in result["evidence"]]
    assert result["answer"].startswith("No answer was written. Found:\n- ")
    assert limit in result["answer"]
    assert result["summary"] == ended.message["summary"]


async def test_the_step_budget(desk: Desk) -> None:
    ended = await desk.ends("BudgetExhausted", budget={"maxSteps": 2})
    assert ended.message["field"] == "spec.budget.maxSteps"
    assert desk.calls() == 0
    _handed_back(desk, ended, "BudgetExhausted", "all of its 2 steps")


async def test_no_model_call_is_left(desk: Desk) -> None:
    """What was found is handed back, and with a raised budget the run goes on from there."""
    ended = await desk.run(["no json"], budget={"maxLlmCalls": 1})
    _handed_back(desk, ended, "BudgetExhausted", "all of its 1 model calls")
    await desk.ends("Answered", [job.reply()], budget={"maxLlmCalls": 2})
    result = desk.result()
    assert (result["exitReason"], result["answer"]) == ("Answered", "On Friday [1].")


async def test_no_token_is_left(desk: Desk) -> None:
    _handed_back(desk, await desk.run(budget={"maxTokens": 1}), "BudgetExhausted", "of its 1 tokens")


async def test_the_time_ends_in_a_model_call(desk: Desk) -> None:
    desk.fake.set_script({job.TAG: [job.STALL]})
    ended = await desk.task.run_out_of_time(20, lambda: desk.fake.count(tag=job.TAG) > 0)
    _handed_back(desk, ended, "DeadlineExceeded", "the 20 seconds that it may take")


async def test_nothing_of_an_earlier_round_is_handed_back(desk: Desk) -> None:
    """The evidence of round 1 is not what round 2 has found."""
    await desk.run([job.reply()])
    await desk.ends("BudgetExhausted", messages=[_THEN], budget={"maxSteps": 6})
    result = desk.result()
    assert (result["round"], result["evidence"]) == (2, [])
    assert result["answer"].startswith("No answer was written, and nothing was found yet.")


async def test_a_rule_of_approval_holds_for_what_is_handed_back(desk: Desk) -> None:
    desk.known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    await desk.ends("BudgetExhausted", [job.reply()], budget={"maxSteps": 3})
    assert desk.result()["answer"] == "This task has used all of its 3 steps."


async def test_steps_count_over_all_runs_of_a_task(desk: Desk) -> None:
    """A run that was ended by them gets no more of them by being run again, nor by a message."""
    desk.fake.set_script({job.TAG: [job.reply()] * 2})
    for _ in range(2):
        ended = await desk.ends("BudgetExhausted", budget={"maxSteps": 3})
        assert ended.message["field"] == "spec.budget.maxSteps"
    assert desk.calls() == 1
    await desk.ends("Answered", budget={"maxSteps": 5})
    await desk.ends("BudgetExhausted", messages=[_THEN])
    await desk.ends("Answered", budget={"maxSteps": 10})
    await desk.ends("BudgetExhausted", messages=[_THEN, {"id": "m2", "text": "And after that?"}])


async def test_the_steps_of_a_task_are_bounded_without_a_budget_of_its_own(desk: Desk) -> None:
    """By the setting of runs, which counts over all rounds and runs as well."""
    await desk.ends("Answered", [job.reply()] * 2, JERVIS_MAX_STEPS="6")
    for _ in range(2):
        ended = await desk.ends("BudgetExhausted", messages=[_THEN], JERVIS_MAX_STEPS="6")
        assert ended.message["field"] == "JERVIS_MAX_STEPS"
        assert "all of its 6 steps" in ended.message["summary"]
        assert "job.environment" in ended.message["remedy"]
    await desk.ends("Answered", JERVIS_MAX_STEPS="10")


@pytest.mark.parametrize(
    ("own", "setting", "field", "remedy"),
    [
        (2, "3", "spec.budget.maxSteps", "Raise spec.budget.maxSteps and"),
        (2, "2", "spec.budget.maxSteps", "Raise spec.budget.maxSteps and JERVIS_MAX_STEPS "),
        (3, "2", "JERVIS_MAX_STEPS", "Raise JERVIS_MAX_STEPS "),
    ],
)
async def test_the_smaller_bound_of_steps_holds(desk: Desk, own: int, setting: str, field: str, remedy: str) -> None:
    ended = await desk.ends("BudgetExhausted", budget={"maxSteps": own}, JERVIS_MAX_STEPS=setting)
    assert ended.message["field"] == field
    assert "all of its 2 steps" in ended.message["summary"]
    assert ended.message["remedy"].startswith(remedy)


@pytest.mark.parametrize("own", [None, 500])
def test_beyond_the_most_steps_of_a_task_there_is_only_a_new_one(own: int | None) -> None:
    bound = graph.Bound.of(500, own)
    with pytest.raises(errors.BudgetExhausted) as raised:
        bound.check(500)
    assert raised.value.remedy == "Create a new task for what is left: no task may take more than 500 steps."
    bound.check(499)


async def test_a_step_that_is_repeated_counts_once(desk: Desk) -> None:
    await desk.dies([job.STALL, job.reply()], budget={"maxSteps": 5})
    # Five steps make an answer: one counted twice would be the sixth.
    await desk.ends("Answered", attempt=2)
    await desk.ends("BudgetExhausted", messages=[_THEN])


@pytest.mark.parametrize("name", ["maxSteps", "maxLlmCalls", "maxTokens"])
async def test_a_budget_of_nothing(desk: Desk, name: str) -> None:
    ended = await desk.ends("BudgetExhausted", budget={name: 0})
    assert ended.message["field"] == f"spec.budget.{name}"
    assert desk.calls() == 0


async def test_a_message_that_cannot_be_written_does_not_change_the_outcome(desk: Desk) -> None:
    desk.fake.set_script({job.TAG: [job.reply()]})
    running = desk.task.start(JERVIS_TERMINATION_LOG="/proc/nowhere/termination-log")
    await running.logged("termination message not written")
    await waiting.eventually(lambda: running.process.poll() is not None)
    assert running.process.returncode == 0
    assert len(desk.store.all("task_results")) == 1


_BREAKS = {"fault": {"reset": {"afterBytes": 40}}}


async def test_a_call_that_breaks_in_the_middle_counts(desk: Desk) -> None:
    """Each try that may have reached a model is a call of its own, with the tokens of its prompt."""
    await desk.ends("Answered", [_BREAKS, _BREAKS, job.reply()], budget={"maxLlmCalls": 3})
    assert desk.calls() == 3
    spent = desk.spent()
    assert spent["llmCalls"] == 3
    [asked] = {len(one["body"]["messages"][1]["content"]) for one in desk.fake.requests(path="/api/chat")}
    assert spent["tokens"] > 3 * asked / 8


async def test_a_budget_bounds_the_calls_that_break(desk: Desk) -> None:
    ended = await desk.ends("BudgetExhausted", [_BREAKS, _BREAKS, job.reply()], budget={"maxLlmCalls": 2})
    assert ended.message["field"] == "spec.budget.maxLlmCalls"
    assert desk.calls() == 2


async def test_a_call_that_is_refused_is_the_same_when_it_is_made_again(desk: Desk) -> None:
    desk.fake.set_faults([_BUSY])
    await desk.ends("Answered", [job.reply()], budget={"maxLlmCalls": 1})
    assert desk.spent()["llmCalls"] == 1
