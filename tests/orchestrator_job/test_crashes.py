"""kill -9 at the boundaries of checkpoints and effects: the next run resumes, repeats no finished node, writes once.

`make test` kills at each third boundary, `make test-thorough` at each.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests import thorough
from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, mongowire

pytestmark = pytest.mark.services

_AT_ONCE = 3


async def _resumed(one: job.Job, store: job.Store) -> int:
    """The next run ends the task, and everything is there once. Returns how many model calls both runs have booked."""
    ended = await one.run()
    assert (ended.status, ended.message.get("exitReason")) == (0, "Answered"), ended
    [result] = store.all("task_results", _id=one.uid)
    assert result["answer"] == "On Friday [1]."
    assert [entry["state"] for entry in store.all("orchestrator_ledger", taskUid=one.uid)] == ["done"] * 3
    assert len(store.all("session_memory", taskId=one.uid)) == 1
    assert len(store.all("chat_history", taskUid=one.uid)) == 1
    [fence] = store.all("orchestrator_fences", _id=one.uid)
    assert fence["epoch"] == 2
    assert len(store.all("orchestrator_checkpoints", thread_id=one.uid)) == 1
    return int(fence["spent"]["r1"]["llmCalls"])


async def test_every_boundary(
    tmp_path: Path,
    task: job.Job,
    store: job.Store,
    mongodb_uri: str,
    fake: process.Fake,
    known: knowledge.Knowledge,
) -> None:
    fake.set_script({job.TAG: [job.reply()]})
    async with mongowire.proxying(mongodb_uri) as proxy:
        clean = await task.run(JERVIS_MONGODB_URI=proxy.url)
    assert clean.message["exitReason"] == "Answered"
    writes = proxy.writes
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
    fake.forget()
    known.asked.clear()
    fake.set_script({job.TAG: [job.reply()] * (len(cases) + 1)})
    slots = asyncio.Semaphore(_AT_ONCE)
    booked = 0

    async def case(where: tuple[str, int], reached: bool) -> None:
        nonlocal booked
        async with slots:
            one = job.Job(tmp_path, mongodb_uri, store.name, known.url, fake.url)
            store.remember(one.memory())
            await one.killed(where, reached=reached)
            try:
                calls = await _resumed(one, store)
                assert calls == 1
                booked += calls
            except AssertionError as error:
                error.add_note(f"killed {'after' if reached else 'before'} write {where[1]} to {where[0]}")
                raise

    async with asyncio.TaskGroup() as group:
        for where, reached in cases:
            group.create_task(case(where, reached))
    assert fake.count(path="/api/chat") == booked
    assert len(known.asked) == len(cases)


async def test_a_run_that_dies_while_the_model_answers_asks_again(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_script({job.TAG: [{"fault": {"stall": {"afterBytes": 0}}}, job.reply()]})
    running = task.start()
    await job.reached(fake)
    running.process.kill()
    assert (await task.end(running)).status == -9
    ended = await task.run()
    assert ended.message["exitReason"] == "Answered"
    assert fake.count(path="/api/chat") == 2
    assert len(known.asked) == 1
    [fence] = store.all("orchestrator_fences")
    assert fence["spent"]["r1"]["llmCalls"] == 2
