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

from router import client
from tests import variables, waiting
from tests.nursery import children
from tests.router import wire

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

    @asynccontextmanager
    async def door(self) -> AsyncIterator[client.Client]:
        """Our own client of it."""
        async with self.http() as http:
            yield client.Client(self.url, http)

    async def send(self, raw: bytes) -> wire.Message:
        """The answer to one request, on a connection of its own."""
        return await wire.ask(self.port, raw)

    async def get(self, path: str, headers: wire.Fields = ()) -> wire.Message:
        """The answer to a GET."""
        return await self.send(wire.request("GET", path, headers=headers))

    async def post(self, path: str, document: Any, headers: wire.Fields = ()) -> wire.Message:
        """The answer to a JSON POST."""
        return await self.send(wire.post(path, document, headers))

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

    async def total(self, prefix: str) -> float:
        """The sum of all samples that begin like this."""
        async with self.http() as http:
            lines = (await http.get("/metrics")).text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(prefix))

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

    async def logged(self, number: int) -> list[dict[str, Any]]:
        """The lines of the request log, once it has so many."""
        return await waiting.eventually(
            lambda: [event for event in self.events() if event["event"] == "request"],
            good=lambda lines: len(lines) >= number,
        )

    def text(self) -> str:
        """Its standard error so far."""
        return self._log.read_text()


def spec(name: str, url: str, **more: Any) -> dict[str, Any]:
    """One entry of GPU_BACKENDS."""
    return {"name": name, "url": url, "kind": "GPU", "numParallel": 4096, **more}


def model_set(*models: Mapping[str, Any]) -> list[dict[str, Any]]:
    """`modelSets` with one set."""
    return [{"name": "set", "models": list(models)}]


def tokens(directory: Path, *entries: Mapping[str, Any]) -> str:
    """The path of a `tokens_file` with these entries."""
    path = directory / "tokens.json"
    path.write_text(json.dumps(entries))
    return str(path)


def environment(backends: Sequence[Mapping[str, Any]] | None, settings: Mapping[str, str]) -> dict[str, str]:
    """The environment of a router process."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("JERVIS_", "GPU_BACKENDS", "KUBE"))}
    given = {} if backends is None else {"GPU_BACKENDS": json.dumps(backends)}
    named = _QUICK | {f"JERVIS_ROUTER_{k.upper()}": v for k, v in settings.items()}
    variables.check(named, "router.settings")
    return inherited | given | named


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


@asynccontextmanager
async def before(
    directory: Path,
    script: wire.Script,
    *,
    models: Sequence[str] = ("m:latest",),
    name: str = "raw",
    spec: Any = None,
    **settings: str,
) -> AsyncIterator[tuple[Router, wire.Backend]]:
    """A router before one backend of bare sockets, whose entry has the mapping `spec` beside its name and URL."""
    async with (
        wire.backend(script, models) as backend,
        running(directory, [_spec(name, backend, spec)], **settings) as router,
    ):
        yield router, backend


@asynccontextmanager
async def before_two(
    directory: Path,
    first: wire.Script,
    second: wire.Script,
    *,
    models: Sequence[str] = ("m:latest",),
    names: tuple[str, str] = ("a", "b"),
    specs: tuple[Mapping[str, Any], Mapping[str, Any]] = ({}, {}),
    **settings: str,
) -> AsyncIterator[tuple[Router, wire.Backend, wire.Backend]]:
    """A router before two of them; of equals it takes the one whose name comes first."""
    async with wire.backend(first, models) as one, wire.backend(second, models) as other:
        entries = [_spec(names[0], one, specs[0]), _spec(names[1], other, specs[1])]
        async with running(directory, entries, **settings) as router:
            yield router, one, other


def _spec(name: str, backend: wire.Backend, more: Mapping[str, Any] | None) -> dict[str, Any]:
    return spec(name, backend.url, **(more or {}))


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
