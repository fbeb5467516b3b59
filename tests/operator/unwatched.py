"""The operator's workers in the process of the test: a real API, Lease and MongoDB, and no watch.

The test brings the events, and may give another decision function.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import yaml

from controllers import namespaces, settings
from controllers.pendingtask import transitions
from controllers.pendingtask.decide import decide
from controllers.runtime import clients, wiring
from tests import waiting
from tests.operator.conftest import Space

WORKERS = 2


class Unwatched:
    """`wiring` is the operator's own."""

    def __init__(self, to: clients.Clients, wired: wiring.Wiring) -> None:
        self.wiring, self.metrics = wired, to.metrics

    def hear(self, raw: dict[str, Any]) -> None:
        """An event of a task, in this version."""
        self.wiring.tasks.handlers.observe_task(raw, deleted=False)

    def calls(self, verb: str, code: int) -> float:
        """Answers of the API so far; code 0: none came."""
        return float(self.metrics.api.labels(verb, str(code))._value.get())

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """`condition` runs in a thread, so it may ask the API."""
        await waiting.eventually(lambda: asyncio.to_thread(condition), what)


@contextlib.asynccontextmanager
async def working(space: Space, *, judge: transitions.Decide = decide, **own: Any) -> AsyncIterator[Unwatched]:
    """A leader with its workers, until the end of the block. `own`: settings."""
    config = settings.Settings(namespace=space.name, lease_seconds=120, idle_seconds=0, **own)
    scope = namespaces.Scope.of(space.name, patterns=[space.name], everywhere=False, labels="")
    to = clients.Clients(config)
    wired = wiring.Wiring(config, to, namespaces.Namespaces(scope), judge)
    to.lease.start()
    await waiting.done(to.acquired.wait())
    wired.lead()
    workers = [asyncio.create_task(wired.tasks.work()) for _ in range(WORKERS)]
    try:
        yield Unwatched(to, wired)
    finally:
        for one in workers:
            one.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await wired.readings.close()
        await to.close()


def behind(address: str, kubeconfig: Path, folder: Path) -> Path:
    """A kubeconfig like that one, for the same apiserver at another address (host:port)."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = f"https://{address}"
    found = folder / "behind.kubeconfig"
    found.write_text(yaml.safe_dump(document))
    return found
