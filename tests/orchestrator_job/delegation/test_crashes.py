"""kill -9 at the writes of a run with two delegations side by side, an approval and an effect: nothing happens twice.

`make test` kills at each ninth boundary, `make test-thorough` at each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import thorough
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire
from tests.orchestrator_job.delegation import sources
from tests.orchestrator_job.delegation.test_runs import (
    EMAIL,
    LEGAL,
    MAIL,
    ORDER,
    PLAN,
    RESEARCH,
    SYNTHESIS,
    THREE,
    decided,
    delegating,
)
from tests.orchestrator_job.delegation.workbench import calls, report

pytestmark = pytest.mark.services

_AT_ONCE = 3
_BOUNDARIES = (
    "orchestrator_checkpoints",
    "orchestrator_checkpoint_writes",
    "orchestrator_journal",
    "orchestrator_ledger",
    "orchestrator_prepared",
    "task_results",
    "delegation_metrics",
)
_CALLS = 7
_ANSWER = "It is on Friday, and a mail was sent [1]."
_STANDING: dict[str, list[Any]] = {
    PLAN: [{"when": "<question>", "answer": THREE}],
    RESEARCH: [
        {"when": '<document source="search_knowledge"', "answer": report("It is on Friday.")},
        {"when": "<question>", "answer": calls(("search_knowledge", {"query": "release"}))},
    ],
    LEGAL: [{"when": "<question>", "answer": report("The contract allows it.")}],
    EMAIL: [
        {"when": '<document source="send_mail"', "answer": report("The mail was sent.")},
        {"when": "<question>", "answer": calls(("send_mail", {**MAIL, "to": ["b@example.com"]}))},
    ],
    SYNTHESIS: [{"when": "<question>", "answer": job.reply(answer=_ANSWER)}],
}


async def _watched(one: job.Job, mongodb_uri: str, attempt: int) -> tuple[job.Ended, Counter[str]]:
    async with mongowire.proxying(mongodb_uri) as proxy:
        ended = await one.run(attempt=attempt, JERVIS_MONGODB_URI=proxy.url)
    return ended, proxy.writes


def _approve(one: job.Job, store: job.Store) -> None:
    store.remember(one.memory(content=ORDER, approvals=[decided(1, "Approved")]))


def _whole(one: job.Job, store: job.Store, ended: job.Ended, outside: sources.Sources) -> int:
    """The task has ended with everything once; returns the model calls that were booked."""
    assert (ended.status, ended.message.get("exitReason")) == (0, "Answered"), ended
    [result] = store.all("task_results", _id=one.uid)
    assert (result["answer"], len(result["delegations"])) == (_ANSWER, 3)
    assert [count for key, count in outside.effects.items() if one.uid in key] == [1]
    assert {entry["state"] for entry in store.all("orchestrator_ledger", taskUid=one.uid)} == {"done"}
    metrics = store.all("delegation_metrics", taskUid=one.uid)
    assert {each["delegationId"]: each["success"] for each in metrics} == dict.fromkeys(
        ("r1.d1", "r1.d2", "r1.d3"), True
    )
    assert len(store.all("session_memory", taskId=one.uid)) == 2
    [fence] = store.all("orchestrator_fences", _id=one.uid)
    assert sorted(fence["spent"]["r1"]["delegations"]) == ["r1.d1", "r1.d2", "r1.d3"]
    return int(fence["spent"]["r1"]["llmCalls"])


async def test_every_boundary(
    tmp_path: Path,
    task: job.Job,
    store: job.Store,
    mongodb_uri: str,
    fake: process.Fake,
    known: knowledge.Knowledge,
) -> None:
    fake.set_script(_STANDING)
    async with sources.serving() as outside:
        store.remember(task.memory(content=ORDER))
        delegating(task, outside)
        asked, first = await _watched(task, mongodb_uri, 1)
        assert asked.message["exitReason"] == "NeedsApproval", asked
        _approve(task, store)
        ended, second = await _watched(task, mongodb_uri, 2)
        assert _whole(task, store, ended, outside) == _CALLS
        # One write for each event of a loop: three begin, four replies and one result; then a result and a reply.
        assert (first["orchestrator_journal"], second["orchestrator_journal"]) == (8, 2)
        # A checkpoint of the input, of the start, and after each step: two branches are one step.
        assert (first["orchestrator_checkpoints"], second["orchestrator_checkpoints"]) == (8, 6)
        cases = [
            (attempt, (name, number))
            for attempt, writes in ((1, first), (2, second))
            for name in _BOUNDARIES
            for number in range(1, writes[name] + 1)
        ]
        assert len(cases) > 60
        slots = asyncio.Semaphore(_AT_ONCE)

        async def case(attempt: int, where: tuple[str, int]) -> None:
            async with slots:
                one = delegating(job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url), outside)
                store.remember(one.memory(content=ORDER))
                try:
                    if attempt == 1:
                        await one.killed(where)
                    assert (await one.run()).message["exitReason"] == "NeedsApproval"
                    assert not [key for key in outside.effects if one.uid in key]
                    _approve(one, store)
                    if attempt == 2:
                        await one.killed(where, attempt=2)
                    # A call whose reply was not in the journal yet is made again: one in each branch at most.
                    assert _CALLS <= _whole(one, store, await one.run(attempt=2), outside) <= _CALLS + 2
                except AssertionError as error:
                    error.add_note(f"attempt {attempt}, killed at write {where[1]} to {where[0]}")
                    raise

        async with asyncio.TaskGroup() as group:
            for attempt, where in thorough.part(thorough.part(cases)):
                group.create_task(case(attempt, where))
