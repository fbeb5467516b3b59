"""An epic that is killed at each of its writes, and resumed: everything once, and the answer the same."""

from __future__ import annotations

from typing import Any

import pytest

from contracts import mongo_collections
from tests import thorough
from tests.orchestrator_job import job, mongowire
from tests.orchestrator_job.desk import Desk, side_by_side
from tests.orchestrator_job.run import test_forgotten
from tests.orchestrator_job.run.test_delegation_runs import MAIL, SYNTHESIS
from tests.orchestrator_job.run.test_goal_runs import ANSWER, EPIC, GOALS, LEGACY, STEPS, goal, steps
from tests.orchestrator_job.workbench import calls, report

pytestmark = pytest.mark.services

_BOUNDARIES = (
    "orchestrator_checkpoints",
    "orchestrator_checkpoint_writes",
    "orchestrator_context",
    "orchestrator_journal",
    "orchestrator_ledger",
    "orchestrator_prepared",
    "task_results",
)
_CALLS = 8
_STANDING: dict[str, list[Any]] = {
    job.TAG: [{"when": "<question>", "answer": job.order("epic", EPIC, "sendMail")}],
    GOALS: [{"when": "<question>", "answer": {"goals": [goal("Date"), goal("Mail", 1)]}}],
    STEPS: [
        {"when": '<document source="goal">\nDate:', "answer": steps("Find the date.")},
        {"when": '<document source="goal">\nMail:', "answer": steps("Send the date.")},
    ],
    LEGACY: [
        {"when": "<question>Find the date.", "answer": report("It is on Friday.")},
        {"when": '<document source="send_mail"', "answer": report("The mail was sent.")},
        {"when": "<question>Send the date.", "answer": calls(("send_mail", MAIL))},
    ],
    SYNTHESIS: [{"when": "<question>", "answer": job.reply(answer=ANSWER)}],
}


def _whole(desk: Desk) -> int:
    """The task has ended with everything once; returns the model calls that were booked."""
    uid, result, spent = desk.task.uid, desk.result(), desk.spent()
    assert (result["answer"], result["taskCategory"], len(result["delegations"])) == (ANSWER, "epic", 2)
    assert [one["action"] for one in result["stepResults"]][:2] == ["Date", "Mail"]
    assert [count for key, count in desk.outside.effects.items() if uid in key] == [1]
    assert {entry["state"] for entry in desk.store.all("orchestrator_ledger", taskUid=uid)} == {"done"}
    found = desk.store.all("orchestrator_context", taskUid=uid)
    assert sorted(each["path"] for each in found) == ["r1.d1", "r1.d2", "r1.epic", "r1.g1", "r1.g2"]
    assert {each["done"] for each in found} == {True}
    assert sorted(spent["delegations"]) == ["r1.d1", "r1.d2"]
    return int(spent["llmCalls"])


@pytest.mark.parametrize("number", [1, 3])
async def test_a_context_is_not_written_to_a_task_that_was_removed(desk: Desk, mongodb_uri: str, number: int) -> None:
    """The scope is erased between the run's look at its fence and the write, which is on its way already."""
    async with mongowire.proxying(mongodb_uri) as proxy:

        def before(written: str, count: int) -> bool:
            if (written, count) == ("orchestrator_context", number):
                test_forgotten.remove(desk.store, desk.task.uid)
                desk.store.database[mongo_collections.CONTEXT].delete_many({"clientId": "acme"})
            return False

        proxy.before = before
        await desk.reaches_outside().ends("Fenced", _STANDING, content=EPIC, JERVIS_MONGODB_URI=proxy.url)
        assert proxy.writes["orchestrator_context"] == number
    assert desk.store.all("orchestrator_context") == []
    assert test_forgotten.left(desk.store, desk.task.uid) == {}


async def test_an_epic_that_is_killed_goes_on_where_it_was(desk: Desk) -> None:
    writes = await desk.reaches_outside().writes("Answered", _STANDING, content=EPIC)
    assert _whole(desk) == _CALLS
    # The epic, two steps and two goals, once each.
    assert writes["orchestrator_context"] == 5
    cases = [(name, number) for name in _BOUNDARIES for number in range(1, writes[name] + 1)]
    assert len(cases) > 60

    async def killed(where: tuple[str, int]) -> None:
        one = desk.another().reaches_outside()
        one.remember(content=EPIC)
        await one.task.killed(where)
        await one.ends("Answered", attempt=2)
        # A call whose reply was not durable yet is made again.
        assert _CALLS <= _whole(one) <= _CALLS + 1

    await side_by_side(thorough.part(cases, thorough.KILLS), killed)
