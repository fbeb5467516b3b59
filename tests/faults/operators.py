"""Operators as processes, forked by the nursery that all stages share: started, killed, asked."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from hack.cluster import process
from tests import ports, variables
from tests.nursery import children
from tests.operator.process import MAIN, command


@dataclass
class Operator:
    """One process."""

    child: children.Child
    port: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def code(self) -> int | None:
        """Its exit code once it has ended, a signal's number below zero."""
        return self.child.returncode

    def signal(self, number: signal.Signals) -> None:
        """Any signal; one to a process that has ended goes nowhere."""
        self.child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL; returns when it runs no more."""
        self.signal(signal.SIGKILL)
        while self.code is None and process.Identity.of(self.child.pid) is not None:
            time.sleep(0.001)  # the kernel's own milliseconds; nothing else may happen in between

    async def get(self, path: str) -> httpx.Response | None:
        """One of its endpoints; None when nobody answers."""
        try:
            async with httpx.AsyncClient(timeout=5.0, trust_env=False, verify=False) as http:
                return await http.get(f"http://127.0.0.1:{self.port}{path}")
        except httpx.HTTPError:
            return None


async def ready() -> None:
    """Return once a start takes milliseconds."""
    await asyncio.to_thread(children.of("kopf", str(MAIN)).ready)


async def start(log: Path, settings: Mapping[str, object], namespaces: Sequence[str]) -> Operator:
    """A new process with these settings (JERVIS_OPERATOR_...) and no others, which serves these namespaces."""
    nursery = children.of("kopf", str(MAIN))
    await ready()
    port = ports.free()
    own = {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": port, "HISTORY_PORT": 0, **settings}
    named = {f"JERVIS_OPERATOR_{key}": str(value) for key, value in own.items()}
    variables.check(named, "controllers.settings")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")} | named
    _, *arguments = command(namespaces)
    # A fork's milliseconds, in which no cancellation can lose the process.
    made = Operator(nursery.start(environment, log, arguments, log.parent), port)
    loop = asyncio.get_running_loop()

    def tell() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the stage is over
            loop.call_soon_threadsafe(made.ended.set)

    made.child.when_ended(tell)
    return made
