"""Where a case runs: an apiserver with our CRDs, one namespace, the services, a kubelet, and operators to start."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pymongo
import yaml

import kube
from bench import variables
from bench.operator import outside
from bench.operator.feed import Feed
from bench.operator.kubelet import Kubelet
from crds.phases import TERMINAL
from hack.cluster import standalone
from tests.nursery import children
from tests.operator import process

ROOT = Path(__file__).resolve().parents[2]
_CRDS = kube.Resource("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions")
_SPACES = kube.Resource("/api/v1", "namespaces")
_ACCOUNTS = kube.Resource("/api/v1", "serviceaccounts")
Counts = dict[tuple[str, str], float]
CONNECTIONS = 128
"""Of the harness, watches included. Each one costs the apiserver a handshake."""
_BINDINGS = kube.Resource("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings")
_REQUESTS = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


@dataclass
class Site:
    """One namespace of a running apiserver. `ended` and `kubelet.created` are stamped by the harness's own watches."""

    directory: Path
    loaded: Any
    http: aiohttp.ClientSession
    api: kube.Kube
    server: standalone.Server
    kubeconfig: Path
    services: str
    mongodb: str
    namespace: str
    kubelet: Kubelet
    ended: dict[str, float] = field(default_factory=dict)
    phases: dict[str, str] = field(default_factory=dict)
    _feeds: list[Feed] = field(default_factory=list)
    _starts: int = 0

    def received(self, kind: str, raw: kube.Object, at: float) -> None:
        """An event of a task."""
        name = raw["metadata"]["name"]
        if kind == "DELETED":
            self.phases.pop(name, None)
            return
        phase = (raw.get("status") or {}).get("phase", "New")
        self.phases[name] = phase
        if phase in TERMINAL:
            self.ended.setdefault(name, at)

    async def listen(self) -> None:
        """Begin to receive events of tasks and Jobs."""
        for kind, received in ((kube.TASKS, self.received), (kube.JOBS, self.kubelet.received)):
            feed = Feed(self.loaded, self.http, kind.path(self.namespace), received)
            await feed.begin()
            self._feeds.append(feed)

    async def deafen(self) -> None:
        """Stop hearing, and stop the runs."""
        for feed in self._feeds:
            await feed.end()
        self._feeds.clear()
        await self.kubelet.end()

    async def submit(self, name: str, **spec: Any) -> None:
        """Create a task: by default a mail in the background."""
        await self.create(name, **spec)

    async def create(self, name: str, **spec: Any) -> kube.Object:
        """The same; the object as it was created."""
        known = {"type": "EmailProcessing", "clientId": "acme", "content": "Please look into it.", **spec}
        return await self.api.create(kube.TASKS, self.namespace, task(name, known))

    async def backend(self, slots: int) -> None:
        """A GPU with so many slots, Ready before the operator has asked it."""
        body = {
            "apiVersion": "jervis.dev/v1alpha1",
            "kind": "GpuBackend",
            "metadata": {"name": "gpu-0"},
            "spec": {"url": self.services, "numParallel": slots},
        }
        await self.api.create(kube.BACKENDS, self.namespace, body)

    def operator(self, **settings: object) -> process.Operator:
        """Start one; it is killed at the end of the case unless it was stopped before."""
        self._starts += 1
        known: dict[str, object] = {
            "KUBECONFIG": self.kubeconfig,
            "NAMESPACE": self.namespace,
            "IDENTITY": "operator-0",
            "KB_URL": self.services,
            "ROUTER_URL": self.services,
            "MONGODB_URI": self.mongodb,
            "MONGODB_DATABASE": self.database,
            "IDLE_SECONDS": 0,
            "LOG_LEVEL": "warning",
            **settings,
        }
        log = self.directory / f"operator-{self._starts}.log"
        return process.Operator(log, children.interpreted, [self.namespace], **known)

    @contextlib.asynccontextmanager
    async def running(self, **settings: object) -> AsyncIterator[process.Operator]:
        """An operator that is ready and leads; gone afterwards."""
        operator = self.operator(**settings)
        try:
            await asyncio.to_thread(operator.ready)
            await until(lambda: asyncio.to_thread(operator.leads), "the operator leads")
            yield operator
        finally:
            if operator.process.poll() is None:
                operator.kill()

    @property
    def database(self) -> str:
        """Name of this site's own MongoDB database."""
        return f"bench_{self.namespace.replace('-', '_')}"

    async def requests(self) -> Counts:
        """What the apiserver has answered since its start, to any client: {(verb, resource[/subresource]): count}."""
        async with self.http.get(f"{self.loaded.host}/metrics") as response:
            text = await response.text()
        counts: Counts = {}
        for found in _REQUESTS.finditer(text):
            labels = dict(_LABEL.findall(found["labels"]))
            what = "/".join(part for part in (labels.get("resource"), labels.get("subresource")) if part)
            key = (labels["verb"], what)
            counts[key] = counts.get(key, 0.0) + float(found["value"])
        return counts

    def pids(self, operator: process.Operator) -> dict[str, int]:
        """The processes whose cost is reported."""
        found = {"operator": operator.process.pid, "harness": os.getpid()}
        for name, part in (("etcd", self.server.etcd), ("apiserver", self.server.api)):
            identity = part.daemon.identity()
            if identity is not None:
                found[name] = identity.pid
        return found


def task(name: str, spec: dict[str, Any]) -> kube.Object:
    """The object as it is created."""
    return {"apiVersion": "jervis.dev/v1alpha1", "kind": "PendingTask", "metadata": {"name": name}, "spec": spec}


@contextlib.asynccontextmanager
async def site(directory: Path, *, hold: bool = False, run_seconds: float = 0.0) -> AsyncIterator[Site]:
    """Everything but the operator, started and stopped."""
    mongodb = variables.required("JERVIS_TEST_MONGODB_URI")
    with standalone.apiserver(directory) as server:
        loaded = kube.configuration(str(server.kubeconfig))
        namespace = f"bench-{uuid.uuid4().hex[:8]}"
        async with kube.session(loaded) as http:
            token = await _prepare(kube.Kube(loaded, http, fence=lambda: None), namespace)
        kubeconfig = _as_account(server.kubeconfig, token)
        loaded = kube.configuration(str(kubeconfig))
        headers = kube.authorization(loaded)
        async with kube.session(loaded, headers=headers, limit=CONNECTIONS) as http, outside.services() as services:
            api = kube.Kube(loaded, http, fence=lambda: None, timeout=60.0)
            kubelet = Kubelet(api, namespace, hold=hold, run_seconds=run_seconds)
            made = Site(directory, loaded, http, api, server, kubeconfig, services, mongodb, namespace, kubelet)
            try:
                yield made
            finally:
                await made.deafen()
                with pymongo.MongoClient[dict[str, Any]](mongodb) as client:
                    client.drop_database(made.database)


async def _prepare(api: kube.Kube, namespace: str) -> str:
    """Our CRDs, established; the namespace; the token of a service account that may do everything."""
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        await api.create(_CRDS, "", yaml.safe_load(path.read_text()))

    async def served() -> bool:
        return kube.TASKS.plural in await api.discover(kube.TASKS)

    await until(served, "the CRDs are served")
    await api.create(_SPACES, "", {"metadata": {"name": namespace}})
    await api.create(_ACCOUNTS, namespace, {"metadata": {"name": "default"}})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    await api.create(_BINDINGS, "", {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}}
    token: str = (await api.create(_tokens(namespace), "", request))["status"]["token"]
    return token


def _as_account(admin: Path, token: str) -> Path:
    """A kubeconfig with a token, as pods have one: a client's certificate would be verified with every request."""
    written = yaml.safe_load(admin.read_text())
    for user in written["users"]:
        user["user"] = {"token": token}
    path = admin.with_name("kubeconfig-account")
    path.write_text(yaml.safe_dump(written))
    return path


async def until(
    condition: Callable[..., Awaitable[bool]], what: str, patience: float = 120.0, *arguments: object
) -> None:
    """Poll a coroutine function until it says yes."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience
    while not await condition(*arguments):
        if loop.time() > deadline:
            raise TimeoutError(f"waited in vain: {what}")
        await asyncio.sleep(0.02)


async def within(condition: Callable[[], Awaitable[bool]], patience: float) -> bool:
    """The same, for a condition that may as well never come true."""
    try:
        await until(condition, "", patience)
    except TimeoutError:
        return False
    return True


def _tokens(namespace: str) -> kube.Resource:
    return kube.Resource(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", "token")


def changes(before: Counts, after: Counts) -> dict[str, float]:
    """What was asked of the apiserver in between: {"PATCH pendingtasks/status": count}."""
    found = {f"{verb} {what}": after[verb, what] - before.get((verb, what), 0.0) for verb, what in after}
    return {key: number for key, number in sorted(found.items()) if number}


def names(prefix: str, count: int) -> Iterable[str]:
    """`prefix-00000` and so on."""
    return (f"{prefix}-{number:05}" for number in range(count))
