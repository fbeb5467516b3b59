"""`python -m kb` as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from crds import scope
from kb import client
from tests import variables, waiting
from tests.kb import scopes
from tests.nursery import children

_SHOWN = 6_000
"""Characters of the log that a failure shows."""


class Program:
    """A running knowledge base; its log is in `log`. `client` repeats its calls and `once` does not; `http` is at the
    service's root."""

    def __init__(self, process: children.Child, http: httpx.AsyncClient, url: str, log: Path) -> None:
        self._process = process
        self.http, self.url, self.log = http, url, log
        self.client, self.once = client.Client(url, http), client.Client(url, http, attempts=1)
        self.ending = False
        self.pid = process.pid

    async def metrics(self) -> str:
        return (await self.http.get("/metrics")).text

    async def until_counted(self, figure: str, pause: float = 0.02) -> None:
        """Until its metrics have this line."""

        async def there() -> bool:
            return figure in await self.metrics()

        await waiting.eventually(there, figure, pause=pause)

    async def until_empty(self, owner: scope.Scope = scopes.SHOP) -> None:
        """Until nothing waits in the queue."""

        async def empty() -> bool:
            with contextlib.suppress(client.Unavailable):
                return (await self.client.queue.listed(owner)).total == 0
            return False

        await waiting.eventually(empty)

    async def until_drawn(self, urn: str, owner: scope.Scope = scopes.SHOP) -> None:
        """Until the images of the pages of a document are made."""

        async def done() -> bool:
            return (await self.client.pages.state(owner, urn)).state == "Done"

        await waiting.eventually(done, pause=0.2)

    async def until_erased(self, owner: scope.Scope, erasure_id: str) -> None:
        """Until this one is done; there is no other."""

        async def done() -> bool:
            return [(one.id, one.state) for one in await self.client.erasing.listed(owner)] == [(erasure_id, "Done")]

        await waiting.eventually(done)

    async def end(self, number: signal.Signals) -> int:
        """Send the signal and return the exit status."""
        self.ending = True
        self._process.send_signal(number)
        return await asyncio.to_thread(self._process.wait, waiting.PATIENCE)


def stalled(tag: str, nth: int | None = None) -> dict[str, Any]:
    """A fault of the simulator: calls for this prompt, or the `nth` alone, are not answered."""
    gate = f"stalled-{uuid.uuid4()}"
    return {"match": {"tag": tag}, "nth": nth, "stall": {"afterBytes": 0, "gate": gate}}


Running = Callable[..., AbstractAsyncContextManager[Program]]
"""Starts the service, always with the same port, files and data; keywords are settings that differ for once."""


def launch(log: Path, settings: dict[str, str], program: str = "kb") -> children.Child:
    """Start it, or the file `program`, with `JERVIS_KB_*` settings and nothing else of ours in its environment."""
    variables.check(settings, "kb.settings")
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
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=waiting.PATIENCE, verify=False) as http:
            await _serving(process, http, log)
            program = Program(process, http, url, log)
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


async def _serving(process: children.Child, http: httpx.AsyncClient, log: Path) -> None:
    async def serves() -> bool:
        if process.returncode is not None:
            raise AssertionError(_ended(process, log))
        with contextlib.suppress(httpx.TransportError):
            return (await http.get("/startedz")).is_success
        return False

    await waiting.eventually(serves)


def _ended(process: children.Child, log: Path) -> str:
    end = log.read_text(errors="replace")[-_SHOWN:]
    return f"python -m kb ended with {process.returncode}; the end of its log:\n{end}"
