"""ARCHITECTURE.md's reading path of a proxied request is the way of one."""

from __future__ import annotations

from pathlib import Path

from tests import flow
from tests.flow import recording
from tests.router import process, wire

__all__ = ["recording"]


async def test_a_request_takes_the_reading_path(tmp_path: Path, recording: Path) -> None:
    asked = {"model": "m:latest", "messages": [{"role": "user", "content": "Well?"}]}
    async with process.before(tmp_path, wire.answering()) as (router, _):
        flow.begin(router.process.pid, recording)
        assert (await router.post("/api/chat", asked)).status == 200
        flow.agrees("a proxied request", flow.end(router.process.pid, recording))
