"""`python -m kb` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx

from tests import waiting
from tests.nursery import children

_SHOWN = 6_000
"""Characters of the log that a failure shows."""


class Program:
    """A running knowledge base; its log is in `log`."""

    def __init__(self, process: children.Child, url: str, log: Path) -> None:
        self._process = process
        self.url = url
        self.log = log
        self.ending = False
        self.pid = process.pid

    async def end(self, number: signal.Signals) -> int:
        """Send the signal and return the exit status."""
        self.ending = True
        self._process.send_signal(number)
        return await asyncio.to_thread(self._process.wait, waiting.PATIENCE)


Running = Callable[..., AbstractAsyncContextManager[Program]]
"""Starts the service, always with the same port, files and data; keywords are settings that differ for once."""


def launch(log: Path, settings: dict[str, str], program: str = "kb") -> children.Child:
    """Start it, or the file `program`, with `JERVIS_KB_*` settings and nothing else of ours in its environment."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JERVIS_")}
    return children.of(program).start(kept | settings, log)


@asynccontextmanager
async def running(directory: Path, port: int, settings: dict[str, str]) -> AsyncIterator[Program]:
    """Up and serving on loopback `port`; whatever still runs at the end is killed.

    Fails, with the exit status and the end of the log, when the process ended and the test did not end it.
    """
    log = directory / "kb.log"
    base = {"JERVIS_KB_HOST": "127.0.0.1", "JERVIS_KB_PORT": str(port), "JERVIS_KB_DATA_DIR": str(directory / "data")}
    process = launch(log, base | settings)
    url = f"http://127.0.0.1:{port}"
    try:
        await _serving(process, url, log)
        program = Program(process, url, log)
        try:
            yield program
        except Exception as error:
            # What the test met is then most often what became of the process.
            if process.poll() is not None and not program.ending:
                error.add_note(_ended(process, log))
            raise
        if process.poll() is not None and not program.ending:
            raise AssertionError(_ended(process, log))
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, waiting.PATIENCE)


async def _serving(process: children.Child, url: str, log: Path) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:

        async def serves() -> bool:
            if process.returncode is not None:
                raise AssertionError(_ended(process, log))
            with contextlib.suppress(httpx.TransportError):
                return (await http.get(f"{url}/startedz")).is_success
            return False

        await waiting.eventually(serves)


def _ended(process: children.Child, log: Path) -> str:
    return f"python -m kb ended with {process.returncode}; the end of its log:\n{_said(log)[-_SHOWN:]}"


def _said(log: Path) -> str:
    return log.read_text(errors="replace")
