"""An epic that is killed at each of its writes, and resumed: everything once, and the answer the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from crds import leftovers
from tests import thorough
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire, test_forgotten
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import MAIL, SYNTHESIS
from tests.orchestrator_job.delegation.workbench import calls, report
from tests.orchestrator_job.legacy.test_runs import ANSWER, EPIC, GOALS, LEGACY, STEPS, goal, steps

pytestmark = pytest.mark.services

_AT_ONCE = 3
_BOUNDARIES = (
    "orchestrator_checkpoints",
    "orchestrator_checkpoint_writes",
    "orchestrator_context",
    "orchestrator_journal",
    "orchestrator_ledger",
    "orchestrator_prepared",
    "task_results",
)
_CALLS = 7
_STANDING: dict[str, list[Any]] = {
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


def _working(one: job.Job, outside: sources.Sources) -> job.Job:
    token = one.folder / f"token-{one.uid}"
    token.write_text(one.uid)
    one.environment.update(
        JERVIS_SOURCES_URL=outside.url, JERVIS_MAIL_CONNECTION="office", JERVIS_RUN_TOKEN_FILE=str(token)
    )
    return one


def _whole(one: job.Job, store: job.Store, ended: job.Ended, outside: sources.Sources) -> int:
    """The task has ended with everything once; returns the model calls that were booked."""
    assert (ended.status, ended.message.get("exitReason")) == (0, "Answered"), ended
    [result] = store.all("task_results", _id=one.uid)
    assert (result["answer"], result["taskCategory"], len(result["delegations"])) == (ANSWER, "epic", 2)
    assert [one["action"] for one in result["stepResults"]][:2] == ["Date", "Mail"]
    assert [count for key, count in outside.effects.items() if one.uid in key] == [1]
    assert {entry["state"] for entry in store.all("orchestrator_ledger", taskUid=one.uid)} == {"done"}
    found = store.all("orchestrator_context", taskUid=one.uid)
    assert sorted(each["path"] for each in found) == ["r1.d1", "r1.d2", "r1.epic", "r1.g1", "r1.g2"]
    assert {each["done"] for each in found} == {True}
    [fence] = store.all("orchestrator_fences", _id=one.uid)
    assert sorted(fence["spent"]["r1"]["delegations"]) == ["r1.d1", "r1.d2"]
    return int(fence["spent"]["r1"]["llmCalls"])


@pytest.mark.parametrize("number", [1, 3])
async def test_a_context_is_not_written_to_a_task_that_was_removed(
    task: job.Job, store: job.Store, mongodb_uri: str, fake: process.Fake, number: int
) -> None:
    """The scope is erased between the run's look at its fence and the write, which is on its way already."""
    fake.set_script(_STANDING)
    async with sources.serving() as outside, mongowire.proxying(mongodb_uri) as proxy:
        store.remember(task.memory(content=EPIC))

        def before(written: str, count: int) -> bool:
            if (written, count) == ("orchestrator_context", number):
                test_forgotten.remove(store, task.uid)
                store.database[leftovers.CONTEXT].delete_many({"clientId": "acme"})
            return False

        proxy.before = before
        ended = await _working(task, outside).run(JERVIS_MONGODB_URI=proxy.url)
        assert proxy.writes["orchestrator_context"] == number
    assert (ended.status, ended.message["exitReason"]) == (1, "Fenced"), ended
    assert store.all("orchestrator_context") == []
    assert test_forgotten.left(store, task.uid) == {}


async def test_an_epic_that_is_killed_goes_on_where_it_was(
    tmp_path: Path, task: job.Job, store: job.Store, mongodb_uri: str, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_script(_STANDING)
    async with sources.serving() as outside:
        store.remember(task.memory(content=EPIC))
        async with mongowire.proxying(mongodb_uri) as proxy:
            ended = await _working(task, outside).run(JERVIS_MONGODB_URI=proxy.url)
        writes: Counter[str] = proxy.writes
        assert _whole(task, store, ended, outside) == _CALLS
        # The epic, two steps and two goals, once each.
        assert writes["orchestrator_context"] == 5
        cases = [(name, number) for name in _BOUNDARIES for number in range(1, writes[name] + 1)]
        assert len(cases) > 60
        slots = asyncio.Semaphore(_AT_ONCE)

        async def case(where: tuple[str, int]) -> None:
            async with slots:
                one = _working(job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url), outside)
                store.remember(one.memory(content=EPIC))
                try:
                    await one.killed(where)
                    # A call whose reply was not durable yet is made again.
                    assert _CALLS <= _whole(one, store, await one.run(attempt=2), outside) <= _CALLS + 1
                except AssertionError as error:
                    error.add_note(f"killed at write {where[1]} to {where[0]}")
                    raise

        async with asyncio.TaskGroup() as group:
            for where in thorough.part(thorough.part(cases)):
                group.create_task(case(where))
