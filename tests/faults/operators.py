"""Operators as processes, borne by the nursery: started, killed, asked."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from hack.cluster import process
from tests import ports
from tests.operator.process import MAIN, ROOT, command


@dataclass
class Operator:
    """One process. `code` is its exit code once it has ended, a signal's number below zero."""

    pid: int
    port: int = 0
    code: int | None = None
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def signal(self, number: signal.Signals) -> None:
        """Any signal; one to a process that has ended goes nowhere."""
        if self.code is None:
            with contextlib.suppress(ProcessLookupError):  # its end is not told yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL; returns when it runs no more."""
        self.signal(signal.SIGKILL)
        while self.code is None and process.Identity.of(self.pid) is not None:
            time.sleep(0.001)  # the kernel's own milliseconds; nothing else may happen in between

    async def get(self, path: str) -> httpx.Response | None:
        """One of its endpoints; None when nobody answers."""
        try:
            async with httpx.AsyncClient(timeout=5.0, trust_env=False, verify=False) as http:
                return await http.get(f"http://127.0.0.1:{self.port}{path}")
        except httpx.HTTPError:
            return None


class Operators:
    """A running nursery."""

    def __init__(self, nursery: Process) -> None:
        self._nursery = nursery
        self._borne: asyncio.Queue[Operator] = asyncio.Queue()
        self._living: dict[int, Operator] = {}
        self._bearing = asyncio.Lock()

    async def start(self, log: Path, settings: Mapping[str, object], namespaces: Sequence[str]) -> Operator:
        """A new process with these settings (JERVIS_OPERATOR_...) and no others, which serves these namespaces."""
        port = ports.free()
        own = {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": port, "HISTORY_PORT": 0, **settings}
        environment = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")}
        environment |= {f"JERVIS_OPERATOR_{key}": str(value) for key, value in own.items()}
        _, *arguments = command(namespaces)
        wanted = {"arguments": arguments, "environment": environment, "log": str(log), "directory": str(log.parent)}
        async with self._bearing:
            assert self._nursery.stdin is not None
            self._nursery.stdin.write(json.dumps(wanted).encode() + b"\n")
            made = await self._borne.get()
            made.port = port
        return made

    async def listen(self) -> None:
        """Hear what the nursery says, until it ends."""
        assert self._nursery.stdout is not None
        async for line in self._nursery.stdout:
            said = json.loads(line)
            if "started" in said:
                # Its end can be on the next line already.
                self._living[said["started"]] = Operator(said["started"])
                self._borne.put_nowait(self._living[said["started"]])
            elif "ended" in said:
                operator = self._living.pop(said["ended"])
                operator.code = said["code"]
                operator.ended.set()


@contextlib.asynccontextmanager
async def nursery() -> AsyncIterator[Operators]:
    """One for any number of operators; they end with it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    words = (sys.executable, "-m", "tests.nursery", "kopf", str(MAIN))
    started = await asyncio.create_subprocess_exec(
        *words, cwd=ROOT, stdin=PIPE, stdout=PIPE, env=environment, limit=2**20
    )
    operators = Operators(started)
    listening = asyncio.create_task(operators.listen())
    try:
        yield operators
    finally:
        listening.cancel()
        started.kill()
        await started.wait()
