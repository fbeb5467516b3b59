"""The sources process as a process of its own: start it, kill it, ask its endpoints."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import httpx

from tests import ports, variables, waiting
from tests.nursery import children


class Sources:
    """One sources process."""

    def __init__(self, log: Path, **settings: object) -> None:
        self.port, self.log = ports.free(), log
        own: dict[str, object] = {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": self.port, "PLAINTEXT": True}
        own |= {"API_HOST": "127.0.0.1", "API_PORT": ports.free(), "LOOPBACK": True, **settings}
        named = {f"JERVIS_SOURCES_{key}": str(value) for key, value in own.items()}
        variables.check(named, "sources.settings")
        env = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")} | named
        env["PYTHONPATH"] = str(Path(__file__).resolve().parents[2])
        self.process = children.forked(["sources"], env, log, log.parent)

    def metric(self, name: str) -> float:
        """Sum of the samples of that name."""
        lines = httpx.get(f"http://127.0.0.1:{self.port}/metrics", timeout=waiting.PATIENCE).text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name}{{", f"{name} ")))

    def ready(self) -> None:
        """Return once /readyz is green."""
        url = f"http://127.0.0.1:{self.port}/readyz"
        waiting.served(lambda: httpx.get(url).status_code == 200, self.process, self.log, httpx.HTTPError)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait(waiting.PATIENCE)


@contextlib.contextmanager
def running(log: Path, **settings: object) -> Iterator[Sources]:
    """A ready process that is gone afterwards."""
    one = Sources(log, **settings)
    try:
        one.ready()
        yield one
    finally:
        if one.process.poll() is None:
            one.kill()
