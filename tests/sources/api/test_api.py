"""The API of the sources process: who may call, what an error looks like, and what its description says."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from pathlib import Path

import httpx
import pydantic
import pytest
from aiohttp import web
from openapi_spec_validator import OpenAPIV31SpecValidator

from contracts.tokens import live_runs, runtoken, token_file
from crds import errors, scope
from sources.api import app, gate, problems, routes
from tests.sources.api import serving
from tests.sources.api.serving import NOW, run_token


class Asked(pydantic.BaseModel):
    """What is asked."""

    count: int


class Said(pydantic.BaseModel):
    """What is answered."""

    who: str
    count: int


RUNS = routes.Route("POST", "/api/v1/runs/{name}", "For runs", body=Asked, reply=Said, runs=True, tokens=False)
TOKENS = routes.Route("GET", "/api/v1/tokens", "For tokens", reply=Said, optional=("since",))
OPEN = routes.Route("POST", "/api/v1/open", "Authenticates itself", raw_body=True, open=True)


async def _runs(request: web.Request) -> web.Response:
    asked = await app.read(request, Asked)
    return app.reply(Said(who=gate.run(request).task_uid, count=asked.count))


async def _tokens(request: web.Request) -> web.Response:
    return app.reply(Said(who=gate.caller(request).name, count=0))


async def _open(request: web.Request) -> web.Response:
    return web.Response(body=await app.raw(request))


SERVED: list[routes.Served] = [(RUNS, _runs), (TOKENS, _tokens), (OPEN, _open)]


@pytest.fixture
def book(tmp_path: Path) -> token_file.Book:
    path = tmp_path / "tokens.yaml"
    digest = hashlib.sha256(b"a token of the file").hexdigest()
    path.write_text(f"tokens: [{{name: hooks, sha256: {digest}, scopes: [{{clientId: acme}}]}}]")
    return token_file.Book(path)


def problem(answer: httpx.Response) -> tuple[int, str, str | None]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error.get("field")


async def test_a_run_and_a_token_of_the_file_call_what_is_for_them(book: token_file.Book) -> None:
    async with serving.serving(SERVED, token=run_token(), book=book) as run:
        assert (await run.post("/api/v1/runs/x", json={"count": 2})).json() == {"who": "0b7f", "count": 2}
        assert problem(await run.get("/api/v1/tokens")) == (403, "forbidden", "path")
    async with serving.serving(SERVED, token="a token of the file", book=book) as token:
        assert (await token.get("/api/v1/tokens", params={"since": "now"})).json()["who"] == "hooks"
        assert problem(await token.post("/api/v1/runs/x", json={"count": 2})) == (403, "forbidden", "path")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "unknown",
        run_token(audience=(runtoken.KNOWLEDGE_BASE, runtoken.ROUTER)),
        run_token(now=NOW - timedelta(hours=2)),
        run_token(keys=runtoken.ring([b"another key, of nobody that signs here"])),
    ],
    ids=["none", "unknown", "for another service", "expired", "another key"],
)
async def test_without_a_good_token_nothing_is_called(token: str) -> None:
    async with serving.serving(SERVED, token=token) as client:
        refused = await client.post("/api/v1/runs/x", json={"count": 2})
        assert problem(refused) == (401, "unauthorized", "Authorization")
        assert refused.headers["WWW-Authenticate"] == "Bearer"
        assert token == "" or token not in refused.text
        assert (await client.post("/api/v1/open", content=b"signed")).content == b"signed"


async def test_an_error_names_its_field() -> None:
    async with serving.serving(SERVED, token=run_token()) as client:
        assert problem(
            await client.post("/api/v1/runs/x", content=b"{", headers={"Content-Type": "application/json"})
        ) == (400, "malformed_json", "body")
        assert problem(await client.post("/api/v1/runs/x", json={"count": "many"})) == (422, "invalid", "count")
        assert problem(await client.post("/api/v1/runs/x", json={})) == (422, "invalid", "count")
        assert problem(await client.post("/api/v1/runs/x?a=1", json={})) == (422, "invalid", "a")
        assert problem(
            await client.post("/api/v1/runs/x", content=b"1" * 4097, headers={"Content-Type": "application/json"})
        ) == (413, "too_large", "body")
        assert problem(await client.post("/api/v1/none", json={})) == (404, "not_found", None)
        wrong = await client.put("/api/v1/runs/x", json={})
        assert problem(wrong) == (405, "method_not_allowed", None)
        assert wrong.headers["Allow"] == "POST"


@pytest.mark.parametrize(
    ("raised", "status", "code", "again"),
    [
        (errors.Operational("away", retry_after=2.5), 503, "unavailable", "3"),
        (problems.Crowded("full"), 429, "crowded", "5"),
        (problems.Conflict("differs", field="arguments"), 409, "conflict", None),
        (errors.Permanent("no", field="spec"), 422, "refused", None),
        (ValueError("a secret"), 500, "internal", None),
    ],
)
async def test_an_error_means_one_thing(raised: Exception, status: int, code: str, again: str | None) -> None:
    async def fails(_: web.Request) -> web.Response:
        raise raised

    async with serving.serving([(RUNS, fails)], token=run_token()) as client:
        answer = await client.post("/api/v1/runs/x", json={"count": 1})
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert answer.headers.get("Retry-After") == again
    assert "a secret" not in answer.text


async def test_a_body_that_does_not_arrive_is_given_up() -> None:
    async with serving.serving(SERVED, token=run_token(), body_seconds=0.05) as client:
        host, port = client.base_url.host, client.base_url.port
        reader, writer = await asyncio.open_connection(host, port)
        head = f"POST /api/v1/open HTTP/1.1\r\nHost: {host}\r\nContent-Length: 10\r\n\r\nhalf"
        writer.write(head.encode())
        assert b"408" in await reader.readline()
        writer.close()


async def test_its_description_is_valid_and_open() -> None:
    async with serving.serving(SERVED) as client:
        document = (await client.get(app.DESCRIPTION)).json()
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    assert set(document["paths"]) == {"/api/v1/runs/{name}", "/api/v1/tokens", "/api/v1/open"}
    assert "security" not in document["paths"]["/api/v1/open"]["post"]
    assert document["paths"]["/api/v1/tokens"]["get"]["security"] == [{"bearer": []}]


def test_a_run_acts_in_its_own_scope_alone() -> None:
    verifier = runtoken.Verifier(lambda: serving.KEYS, lambda: NOW, runtoken.SOURCES)
    run = gate.Caller(claims=verifier.verify(run_token()))
    assert run.allows(serving.ACME, writing=True)
    for other in (scope.Scope(client_id="acme"), scope.Scope(client_id=""), scope.Scope(client_id="globex")):
        assert not run.allows(other, writing=False)


async def test_a_run_that_is_over_may_not_call_and_where_that_is_not_known_it_waits() -> None:
    said: list[Exception] = []

    def lives(claims: runtoken.Claims) -> None:
        if said:
            raise said[0]

    async with serving.serving(SERVED, token=run_token(), lives=lives) as client:

        async def asked() -> httpx.Response:
            return await client.post("/api/v1/runs/x", json={"count": 1})

        assert (await asked()).status_code == 200
        said.append(runtoken.Ended("run 1 of task 0b7f is over"))
        over = await asked()
        assert (over.status_code, over.json()["error"]["code"]) == (401, "unauthorized")
        assert "is over" in over.json()["error"]["message"]
        said[0] = live_runs.Unheard("the operator has not said", retry_after=3)
        unheard = await asked()
        assert (unheard.status_code, unheard.headers["Retry-After"]) == (503, "3")
