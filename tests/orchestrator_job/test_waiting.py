"""A run waits for a service that says nothing for long, and would notice if its host were gone."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests import waiting
from tests.orchestrator_job import job
from tests.orchestrator_job.desk import Desk

pytestmark = pytest.mark.services


async def test_the_kernel_asks_whether_the_knowledge_base_is_still_there(desk: Desk) -> None:
    port = urlsplit(desk.known.url).port

    def timers() -> list[str]:
        """Column `tr` of /proc/net/tcp of the run's connections to it: 02 while a keepalive timer runs."""
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return [row[5][:2] for row in rows if row[2].endswith(f":{port:04X}") and row[3] == "01"]

    desk.fake.set_script({job.TAG: [job.reply()]})
    desk.known.answers.clear()
    running = asyncio.create_task(desk.task.run())
    try:
        async with asyncio.timeout(waiting.PATIENCE):
            await waiting.eventually(lambda: bool(desk.known.asked))
            await waiting.eventually(lambda: bool(timers()) and set(timers()) == {"02"})
    finally:
        desk.known.answers.set()
    assert (await running).message["exitReason"] == "Answered"
