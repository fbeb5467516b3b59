"""What the operator reads when something is wrong, and that nothing is lost when it was only away."""

from __future__ import annotations

import pytest

from orchestrator_job import errors, graph
from tests import waiting
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire
from tests.orchestrator_job.test_standing import rule

pytestmark = pytest.mark.services

_NOBODY = "http://127.0.0.1:9"


async def test_a_wrong_model_name(task: job.Job, fake: process.Fake) -> None:
    ended = await task.run(JERVIS_MODEL="no-such-model:1b")
    assert (ended.status, ended.message["exitReason"], ended.message["field"]) == (1, "WrongModel", "model")
    assert "no-such-model:1b" in ended.message["summary"]
    assert "GpuBackend" in ended.message["remedy"]
    assert "ref" not in ended.message
    assert fake.count(path="/api/chat") == 1


async def test_a_router_that_is_away(task: job.Job, fake: process.Fake, known: knowledge.Knowledge) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    ended = await task.run(JERVIS_ROUTER_URL=_NOBODY, JERVIS_UNAVAILABLE_SECONDS=job.FEW_SECONDS)
    assert (ended.status, ended.message["exitReason"]) == (1, "Unavailable")
    assert ended.message["unavailable"] == "router"
    assert "waiting" in ended.events()
    ended = await task.run(attempt=2)
    assert ended.message["exitReason"] == "Answered"
    assert len(known.asked) == 1


async def test_busy_services_are_outwaited(task: job.Job, fake: process.Fake, known: knowledge.Knowledge) -> None:
    known.refusals = [(503, {"code": "busy", "message": "models busy"}), (429, {"code": "busy", "message": "slow"})]
    fake.set_script({job.TAG: [job.reply()]})
    fake.set_faults([{"match": {"path": "/api/chat"}, "times": 2, "status": {"code": 503, "retryAfter": 0}}])
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    assert ended.events().count("waiting") == 4
    assert fake.count(path="/api/chat") == 3
    assert len(known.asked) == 1


async def test_a_knowledge_base_that_is_away_or_refuses(task: job.Job, known: knowledge.Knowledge) -> None:
    ended = await task.run(JERVIS_KB_URL=_NOBODY, JERVIS_UNAVAILABLE_SECONDS=job.FEW_SECONDS)
    assert (ended.message["exitReason"], ended.message["unavailable"]) == ("Unavailable", "kb")
    known.refusals = [
        (422, {"code": "invalid", "message": "no such client", "field": "scope.clientId", "remedy": "Name one."})
    ]
    ended = await task.run(attempt=2)
    assert (ended.status, ended.message["exitReason"]) == (1, "InvalidInput")
    assert (ended.message["field"], ended.message["remedy"]) == ("scope.clientId", "Name one.")


async def test_mongodb_away_from_the_start(task: job.Job) -> None:
    ended = await task.run(JERVIS_MONGODB_URI="mongodb://127.0.0.1:9", JERVIS_UNAVAILABLE_SECONDS="1")
    assert (ended.status, ended.message["exitReason"]) == (1, "Unavailable")
    assert ended.message["unavailable"] == "mongodb"


async def test_mongodb_that_loses_answers(
    task: job.Job, store: job.Store, mongodb_uri: str, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    """Every collection's first and every fifth change happens, and the Job is not told."""
    fake.set_script({job.TAG: [job.reply()]})
    lost: list[tuple[str, int]] = []

    def lose(collection: str, number: int) -> bool:
        if number % 5 == 1:
            lost.append((collection, number))
        return number % 5 == 1

    async with mongowire.proxying(mongodb_uri) as proxy:
        proxy.after = lose
        ended = await task.run(JERVIS_MONGODB_URI=proxy.url)
    assert ended.message["exitReason"] == "Answered"
    # On a busy machine a call may wait for another reason.
    waited = [line["reason"] for line in ended.lines if line.get("event") == "waiting"]
    assert sum("connection closed" in reason for reason in waited) == len(lost) >= 8, waited
    assert len(store.all("task_results")) == len(store.all("session_memory")) == 1
    assert [entry["state"] for entry in store.all("orchestrator_ledger")] == ["done"] * 3
    assert fake.count(path="/api/chat") == len(known.asked) == 1


async def test_a_later_attempt_takes_over(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_faults([{"match": {"tag": job.TAG}, "nth": 1, "stall": {"afterBytes": 0, "gate": "older"}}])
    fake.set_script({job.TAG: [job.reply(answer="Old [1]."), job.reply(answer="New [1].")]})
    older = task.start(attempt=1)
    await waiting.eventually(lambda: fake.count(path="/api/chat") == 1)
    newer = await task.run(attempt=2)
    assert newer.message["exitReason"] == "Answered"
    fake.open_gate("older")
    fenced = await task.end(older, attempt=1)
    assert (fenced.status, fenced.message["exitReason"]) == (1, "Fenced")
    [result] = store.all("task_results")
    assert (result["attempt"], result["epoch"]) == (2, 2)
    assert {entry["attempt"] for entry in store.all("orchestrator_ledger")} == {2}
    assert {checkpoint["attempt"] for checkpoint in store.all("orchestrator_checkpoints")} == {2}
    late = await task.run(attempt=1)
    assert late.message["exitReason"] == "Fenced"
    assert len(store.all("session_memory")) == 1


async def test_settings_that_cannot_be_used(task: job.Job) -> None:
    ended = await task.run(JERVIS_KB_URL="kb", JERVIS_MAX_STEPS="0", JERVIS_MONGODB_URI="")
    assert (ended.status, ended.message["exitReason"]) == (1, "InvalidInput")
    for name in ("JERVIS_KB_URL", "JERVIS_MAX_STEPS", "JERVIS_MONGODB_URI"):
        assert name in ended.message["summary"]
    ended = await task.run(JERVIS_MONGODB_URI="mongodb://")
    assert (ended.status, ended.message["field"]) == (1, "JERVIS_MONGODB_URI")


async def test_task_memory_that_is_missing_or_wrong(task: job.Job, store: job.Store) -> None:
    store.remember(task.memory(content="x" * 10, scope={"projectId": "p"}))
    ended = await task.run()
    assert (ended.message["exitReason"], ended.message["field"]) == ("InvalidInput", "task_memory.scope.clientId")
    store.remember(task.memory(content="  \n"))
    assert (await task.run()).message["field"] == "spec.content"
    store.database["task_memory"].delete_one({"_id": task.uid})
    ended = await task.run()
    assert (ended.status, ended.message["exitReason"], ended.message["field"]) == (1, "InvalidInput", "JERVIS_TASK_UID")


async def test_the_wall_clock(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    ended = await task.run(JERVIS_WALL_CLOCK_SECONDS="0.01")
    assert (ended.status, ended.message["exitReason"]) == (1, "DeadlineExceeded")
    assert ended.message["field"] == "spec.activeDeadlineSeconds"
    assert "spec.activeDeadlineSeconds" in ended.message["remedy"]
    assert "JERVIS_" not in ended.message["summary"]
    assert store.all("task_results") == []


def _handed_back(store: job.Store, ended: job.Ended, reason: str, limit: str) -> None:
    """The evidence, and which limit ended the run."""
    assert (ended.status, ended.message["exitReason"]) == (1, reason), ended
    assert "ref" in ended.message
    [result] = store.all("task_results")
    assert (result["exitReason"], result["round"], result["citations"]) == (reason, 1, [])
    assert "The release of the router is on Friday." in [one["content"] for one in result["evidence"]]
    assert result["answer"].startswith("No answer was written. Found:\n- ")
    assert limit in result["answer"]
    assert result["summary"] == ended.message["summary"]


async def test_the_step_budget(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    store.remember(task.memory(budget={"maxSteps": 2}))
    ended = await task.run()
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted")
    assert ended.message["field"] == "spec.budget.maxSteps"
    assert fake.count(path="/api/chat") == 0
    _handed_back(store, ended, "BudgetExhausted", "all of its 2 steps")


async def test_no_model_call_is_left(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    """What was found is handed back, and with a raised budget the run goes on from there."""
    store.remember(task.memory(budget={"maxLlmCalls": 1}))
    fake.set_script({job.TAG: ["no json"]})
    _handed_back(store, await task.run(), "BudgetExhausted", "all of its 1 model calls")
    store.remember(task.memory(budget={"maxLlmCalls": 2}))
    fake.set_script({job.TAG: [job.reply()]})
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    [result] = store.all("task_results")
    assert (result["exitReason"], result["answer"]) == ("Answered", "On Friday [1].")


async def test_no_token_is_left(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    store.remember(task.memory(budget={"maxTokens": 1}))
    _handed_back(store, await task.run(), "BudgetExhausted", "of its 1 tokens")


async def test_the_time_ends_in_a_model_call(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    fake.set_script({job.TAG: [{"fault": {"stall": {"afterBytes": 0}}}]})
    ended = await task.run_out_of_time(20, lambda: fake.count(tag=job.TAG) > 0)
    _handed_back(store, ended, "DeadlineExceeded", "the 20 seconds that it may take")


async def test_nothing_of_an_earlier_round_is_handed_back(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    """The evidence of round 1 is not what round 2 has found."""
    fake.set_script({job.TAG: [job.reply()]})
    await task.run()
    store.remember(task.memory(messages=[{"id": "m1", "text": "And then?"}], budget={"maxSteps": 6}))
    ended = await task.run(attempt=2)
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted")
    [result] = store.all("task_results")
    assert (result["round"], result["evidence"]) == (2, [])
    assert result["answer"].startswith("No answer was written, and nothing was found yet.")


async def test_a_rule_of_approval_holds_for_what_is_handed_back(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    known.rules = [rule("Jana reads what leaves the house.\nenforce: needs-approval")]
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(task.memory(budget={"maxSteps": 3}))
    ended = await task.run()
    assert ended.message["exitReason"] == "BudgetExhausted"
    [result] = store.all("task_results")
    assert result["answer"] == "This task has used all of its 3 steps."


async def test_steps_count_over_all_runs_of_a_task(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    """A run that was ended by them gets no more of them by being run again, nor by a message."""
    fake.set_script({job.TAG: [job.reply()] * 2})
    store.remember(task.memory(budget={"maxSteps": 3}))
    for attempt in (1, 2):
        ended = await task.run(attempt=attempt)
        assert (ended.message["exitReason"], ended.message["field"]) == ("BudgetExhausted", "spec.budget.maxSteps")
    assert fake.count(path="/api/chat") == 1
    store.remember(task.memory(budget={"maxSteps": 5}))
    assert (await task.run(attempt=3)).message["exitReason"] == "Answered"
    store.remember(task.memory(messages=[{"id": "m1", "text": "And then?"}], budget={"maxSteps": 5}))
    assert (await task.run(attempt=4)).message["exitReason"] == "BudgetExhausted"
    store.remember(task.memory(messages=[{"id": "m1", "text": "And then?"}], budget={"maxSteps": 10}))
    assert (await task.run(attempt=5)).message["exitReason"] == "Answered"
    more = [{"id": "m1", "text": "And then?"}, {"id": "m2", "text": "And after that?"}]
    store.remember(task.memory(messages=more, budget={"maxSteps": 10}))
    assert (await task.run(attempt=6)).message["exitReason"] == "BudgetExhausted"


async def test_steps_that_an_older_program_has_counted_count_on(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    """It kept them on the task's fence, and its threads have no count."""
    fence = {"_id": task.uid, "attempt": 1, "epoch": 1, "spent": {"steps": {"count": 4, "last": 4}}}
    store.database["orchestrator_fences"].insert_one(fence)
    fake.set_script({job.TAG: [job.reply()]})
    store.remember(task.memory(budget={"maxSteps": 6}))
    ended = await task.run()
    assert (ended.message["exitReason"], ended.message["field"]) == ("BudgetExhausted", "spec.budget.maxSteps")
    assert fake.count(path="/api/chat") == 0
    store.remember(task.memory(budget={"maxSteps": 9}))
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"


async def test_the_steps_of_a_task_are_bounded_without_a_budget_of_its_own(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    """By the setting of runs, which counts over all rounds and runs as well."""
    fake.set_script({job.TAG: [job.reply()] * 2})
    assert (await task.run(JERVIS_MAX_STEPS="6")).message["exitReason"] == "Answered"
    store.remember(task.memory(messages=[{"id": "m1", "text": "And then?"}]))
    for attempt in (2, 3):
        ended = await task.run(attempt=attempt, JERVIS_MAX_STEPS="6")
        assert (ended.message["exitReason"], ended.message["field"]) == ("BudgetExhausted", "JERVIS_MAX_STEPS"), ended
        assert "all of its 6 steps" in ended.message["summary"]
        assert "job.environment" in ended.message["remedy"]
    assert (await task.run(attempt=4, JERVIS_MAX_STEPS="10")).message["exitReason"] == "Answered"


@pytest.mark.parametrize(
    ("own", "setting", "field", "remedy"),
    [
        (2, "3", "spec.budget.maxSteps", "Raise spec.budget.maxSteps and"),
        (2, "2", "spec.budget.maxSteps", "Raise spec.budget.maxSteps and JERVIS_MAX_STEPS "),
        (3, "2", "JERVIS_MAX_STEPS", "Raise JERVIS_MAX_STEPS "),
    ],
)
async def test_the_smaller_bound_of_steps_holds(
    task: job.Job, store: job.Store, own: int, setting: str, field: str, remedy: str
) -> None:
    store.remember(task.memory(budget={"maxSteps": own}))
    ended = await task.run(JERVIS_MAX_STEPS=setting)
    assert (ended.message["exitReason"], ended.message["field"]) == ("BudgetExhausted", field), ended
    assert "all of its 2 steps" in ended.message["summary"]
    assert ended.message["remedy"].startswith(remedy)


@pytest.mark.parametrize("own", [None, 500])
def test_beyond_the_most_steps_of_a_task_there_is_only_a_new_one(own: int | None) -> None:
    bound = graph.Bound.of(500, own)
    with pytest.raises(errors.BudgetExhausted) as raised:
        bound.check(500)
    assert raised.value.remedy == "Create a new task for what is left: no task may take more than 500 steps."
    bound.check(499)


async def test_a_step_that_is_repeated_counts_once(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    store.remember(task.memory(budget={"maxSteps": 5}))
    fake.set_script({job.TAG: [{"fault": {"stall": {"afterBytes": 0}}}, job.reply()]})
    running = task.start()
    await job.reached(fake)
    running.process.kill()
    await task.end(running)
    # Five steps make an answer: one counted twice would be the sixth.
    assert (await task.run(attempt=2)).message["exitReason"] == "Answered"
    store.remember(task.memory(messages=[{"id": "m1", "text": "And then?"}], budget={"maxSteps": 5}))
    assert (await task.run(attempt=3)).message["exitReason"] == "BudgetExhausted"


@pytest.mark.parametrize("name", ["maxSteps", "maxLlmCalls", "maxTokens"])
async def test_a_budget_of_nothing(task: job.Job, store: job.Store, fake: process.Fake, name: str) -> None:
    store.remember(task.memory(budget={name: 0}))
    ended = await task.run()
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted"), ended
    assert ended.message["field"] == f"spec.budget.{name}"
    assert fake.count(path="/api/chat") == 0


async def test_a_message_that_cannot_be_written_does_not_change_the_outcome(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    running = task.start(JERVIS_TERMINATION_LOG="/proc/nowhere/termination-log")
    await running.logged("termination message not written")
    await waiting.eventually(lambda: running.process.poll() is not None)
    assert running.process.returncode == 0
    assert len(store.all("task_results")) == 1


_BREAKS = {"fault": {"reset": {"afterBytes": 40}}}


async def test_a_call_that_breaks_in_the_middle_counts(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    """Each try that may have reached a model is a call of its own, with the tokens of its prompt."""
    store.remember(task.memory(budget={"maxLlmCalls": 3}))
    fake.set_script({job.TAG: [_BREAKS, _BREAKS, job.reply()]})
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    assert fake.count(path="/api/chat") == 3
    [fence] = store.all("orchestrator_fences")
    spent = fence["spent"]["r1"]
    assert spent["llmCalls"] == 3
    [asked] = {len(one["body"]["messages"][1]["content"]) for one in fake.requests(path="/api/chat")}
    assert spent["tokens"] > 3 * asked / 8


async def test_a_budget_bounds_the_calls_that_break(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    store.remember(task.memory(budget={"maxLlmCalls": 2}))
    fake.set_script({job.TAG: [_BREAKS, _BREAKS, job.reply()]})
    ended = await task.run()
    assert (ended.status, ended.message["exitReason"]) == (1, "BudgetExhausted")
    assert ended.message["field"] == "spec.budget.maxLlmCalls"
    assert fake.count(path="/api/chat") == 2


async def test_a_call_that_is_refused_is_the_same_when_it_is_made_again(
    task: job.Job, store: job.Store, fake: process.Fake
) -> None:
    store.remember(task.memory(budget={"maxLlmCalls": 1}))
    fake.set_script({job.TAG: [job.reply()]})
    fake.set_faults([{"match": {"path": "/api/chat"}, "times": 2, "status": {"code": 503, "retryAfter": 0}}])
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    [fence] = store.all("orchestrator_fences")
    assert fence["spent"]["r1"]["llmCalls"] == 1
