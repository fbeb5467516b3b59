"""Threads that earlier programs left behind: read, or refused with a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.orchestrator_job import job, recording
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services


async def _resumed(desk: Desk, path: Path) -> None:
    """It died after the evidence was gathered: only the model is asked."""
    desk.task.adopt(recording.load(desk.store, path))
    desk.fake.forget()
    await desk.ends("Answered", [job.reply()], attempt=5)
    assert desk.calls() == 1
    assert desk.result()["evidence"][0]["content"] == "The release of the router is on Friday."


@pytest.mark.parametrize("name", ["schema-1"])
async def test_a_recorded_thread_is_resumed(desk: Desk, name: str) -> None:
    await _resumed(desk, recording.CORPUS / f"{name}.json")
    assert desk.known.asked == []


async def test_the_present_form_is_recorded_and_resumed(desk: Desk, tmp_path: Path) -> None:
    await desk.dies([job.STALL])
    path = recording.path("schema-present", tmp_path)
    recording.save(desk.store, path)
    await _resumed(desk, path)
    assert len(desk.known.asked) == 1


async def test_a_thread_of_another_schema_is_refused(desk: Desk) -> None:
    desk.task.adopt(recording.load(desk.store, recording.CORPUS / "schema-0.json"))
    ended = await desk.ends("Error", attempt=5)
    assert "has schema 0; this program reads schema 1" in ended.message["summary"]
    assert "orchestrator_checkpoints" in ended.message["remedy"]
    assert desk.calls() == 0
    assert desk.store.all("task_results") == []


async def test_a_lost_artifact_is_refused(desk: Desk) -> None:
    desk.task.adopt(recording.load(desk.store, recording.CORPUS / "schema-1.json"))
    desk.store.database["orchestrator_artifacts"].update_many({}, {"$set": {"body": '"else"'}})
    ended = await desk.ends("Error", attempt=5)
    assert "is damaged" in ended.message["summary"]
