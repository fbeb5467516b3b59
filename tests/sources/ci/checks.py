"""The route of checks in front of an apiserver with Connections, and hosts that answer by path."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from aiohttp import web

from sources import client, metrics
from sources.ci import serving
from sources.effects import targets
from sources.providers import table
from tests import waiting
from tests.sources import parts
from tests.sources.api.serving import NOW, run_token
from tests.sources.api.serving import serving as api_serving
from tests.sources.effects.world import World

SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"


class Pages(list[Any]):
    """The answers to a path, one for each page."""


class Hosts(World):
    """`answers` may be `Pages`, or bytes that are no JSON; `refuses` has the status of a path that is refused. `asked`
    is what was asked, with its query."""

    def __init__(self) -> None:
        super().__init__()
        self.refuses: dict[str, int] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def _read(self, path: str, query: Mapping[str, str]) -> Any:
        self.asked.append((path, dict(query)))
        found = super()._read(path, query)
        return found[int(query.get("page", "1")) - 1] if isinstance(found, Pages) else found

    async def _host(self, request: web.Request) -> web.Response:
        path = request.raw_path.partition("?")[0]
        if path in self.refuses:
            return web.json_response({"message": "no"}, status=self.refuses[path])
        if isinstance(page := self.answers.get(path), bytes):
            return web.Response(body=page, content_type="text/html")
        answer = await super()._host(request)
        found, page = self.answers.get(path), int(request.query.get("page", "1"))
        if isinstance(found, Pages) and page < len(found):
            # Of another host, as behind a proxy.
            answer.headers["Link"] = f'<https://other.example{path}?page={page + 1}>; rel="next"'
        return answer


def counted(measured: metrics.Metrics) -> dict[tuple[str, str], float]:
    """Requests by type of Connection and outcome."""
    [family] = measured.ci_reads.collect()
    return {(one.labels["type"], one.labels["outcome"]): one.value for one in family.samples if "total" in one.name}


class Place:
    """`ask` is a run's client."""

    def __init__(self, world: Hosts, measured: metrics.Metrics, base: str, http: httpx.AsyncClient) -> None:
        self.world, self.measured, self.base, self.http = world, measured, base, http

    def ask(self, **token: Any) -> client.Client:
        return client.Client(self.base, self.http, lambda: run_token(**token))


@contextlib.asynccontextmanager
async def opened() -> AsyncIterator[Place]:
    async with (
        Hosts().serving() as world,
        parts.clients(world.url) as (api, _),
        httpx.AsyncClient(trust_env=False, timeout=waiting.PATIENCE) as http,
    ):
        assert isinstance(world, Hosts)
        means, measured = serving.Means(ssl.create_default_context(), True, lambda: NOW, lambda: 0.0), parts.meters()
        async with api_serving(serving.Ci(targets.Targets(api), table.CHECKS, means, measured).served) as served:
            yield Place(world, measured, str(served.base_url).rstrip("/"), http)
