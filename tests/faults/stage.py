"""Everything around the operator, put together: two namespaces (the release's, a tenant's), record, nodes, people."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorDatabase

from crds.phases import TERMINAL, Phase
from hack.cluster import standalone
from tests import httpserver, waiting
from tests.conftest import api_client
from tests.faults import invariants, kinds, operators, transitions
from tests.faults.cluster_api import ClusterApi, Object
from tests.faults.faults import Decide
from tests.faults.hostile import FORGED, MARK, Tenant
from tests.faults.nodes import Nodes
from tests.faults.people import People
from tests.faults.record import Record, Version
from tests.faults.replica import Partners, Replica
from tests.operator import accounts
from tests.operator.knowledge import Knowledge

SETTINGS: dict[str, object] = {
    "IDLE_SECONDS": 0,
    "PROBE_SECONDS": 1,
    "PROBE_LOOPBACK": True,
    "REQUEST_TIMEOUT": 5,
    "RECHECK_SECONDS": 5,
    "ARCHIVE_SECONDS": 2,
    "JOB_TTL_SECONDS": 3,
    "OUTCOME_SECONDS": 2,
}
"""Shorter than the defaults where a test would only wait; no bound of the operator's is taken away."""
BRIEF = {"FINISHED_TTL_SECONDS": 2, "FAILED_TTL_SECONDS": 2, "DELETES_PER_SECOND": 100}
"""Finished tasks are archived and deleted while the campaign goes on."""
BOOKMARK_SECONDS, SILENCE_SECONDS, SILENT_SECONDS = 60, 90, 120
"""As shipped: a watch is heard about once a minute, and dead after the setting's default; so long it is silent here."""
SCALE = 1 / 15
"""Of these three. A watch that is to be heard more often than the apiserver sends bookmarks is ended by it instead."""
SLOTS = 6
BACKEND, CONNECTION = "gpu-0", "mail"
PATIENCE = waiting.PATIENCE
"""Seconds after which nothing is waited for any more."""
_FAR = timedelta(days=1)


@dataclass
class Stage:
    """Two namespaces of one apiserver: `api` is that of the release, where the runs are, `outer` the tenant's."""

    server: standalone.Server
    api: ClusterApi
    outer: ClusterApi
    tenant: Tenant
    record: Record
    nodes: Nodes
    people: People
    database: AsyncIOMotorDatabase[Any]
    partners: Partners
    settings: dict[str, object]
    directory: Path
    replicas: list[Replica] = field(default_factory=list)
    withdrawn: dict[str, str] = field(default_factory=dict)
    """Names by uid of the tasks that were there when their namespace was deleted: they may have been anywhere."""
    _edits: int = 0

    @contextlib.asynccontextmanager
    async def replica(
        self, decide: Decide, identity: str = "operator-0", *, patience: float = PATIENCE, **settings: object
    ) -> AsyncIterator[Replica]:
        """A replica of the operator, ready within `patience` seconds; `decide` is asked from its first request on."""
        served = (self.api.namespace, self.outer.namespace)
        made = Replica(identity, self.directory, {**self.settings, **settings}, served)
        made.decide = decide
        self.replicas.append(made)
        async with made.running(self.partners):
            await made.ready(patience)
            yield made

    def expected(self) -> dict[str, frozenset[Phase]]:
        """Where the submitted tasks end."""
        anywhere = set(self.withdrawn.values())
        return {name: frozenset(Phase) if name in anywhere else kinds.ends(name) for name in self.people.submitted}

    def runs(self, kind: str = "jobs") -> list[Version]:
        """The present Jobs or pods of the release's namespace."""
        return [one for one in self.record.now[kind].values() if one.namespace == self.api.namespace]

    def unfinished(self) -> dict[str, Phase]:
        """Tasks that have not ended, copies of templates included."""
        found = {}
        for version in self.record.now["pendingtasks"].values():
            phase = transitions.phase(version.raw.get("status") or {})
            if phase not in TERMINAL and not _planned(version):
                found[version.name] = phase
        return found

    def left(self) -> list[str]:
        """Finished tasks, Jobs and pods that are still there."""
        tasks = [one for one in self.record.now["pendingtasks"].values() if not _planned(one)]
        return [f"{one.kind}/{one.name}" for one in (*tasks, *self.runs("jobs"), *self.runs("pods"))]

    def check(self) -> None:
        """Raise what the parts that are played ran into."""
        self.record.check()
        self.nodes.check()
        self.tenant.check()

    async def until(
        self, condition: Callable[[], bool], what: Callable[[], str] | str, seconds: float = PATIENCE
    ) -> float:
        """Wait; how many seconds it took."""

        def missing() -> str:
            if condition():
                return ""
            self.check()
            return what if isinstance(what, str) else what()

        start = time.monotonic()
        await waiting.eventually(missing, "the next step", good=lambda left: not left, patience=seconds)
        return time.monotonic() - start

    async def converge(self, seconds: float = PATIENCE) -> float:
        """Wait until every task has ended, and all that was submitted is in the record."""

        def done() -> bool:
            known = {version.name for version in self.record.versions["pendingtasks"]}
            return not self.unfinished() and known >= set(self.people.submitted)

        return await self.until(done, lambda: f"every task ends; {self.unfinished()}", seconds)

    async def judge(self) -> list[str]:
        """Everything that does not hold."""
        waiting = await self.people.close(PATIENCE)
        self.check()
        # One moment: a Job that is removed meanwhile may still be played.
        tasks, ran = list(self.record.versions["pendingtasks"]), list(self.nodes.ran)
        # Leftovers of a deleted task are removed under its run, which may not have begun to read its input.
        kept = [one for one in tasks if one.uid not in self.withdrawn]
        runs = [one for one in ran if one.uid not in self.withdrawn]
        jobs, pods = self._workloads("jobs"), self._workloads("pods")
        results = [one async for one in self.database["task_results"].find()]
        archive = {one["_id"]: one["phase"] async for one in self.database["task_archive"].find({}, {"phase": 1})}
        return [
            *waiting,
            *invariants.lost(tasks, self.expected()),
            *invariants.forbidden(tasks),
            *invariants.finished_twice(tasks),
            *invariants.stale_epochs(tasks),
            *invariants.duplicate_jobs(jobs),
            *invariants.crowded(pods),
            *invariants.unheard(kept, runs),
            *invariants.worked_twice(tasks, ran),
            *invariants.results_twice(results),
            *invariants.unarchived(kept, archive),
            *invariants.copies(kept),
            *invariants.overbooked(pods, SLOTS),
            *invariants.believed(tasks, FORGED),
            *invariants.astray(
                [*self.record.versions["jobs"], *self.record.versions["pods"]], self.api.namespace, MARK
            ),
            *invariants.orphaned([*jobs, *pods], self.withdrawn),
            *await self._outdated(),
            *await self._taken_in(),
        ]

    def _workloads(self, kind: str) -> list[Version]:
        """All versions of Jobs or pods of the release's namespace."""
        return [one for one in self.record.versions[kind] if one.namespace == self.api.namespace]

    async def delete_tenant(self) -> None:
        """`kubectl delete namespace` of the tenant's, to its end."""
        self.tenant.leaving = True
        since, namespace = time.monotonic(), self.outer.namespace
        for version in list(self.record.now["pendingtasks"].values()):
            if version.namespace == namespace and version.raw["metadata"].get("finalizers"):
                # They would hold the namespace back; whose they are has to let go first.
                await self.outer.patch("pendingtasks", version.name, {"metadata": {"finalizers": None}})
        api = await asyncio.to_thread(api_client, self.server.kubeconfig)
        await asyncio.to_thread(accounts.end, api, namespace)
        await asyncio.to_thread(api.close)

        def left() -> list[str]:
            return [one.name for one in self.record.now["pendingtasks"].values() if one.namespace == namespace]

        await self.until(lambda: not left(), lambda: f"its tasks are gone: {left()}")
        for version in self.record.versions["pendingtasks"]:
            if version.namespace == namespace and version.deleted and version.at >= since:
                self.withdrawn[version.uid] = version.name

    async def fidget(self) -> None:
        """Somebody edits the backend and the connection: their statuses have to follow."""
        self._edits += 1
        await self.api.patch("gpubackends", BACKEND, {"spec": {"maxLoadedModels": 1 + self._edits % 2}})
        await self.api.patch("connections", CONNECTION, {"spec": {"pollInterval": f"{5 + self._edits % 2}m"}})

    async def _outdated(self) -> list[str]:
        """Statuses of the backend and the connection that do not speak of their present specs."""
        found, deadline = [], time.monotonic() + PATIENCE
        for plural, name in (("gpubackends", BACKEND), ("connections", CONNECTION)):
            while not _told(await self.api.get(plural, name)):
                if time.monotonic() > deadline:
                    found.append(f"the status of {plural}/{name} does not follow its spec")
                    break
                await asyncio.sleep(0.1)
        return found

    async def _taken_in(self) -> list[str]:
        """GpuBackends outside of the release's namespace that are Ready: they count nowhere."""
        there = await self.outer.list("gpubackends")
        ready = [
            one["metadata"]["name"]
            for one in there
            for condition in (one.get("status") or {}).get("conditions") or ()
            if (condition["type"], condition["status"]) == ("Ready", "True")
        ]
        return [f"the tenant's gpubackends/{name} is Ready" for name in ready]


@contextlib.asynccontextmanager
async def stage(
    server: standalone.Server, mongodb_uri: str, directory: Path, seed: int, scale: float = SCALE, **settings: object
) -> AsyncIterator[Stage]:
    """Namespaces of its own, a database of its own, and everyone in it at work. `settings` are the operator's.

    `scale` is that of the times after which a watch is heard or dead; 1: as shipped.
    """
    namespace = f"f-{uuid.uuid4().hex[:8]}"
    await operators.ready()
    mongodb: AsyncIOMotorClient[Any] = AsyncIOMotorClient(mongodb_uri, tz_aware=True)
    database = mongodb[f"test_{namespace.replace('-', '_')}"]
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(mongodb.close)
        stack.push_async_callback(mongodb.drop_database, database.name)
        api = await stack.enter_async_context(ClusterApi(str(server.kubeconfig), namespace))
        outer = await stack.enter_async_context(ClusterApi(str(server.kubeconfig), f"{namespace}-tenant"))
        knowledge = stack.enter_context(Knowledge().in_thread())
        outside = await stack.enter_async_context(_backend_and_router())
        await _book(api, outside)
        tenant = Tenant(outer, BACKEND)
        await tenant.settle(outside)
        people = People(api, outer)
        nodes = Nodes(api, database, people.talk, seed)
        stack.push_async_callback(nodes.close)
        record = Record(server.store, namespace)
        record.listen(nodes.heard)
        record.listen(people.heard)
        record.listen(tenant.heard)
        stack.push_async_callback(tenant.close)
        await stack.enter_async_context(record.running())
        address = urlsplit(mongodb_uri)
        assert address.hostname
        partners = Partners(
            api=_address(server.url),
            tls=api.tls,
            knowledge=("127.0.0.1", knowledge.port),
            mongodb=(address.hostname, address.port or 27017),
            database=database.name,
            watch_seconds=round(BOOKMARK_SECONDS * scale) if scale < 1 else 0,
            silent_seconds=SILENT_SECONDS * scale,
            speak=lambda name: people.talk(name, "last-words"),
        )
        silence = {"WATCH_SILENCE_SECONDS": SILENCE_SECONDS * scale}
        known = {**SETTINGS, **silence, "NAMESPACE": namespace, "ROUTER_URL": outside, **settings}
        yield Stage(server, api, outer, tenant, record, nodes, people, database, partners, known, directory)


def _backend_and_router() -> contextlib.AbstractAsyncContextManager[str]:
    """Both at one address; the address."""

    async def answer(request: web.Request) -> web.Response:
        documents: dict[str, dict[str, Any]] = {
            "/api/version": {"version": "0.13.0"},
            "/api/tags": {"models": []},
            "/router/status": {"lastUserP0": None},
        }
        return web.json_response(documents.get(request.path, {}))

    return httpserver.serving(answer, method="GET")


async def _book(api: ClusterApi, url: str) -> None:
    body = {
        "apiVersion": "jervis.dev/v1alpha1",
        "kind": "GpuBackend",
        "metadata": {"name": BACKEND},
        "spec": {"url": url, "numParallel": SLOTS},
    }
    await api.create("gpubackends", body)
    # Somebody's mailbox: its credentials are looked at, and its status says what is to be said.
    await api.create("secrets", {"metadata": {"name": "mail"}, "stringData": {"username": "u", "password": "p"}})
    spec = {"type": "Email", "clientId": "acme", "url": "imaps://mail.example", "secretRef": {"name": "mail"}}
    known = {"apiVersion": "jervis.dev/v1alpha1", "kind": "Connection", "metadata": {"name": CONNECTION}}
    await api.create("connections", {**known, "spec": spec})


def _planned(version: Version) -> bool:
    """A template whose copy has been made: what is left of it is a plan for next year."""
    status = version.raw.get("status") or {}
    due = status.get("scheduledFor")
    made = (status.get("recurrence") or {}).get("lastRun")
    return bool(made and due and datetime.fromisoformat(due) > datetime.now(UTC) + _FAR)


def _told(raw: Object | None) -> bool:
    return raw is not None and raw.get("status", {}).get("observedGeneration") == raw["metadata"]["generation"]


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    assert parts.hostname
    assert parts.port
    return parts.hostname, parts.port
