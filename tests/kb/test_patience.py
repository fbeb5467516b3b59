"""A patient caller waits for what runs a model as long as the router lets it wait, and for nothing else."""

from __future__ import annotations

import asyncio

import httpx
import pytest
from aiohttp import web

from crds import priority, scope
from kb import api, client
from tests import httpserver

WHERE = scope.Scope(client_id="acme")


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
        asked = asyncio.create_task(kb_client.retrieve(api.RetrieveRequest(scope=WHERE, query="x")))
        await asyncio.sleep(0)
        # Asked later, and given up first: it runs no model.
        with pytest.raises(client.Unavailable, match="in time"):
            await kb_client.fetch(WHERE, "key")
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
            await kb_client.retrieve(api.RetrieveRequest(scope=WHERE, query="x"), urgency=urgency)
    assert [(one["read"], one["connect"]) for one in seen] == [
        (priority.SILENCE[urgency] + 60.0, 5.0) for urgency in priority.Priority
    ]
