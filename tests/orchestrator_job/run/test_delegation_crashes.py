"""kill -9 at the writes of a run with two delegations, one request and its two effects: none happens twice.

`make test` kills at each ninth boundary, `make test-thorough` at each.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests import thorough
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk, side_by_side
from tests.orchestrator_job.run.test_delegation_runs import (
    EMAIL,
    LEGAL,
    MAIL,
    ORDER,
    PLAN,
    RESEARCH,
    SYNTHESIS,
    THREE,
    WAITS,
    decided,
)
from tests.orchestrator_job.workbench import calls, report

pytestmark = pytest.mark.services

_BOUNDARIES = (
    "orchestrator_checkpoints",
    "orchestrator_checkpoint_writes",
    "orchestrator_journal",
    "orchestrator_ledger",
    "orchestrator_prepared",
    "task_results",
    "delegation_metrics",
)
_CALLS = 8
_OTHERS = ("c@example.com", "d@example.com")
"""Whom no permit names."""
_ANSWER = "It is on Friday, and a mail was sent [1]."
_STANDING: dict[str, list[Any]] = {
    PLAN: [{"when": "<question>", "answer": THREE}],
    RESEARCH: [
        {"when": '<document source="search_knowledge"', "answer": report("It is on Friday.")},
        {"when": "<question>", "answer": calls(("search_knowledge", {"query": "release"}))},
    ],
    LEGAL: [{"when": "<question>", "answer": report("The contract allows it.")}],
    EMAIL: [
        {"when": "Done: sendMail", "answer": report("The mails were sent.")},
        {"when": '<document source="send_mail"', "answer": WAITS},
        {"when": "<question>", "answer": calls(*(("send_mail", {**MAIL, "to": [to]}) for to in _OTHERS))},
    ],
    SYNTHESIS: [{"when": "<question>", "answer": job.reply(answer=_ANSWER)}],
}


def _whole(desk: Desk) -> int:
    """The task has ended with everything once; returns the model calls that were booked."""
    uid, result, spent = desk.task.uid, desk.result(), desk.spent()
    assert (result["answer"], len(result["delegations"])) == (_ANSWER, 3)
    assert [count for key, count in desk.outside.effects.items() if uid in key] == [1, 1]
    assert [one["to"] for key, one in desk.outside.arguments.items() if uid in key] == [[to] for to in _OTHERS]
    assert {entry["state"] for entry in desk.store.all("orchestrator_ledger", taskUid=uid)} == {"done"}
    metrics = desk.store.all("delegation_metrics", taskUid=uid)
    assert {each["delegationId"]: each["success"] for each in metrics} == dict.fromkeys(
        ("r1.d1", "r1.d2", "r1.d3"), True
    )
    assert len(desk.store.all("session_memory", taskId=uid)) == 2
    assert sorted(spent["delegations"]) == ["r1.d1", "r1.d2", "r1.d3"]
    return int(spent["llmCalls"])


async def test_every_boundary(desk: Desk) -> None:
    first = await desk.delegates().writes("NeedsApproval", _STANDING, content=ORDER)
    yes = [decided(1, about=one["id"]) for one in desk.result()["waiting"]]
    second = await desk.writes("Answered", approvals=yes)
    assert _whole(desk) == _CALLS
    # One write for each event of a loop: three begin, five replies and three results; then two results and a reply.
    assert (first["orchestrator_journal"], second["orchestrator_journal"]) == (11, 3)
    # A checkpoint of the input, of the start, and after each step: two branches are one step.
    assert (first["orchestrator_checkpoints"], second["orchestrator_checkpoints"]) == (8, 6)
    cases = [
        (attempt, (name, number))
        for attempt, writes in ((1, first), (2, second))
        for name in _BOUNDARIES
        for number in range(1, writes[name] + 1)
    ]
    assert len(cases) > 60

    async def killed(case: tuple[int, tuple[str, int]]) -> None:
        attempt, where = case
        one = desk.another().delegates()
        one.remember(content=ORDER)
        if attempt == 1:
            await one.task.killed(where)
        asked = await one.ends("NeedsApproval")
        assert not [key for key in one.outside.effects if one.task.uid in key]
        one.remember(approvals=[decided(1, about=each["id"]) for each in asked.waiting])
        if attempt == 2:
            await one.task.killed(where, attempt=2)
        await one.ends("Answered")
        # A call whose reply was not in the journal yet is made again: one in each branch at most.
        assert _CALLS <= _whole(one) <= _CALLS + 2

    await side_by_side(thorough.part(cases, thorough.KILLS), killed)
