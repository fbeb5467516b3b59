"""The client of the knowledge base: what it makes again and how often, how long it waits, and its token."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from crds import priority
from kb import api, client
from tests import httpserver, ports
from tests.kb import scopes, world


class Busy(httpserver.Server):
    """A service that answers 503 so often, asking for `wait`, and then as it should; `asked` counts by method."""

    def __init__(self) -> None:
        self.refusals = 0
        self.wait = "0"
        self.status = 503
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        if self.refusals:
            self.refusals -= 1
            problem = {"error": {"code": "unavailable", "message": "weaviate is away"}}
            return web.json_response(problem, status=self.status, headers={"Retry-After": self.wait})
        if request.path == "/api/v1/ingest":
            body = {"id": "d", "sourceUrn": "u", "replaced": False, "chunkIds": [], "queued": True, "priority": 3}
            return web.json_response(body, status=202)
        if request.path == "/api/v1/queue":
            return web.json_response({"jobs": [], "total": 0, "failed": []})
        return web.Response(status=204)


@pytest.fixture
async def busy() -> AsyncIterator[Busy]:
    async with Busy().serving() as server:
        yield server


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, verify=False) as opened:
        yield opened


@pytest.mark.parametrize("status", [429, 503])
async def test_a_repeatable_call_is_made_again(busy: Busy, http: httpx.AsyncClient, status: int) -> None:
    busy.refusals, busy.status = 2, status
    assert (await client.Client(busy.url, http).learning.index(world.request())).queued
    assert busy.asked == ["POST"] * 3


async def test_so_often_and_no_more(busy: Busy, http: httpx.AsyncClient) -> None:
    busy.refusals = 9
    with pytest.raises(client.Unavailable, match="weaviate is away"):
        await client.Client(busy.url, http).queue.listed(scopes.SHOP)
    with pytest.raises(client.Unavailable):
        await client.Client(busy.url, http, attempts=1).queue.listed(scopes.SHOP)
    assert busy.asked == ["GET"] * 4


async def test_what_twice_is_not_once_is_made_once(busy: Busy, http: httpx.AsyncClient) -> None:
    kb_client = client.Client(busy.url, http)
    for call in (
        kb_client.forget(scopes.SHOP, "u:1"),
        kb_client.memory.use_procedure(api.Use(client_id="acme", id="p", succeeded=True)),
        kb_client.queue.reorder(scopes.SHOP, "d", 1),
    ):
        busy.refusals = 1
        with pytest.raises(client.Unavailable):
            await call
        assert busy.refusals == 0
    assert busy.asked == ["DELETE", "POST", "POST"]


async def test_a_long_wait_is_the_callers(busy: Busy, http: httpx.AsyncClient) -> None:
    busy.refusals, busy.wait = 1, "60"
    with pytest.raises(client.Unavailable) as caught:
        await client.Client(busy.url, http).queue.listed(scopes.SHOP)
    assert (caught.value.retry_after, busy.asked) == (60, ["GET"])


async def test_a_refusal_is_final(busy: Busy, http: httpx.AsyncClient) -> None:
    busy.refusals, busy.status = 1, 422
    with pytest.raises(client.Rejected):
        await client.Client(busy.url, http).queue.listed(scopes.SHOP)
    assert busy.asked == ["GET"]


async def test_a_service_that_is_not_there_is_unavailable(http: httpx.AsyncClient) -> None:
    with pytest.raises(client.Unavailable, match="cannot be reached"):
        await client.Client(f"http://127.0.0.1:{ports.free()}", http).queue.listed(scopes.SHOP)


@pytest.mark.parametrize("patient", [True, False])
async def test_an_answer_that_comes_late(patient: bool) -> None:
    gate = asyncio.Event()

    async def retrieve(request: web.Request) -> web.Response:
        await gate.wait()
        return web.json_response(text=api.RetrieveReply(items=[], summary="late").model_dump_json(by_alias=True))

    async def content(request: web.Request) -> web.Response:
        await gate.wait()
        return web.Response(body=b"late")

    app = web.Application()
    app.router.add_post("/api/v1/retrieve", retrieve)
    app.router.add_get("/api/v1/content/{key}", content)
    async with httpserver.serving(app) as url, httpx.AsyncClient(trust_env=False, timeout=0.2) as http:
        kb_client = client.Client(url, http, patient=patient)
        asked = asyncio.create_task(kb_client.retrieve(api.RetrieveRequest(scope=scopes.ACME, query="x")))
        await asyncio.sleep(0)
        # Asked later, and given up first: it runs no model.
        with pytest.raises(client.Unavailable, match="in time"):
            await kb_client.fetch(scopes.ACME, "key")
        if not patient:
            with pytest.raises(client.Unavailable, match="in time"):
                await asked
        gate.set()
        if patient:
            assert (await asked).summary == "late"


async def test_the_time_is_the_router_s_and_some_for_the_service_itself() -> None:
    seen: list[dict[str, float]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200, text=api.RetrieveReply(items=[], summary="").model_dump_json(by_alias=True))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        kb_client = client.Client("http://kb", http, patient=True)
        for urgency in priority.Priority:
            await kb_client.retrieve(api.RetrieveRequest(scope=scopes.ACME, query="x"), urgency=urgency)
    assert [(one["read"], one["connect"]) for one in seen] == [
        (priority.SILENCE[urgency] + 60.0, 5.0) for urgency in priority.Priority
    ]


async def test_a_token_file_is_read_anew_for_each_call(tmp_path: Path) -> None:
    """It is renewed while the client is there."""
    seen: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, content=b"x")

    path = tmp_path / "token"
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        kb_client = client.Client("http://kb", http, client.token_file(str(path)))
        with pytest.raises(client.Unavailable, match="cannot be read"):
            await kb_client.fetch(scopes.ACME, "key")
        for text in ("first\n", "second", ""):
            path.write_text(text)
            await kb_client.fetch(scopes.ACME, "key")
        await client.Client("http://kb", http, client.token_file("")).fetch(scopes.ACME, "key")
        await client.Client("http://kb", http, "fixed").fetch(scopes.ACME, "key")
    assert seen == ["Bearer first", "Bearer second", None, None, "Bearer fixed"]
