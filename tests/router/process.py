"""A router process for tests: `python -m router` with GPU_BACKENDS, on a port of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from tests import waiting
from tests.nursery import children

ROOT = Path(__file__).resolve().parents[2]
# Probes often, so that tests wait little. A machine that stands still for seconds is no backend that is away: tests of
# silent backends set a shorter time. Everything else as shipped.
_QUICK = {
    "JERVIS_ROUTER_HOST": "127.0.0.1",
    "JERVIS_ROUTER_PORT": "0",
    "JERVIS_ROUTER_PROBE_INTERVAL_SECONDS": "0.1",
    "JERVIS_ROUTER_PROBE_TIMEOUT_SECONDS": "60",
    "JERVIS_ROUTER_BACKEND_LOOPBACK": "true",
}


class Router:
    """A running router."""

    def __init__(self, process: children.Child, log: Path, backends: Sequence[str]) -> None:
        self.process = process
        self.backends = backends
        self._log = log
        self.url = ""
        self.port = 0

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A client of it for paths, which waits as long as a test that fails. `headers` go with every request."""
        return httpx.AsyncClient(
            base_url=self.url, headers=headers, timeout=waiting.PATIENCE, trust_env=False, verify=False
        )

    async def status(self) -> dict[str, Any]:
        """The status document."""
        async with self.http() as http:
            document: dict[str, Any] = (await http.get("/router/status")).json()
            return document

    async def status_with(self, token: str) -> dict[str, Any]:
        """The status document of a router that wants a token."""
        async with self.http(Authorization=f"Bearer {token}") as http:
            document: dict[str, Any] = (await http.get("/router/status")).json()
            return document

    async def backend(self, name: str) -> dict[str, Any]:
        """One backend of the status document."""
        return next(b for b in (await self.status())["backends"] if b["name"] == name)

    async def metric(self, sample: str) -> float:
        """The value of one sample, written as `/metrics` prints it; 0 when it is not there."""
        async with self.http() as http:
            text = (await http.get("/metrics")).text
        return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(sample + " ")), 0.0)

    async def until(
        self, good: Callable[[dict[str, Any]], bool], *, patience: float = waiting.PATIENCE
    ) -> dict[str, Any]:
        """The status document, once it is good."""
        return await waiting.eventually(self.status, good=good, patience=patience)

    def terminate(self) -> None:
        """SIGTERM."""
        self.process.send_signal(signal.SIGTERM)

    async def ended(self, seconds: float = waiting.PATIENCE) -> int:
        """Wait for the process; its exit status."""
        return await asyncio.to_thread(self.process.wait, seconds)

    def events(self) -> list[dict[str, Any]]:
        """What it logged."""
        return [json.loads(line) for line in self.text().splitlines() if line.startswith("{") and line.endswith("}")]

    def text(self) -> str:
        """Its standard error so far."""
        return self._log.read_text()


def spec(name: str, url: str, **more: Any) -> dict[str, Any]:
    """One entry of GPU_BACKENDS."""
    return {"name": name, "url": url, "kind": "GPU", "numParallel": 4096, **more}


def model_set(*models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`modelSets` with one set."""
    return [{"name": "set", "models": list(models)}]


def environment(backends: Sequence[Mapping[str, Any]] | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a router process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JERVIS_", "GPU_BACKENDS", "KUBE"))}
    given = {} if backends is None else {"GPU_BACKENDS": json.dumps(backends)}
    return inherited | _QUICK | given | {f"JERVIS_ROUTER_{k.upper()}": v for k, v in settings.items()}


@asynccontextmanager
async def running(
    directory: Path, backends: Sequence[Mapping[str, Any]] | None, **settings: str
) -> AsyncIterator[Router]:
    """A router for the length of the block. `settings` are JERVIS_ROUTER_* in lower case."""
    router = start(directory, backends, **settings)
    try:
        yield await serving(router)
    finally:
        if router.process.poll() is None:
            router.process.kill()
        router.process.wait()


def start(directory: Path, backends: Sequence[Mapping[str, Any]] | None, **settings: str) -> Router:
    """Start a router that may not serve yet; the caller ends it."""
    log = directory / f"router-{len(list(directory.iterdir()))}.log"
    names = [str(one["name"]) for one in backends or ()]
    return Router(children.of("router").start(environment(backends, settings), log), log, names)


async def serving(router: Router) -> Router:
    """Wait until it listens and has asked each backend once, which it does before it listens where no machine stands
    still."""

    def addresses() -> list[tuple[str, int]]:
        assert router.process.poll() is None, router.text()
        return [(e["host"], e["port"]) for e in router.events() if e["event"] == "serving"]

    found = await waiting.eventually(addresses)
    router.url, router.port = f"http://{found[0][0]}:{found[0][1]}", found[0][1]
    if any(e["event"] == "starting although some backends have not been probed" for e in router.events()):

        def probed() -> set[str]:
            return {e["backend"] for e in router.events() if e["event"] in ("backend is up", "backend is down")}

        await waiting.eventually(probed, good=set(router.backends).issubset)
    return router


def port_of(url: str) -> int:
    """The port of a URL that has one."""
    port = urlsplit(url).port
    assert port is not None
    return port
