"""`python -m kb` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx

from tests.kb import waiting

ROOT = Path(__file__).resolve().parents[3]


class Program:
    """A running knowledge base; its log is in `log`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str, log: Path) -> None:
        self._process = process
        self.url = url
        self.log = log

    async def end(self, number: signal.Signals) -> int:
        """Send the signal and return the exit status."""
        if self._process.returncode is None:
            self._process.send_signal(number)
        return await self._process.wait()


Running = Callable[[], AbstractAsyncContextManager[Program]]
"""Starts the service, always with the same port, files and data."""


async def launch(log: Path, settings: dict[str, str]) -> asyncio.subprocess.Process:
    """Start it with `JERVIS_KB_*` settings and nothing else of ours in its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JERVIS_")}
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kb"), cwd=ROOT, env=kept | settings, stdout=output, stderr=output
        )


@asynccontextmanager
async def running(directory: Path, port: int, settings: dict[str, str]) -> AsyncIterator[Program]:
    """Up and alive on loopback `port`; whatever still runs at the end is killed."""
    log = directory / "kb.log"
    base = {"JERVIS_KB_HOST": "127.0.0.1", "JERVIS_KB_PORT": str(port), "JERVIS_KB_DATA_DIR": str(directory / "data")}
    process = await launch(log, base | settings)
    url = f"http://127.0.0.1:{port}"
    try:
        await _alive(process, url, log)
        yield Program(process, url, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _alive(process: asyncio.subprocess.Process, url: str, log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False) as http:

        async def listens() -> bool:
            if process.returncode is not None:
                raise AssertionError(f"it ended with {process.returncode}:\n{_said(log)}")
            with contextlib.suppress(httpx.TransportError):
                return (await http.get(f"{url}/healthz")).is_success
            return False

        await waiting.until(listens)


def _said(log: Path) -> str:
    return log.read_text(errors="replace")
