"""Threads that earlier programs left behind: read, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.ollama import process
from tests.orchestrator_job import job, knowledge, recording

pytestmark = pytest.mark.services


async def _resumed(task: job.Job, store: job.Store, fake: process.Fake, path: Path) -> None:
    """It died after the evidence was gathered: only the model is asked."""
    task.adopt(recording.load(store, path))
    fake.forget()
    fake.set_script({job.TAG: [job.reply()]})
    ended = await task.run(attempt=5)
    assert ended.message["exitReason"] == "Answered"
    assert fake.count(path="/api/chat") == 1
    [result] = store.all("task_results")
    assert result["evidence"][0]["content"] == "The release of the router is on Friday."


@pytest.mark.parametrize("name", ["schema-1"])
async def test_a_recorded_thread_is_resumed(
    task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge, name: str
) -> None:
    await _resumed(task, store, fake, recording.CORPUS / f"{name}.json")
    assert known.asked == []


async def test_the_present_form_is_recorded_and_resumed(
    tmp_path: Path, task: job.Job, store: job.Store, fake: process.Fake, known: knowledge.Knowledge
) -> None:
    fake.set_script({job.TAG: [{"fault": {"stall": {"afterBytes": 0}}}]})
    running = task.start()
    await job.reached(fake)
    running.process.kill()
    await task.end(running)
    path = recording.path("schema-present", tmp_path)
    recording.save(store, path)
    await _resumed(task, store, fake, path)
    assert len(known.asked) == 1


async def test_a_thread_of_another_schema_is_refused(task: job.Job, store: job.Store, fake: process.Fake) -> None:
    task.adopt(recording.load(store, recording.CORPUS / "schema-0.json"))
    ended = await task.run(attempt=5)
    assert (ended.status, ended.message["exitReason"]) == (1, "Error")
    assert "has schema 0; this program reads schema 1" in ended.message["summary"]
    assert "orchestrator_checkpoints" in ended.message["remedy"]
    assert fake.count(path="/api/chat") == 0
    assert store.all("task_results") == []


async def test_a_lost_artifact_is_refused(task: job.Job, store: job.Store) -> None:
    task.adopt(recording.load(store, recording.CORPUS / "schema-1.json"))
    store.database["orchestrator_artifacts"].update_many({}, {"$set": {"body": '"else"'}})
    ended = await task.run(attempt=5)
    assert (ended.status, ended.message["exitReason"]) == (1, "Error")
    assert "is damaged" in ended.message["summary"]
