"""The two paths on a port, before any apiserver, with tokens of runs; and an apiserver that answers by path."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import prometheus_client
from aiohttp import web

import kube
from contracts.tokens import runtoken
from controllers import metrics
from controllers.clusterstate import http, reading
from crds.priority import Priority
from tests import httpserver, waiting
from tests.crds import runs
from tests.kube import apiserver

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
KEYS = runtoken.ring([b"a key of the tests of cluster state, 32"])
NAMESPACE, OWN = "team-a", "jervis"
TEAM = f"/api/v1/namespaces/{NAMESPACE}"
POD = {
    "metadata": {"name": "router-1"},
    "spec": {"containers": [{"name": "router", "env": [{"name": "KEY", "value": "value-of-key"}]}]},
}


def token(namespace: str = NAMESPACE, *, audience: tuple[str, ...] = runtoken.AUDIENCE, **more: Any) -> str:
    """Of a run whose task is in `namespace`."""
    run = runs.run(namespace=namespace, ceiling=Priority.P1, **more)
    return runtoken.Signer(lambda: KEYS, lambda: NOW).sign(run, timedelta(hours=1), audience)


class Apiserver:
    """`lists` by path, of which there are `left` more than these; `log` are the lines of every log. It answers while it
    is `open`. `asked` has each path with its query."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {f"{TEAM}/pods": [POD]}
        self.log: list[str] = []
        self.left = 0
        self.refuses: dict[str, int] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.open = asyncio.Event()
        self.open.set()

    def client(self) -> contextlib.AbstractAsyncContextManager[kube.Kube]:
        """The operator's client of it, while it is served."""
        return apiserver.serving(self.answer)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append((request.path, dict(request.query)))
        await self.open.wait()
        if status := self.refuses.get(request.path):
            return web.json_response({"kind": "Status", "code": status, "message": "no"}, status=status)
        if request.path.endswith("/log"):
            lines = "".join(f"{one}\n" for one in self.log[-int(request.query["tailLines"]) :])
            return web.Response(body=lines.encode()[: int(request.query["limitBytes"])])
        found, first = self.lists.get(request.path, []), int(request.query.get("continue", "0"))
        last = min(len(found), first + int(request.query["limit"]))
        left = len(found) - last + self.left
        metadata = {"continue": str(last), "remainingItemCount": left} if left else {}
        body = json.dumps({"items": found[first:last], "metadata": metadata}).encode()
        return web.Response(body=body, content_type="application/json")


class Place:
    """`clock` is the monotonic time of the port."""

    def __init__(self) -> None:
        self.clock, self.url = 0.0, ""
        self.measured = metrics.Metrics(prometheus_client.CollectorRegistry())
        self.client: httpx.AsyncClient

    async def ask(self, path: str = "", given: str | None = None, **query: str) -> httpx.Response:
        """GET of a path below /api/v1/cluster-state."""
        headers = {"Authorization": f"Bearer {token() if given is None else given}"}
        return await self.client.get(f"/api/v1/cluster-state{path}", params=query, headers=headers)

    def counted(self) -> dict[tuple[str, str], float]:
        [family] = self.measured.cluster_reads.collect()
        found = (one for one in family.samples if one.name.endswith("_total"))
        return {(one.labels["what"], one.labels["outcome"]): one.value for one in found}


@contextlib.asynccontextmanager
async def opened(
    api: kube.Kube,
    *,
    namespaces: tuple[str, ...] = (),
    logs: tuple[str, ...] = (),
    keys: runtoken.Ring = KEYS,
    seconds: float = http.SECONDS,
) -> AsyncIterator[Place]:
    """Over an apiserver, for tokens that are signed with `keys`."""
    place, application = Place(), web.Application()
    allowed = reading.Allowed(OWN, frozenset(namespaces), frozenset(logs))
    verifier = runtoken.Verifier(lambda: keys, lambda: NOW, runtoken.OPERATOR)
    served = http.ClusterStateHttp(
        reading.Reading(api, allowed), verifier, place.measured, monotonic=lambda: place.clock, seconds=seconds
    )
    served.serve(application)
    async with (
        httpserver.serving(application) as place.url,
        httpx.AsyncClient(base_url=place.url, trust_env=False, timeout=waiting.PATIENCE) as place.client,
    ):
        yield place
