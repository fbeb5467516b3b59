"""kill -9 at the boundaries of checkpoints and effects: the next run resumes, repeats no finished node, writes once.

`make test` kills at each third boundary, `make test-thorough` at each.
"""

from __future__ import annotations

import pytest

from tests import thorough
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk, side_by_side

pytestmark = pytest.mark.services


async def _resumed(desk: Desk) -> int:
    """The next run ends the task, and everything is there once. Returns how many model calls both runs have booked."""
    await desk.ends("Answered")
    uid, fence = desk.task.uid, desk.fence()
    assert desk.result()["answer"] == "On Friday [1]."
    assert [entry["state"] for entry in desk.store.all("orchestrator_ledger", taskUid=uid)] == ["done"] * 3
    assert len(desk.store.all("session_memory", taskId=uid)) == 1
    assert len(desk.store.all("chat_history", taskUid=uid)) == 1
    assert fence["epoch"] == 2
    assert len(desk.store.all("orchestrator_checkpoints", thread_id=uid)) == 1
    return int(fence["spent"]["r1"]["llmCalls"])


async def test_every_boundary(desk: Desk) -> None:
    writes = await desk.writes("Answered", [job.reply()])
    # A checkpoint of the input, of the start, and after each of the five nodes.
    assert writes["orchestrator_checkpoints"] == 7
    assert [writes[name] for name in ("task_results", "session_memory", "chat_history")] == [1, 1, 1]
    assert writes["orchestrator_ledger"] == 9

    lost_answers = (
        "orchestrator_checkpoints", "task_results", "session_memory", "chat_history", "orchestrator_ledger",
    )  # fmt: skip
    cases = [((name, n), True) for name in lost_answers for n in range(1, writes[name] + 1)]
    cases += [((name, 1), False) for name in ("task_results", "session_memory", "chat_history")]
    assert len(cases) == 22
    cases = thorough.part(cases)
    desk.fake.forget()
    desk.known.asked.clear()
    desk.fake.set_script({job.TAG: [job.reply()] * (len(cases) + 1)})
    booked: list[int] = []

    async def killed(case: tuple[tuple[str, int], bool]) -> None:
        where, reached = case
        one = desk.another()
        await one.task.killed(where, reached=reached)
        booked.append(await _resumed(one))
        assert booked[-1] == 1

    await side_by_side(cases, killed)
    assert desk.calls() == sum(booked)
    assert len(desk.known.asked) == len(cases)


async def test_a_run_that_dies_while_the_model_answers_asks_again(desk: Desk) -> None:
    await desk.dies([job.STALL, job.reply()])
    await desk.ends("Answered")
    assert (desk.calls(), len(desk.known.asked), desk.spent()["llmCalls"]) == (2, 1, 2)
