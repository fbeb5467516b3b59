"""The operator as a process of its own: start it, kill it, ask its endpoints."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import httpx

from tests import ports, variables, waiting
from tests.nursery import children

ROOT = Path(__file__).resolve().parents[2]

MAIN = ROOT / "operator" / "main.py"


def command(namespaces: Sequence[str]) -> list[str]:
    """What `python -m` runs; no namespaces at all means all of them."""
    flags = [word for name in namespaces for word in ("-n", name)] or ["-A"]
    return ["kopf", "run", str(MAIN), "--standalone", "--quiet", *flags]


class Operator:
    """One process. Its log is kept in `log`. It serves `namespaces`, by default the release's own."""

    def __init__(
        self,
        log: Path,
        start: children.Start = children.forked,
        /,
        namespaces: Sequence[str] | None = None,
        **settings: object,
    ) -> None:
        self.port = ports.free()
        self.log = log
        own = {"METRICS_HOST": "127.0.0.1", "METRICS_PORT": self.port, "PROBE_LOOPBACK": True, **settings}
        self.history_port = int(str(own.setdefault("HISTORY_PORT", ports.free())))
        own.setdefault("HISTORY_HOST", "127.0.0.1")
        named = {f"JERVIS_OPERATOR_{key}": str(value) for key, value in own.items()}
        variables.check(named, "controllers.settings")
        env = {key: value for key, value in os.environ.items() if not key.startswith("JERVIS_")} | named
        env["PYTHONPATH"] = str(ROOT)
        served = [str(settings["NAMESPACE"])] if namespaces is None else namespaces
        self.process = start(command(served), env, log, log.parent)

    def kill(self) -> None:
        """SIGKILL, as the kernel would."""
        self.process.kill()
        self.process.wait(waiting.PATIENCE)

    def signal(self, number: signal.Signals) -> None:
        """Any signal."""
        self.process.send_signal(number)

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(waiting.PATIENCE)

    def get(self, path: str) -> httpx.Response:
        """One of its endpoints."""
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=waiting.PATIENCE, verify=False)

    def history(self, path: str, ticket: str) -> httpx.Response:
        """Its history, with a ticket."""
        headers = {"X-Jervis-Ticket": ticket} if ticket else {}
        return httpx.get(
            f"http://127.0.0.1:{self.history_port}{path}", headers=headers, timeout=waiting.PATIENCE, verify=False
        )

    def ready(self) -> None:
        """Return once /readyz is green."""
        waiting.served(lambda: self.get("/readyz").status_code == 200, self.process, self.log, httpx.HTTPError)

    def leads(self) -> bool:
        """It holds the lease, by its own metric."""
        return self.metric("jervis_operator_leader") == 1.0

    def metric(self, name: str) -> float:
        """Sum of the samples of that name, over all labels."""
        total = 0.0
        for line in self.get("/metrics").text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample == name or sample.startswith(f"{name}{{"):
                total += float(value)
        return total


Start = Callable[..., contextlib.AbstractContextManager[Operator]]


@contextlib.contextmanager
def running(log: Path, namespaces: Sequence[str] | None = None, **settings: object) -> Iterator[Operator]:
    """A ready operator that is gone afterwards, whatever happened."""
    operator = Operator(log, namespaces=namespaces, **settings)
    try:
        operator.ready()
        yield operator
    finally:
        if operator.process.poll() is None:
            operator.kill()
