"""ARCHITECTURE.md's reading path of a run is the way of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import flow
from tests.flow import recording
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk

__all__ = ["recording"]
pytestmark = pytest.mark.services


async def test_a_question_takes_the_reading_path(desk: Desk, recording: Path) -> None:
    assert (await desk.run([job.reply()])).status == 0
    flow.agrees("a run", flow.of_ended(recording))
