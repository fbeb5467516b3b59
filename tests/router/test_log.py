"""What the router logs can be read by a program, and an unexpected error shows where it came from."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.router import process

_PROGRAM = """
import asyncio
from router import __main__ as root, lifetime

async def main():
    async def breaks():
        raise KeyError("x")

    signals = lifetime.Signals()
    task = asyncio.create_task(breaks(), name="sweep")
    task.add_done_callback(lambda one: root._ended(one, signals))
    await signals.leaving.wait()

root.log_to_stderr("info")
asyncio.run(main())
"""


def test_a_job_that_breaks_is_logged_with_its_traceback() -> None:
    ran = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=process.ROOT, stderr=subprocess.PIPE, check=True)
    (line,) = ran.stderr.splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"], event["job"]) == ("a job of the router broke", "critical", "sweep")
    assert event["exception"].startswith("Traceback (most recent call last)")
    assert "in breaks" in event["exception"]
