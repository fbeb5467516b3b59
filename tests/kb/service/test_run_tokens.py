"""What the token of a run opens at the knowledge base: its own scope, to read; and that of an analysis of code."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import test_utils, web

from codegraph.branch import analyst
from codegraph.extract import budget
from contracts import http_routes
from contracts.tokens import live_runs, runtoken
from crds import priority, scope
from crds.priority import Priority
from kb import api, client, metrics, mongo, routes, settings
from kb.code import book
from kb.ingest import lanes
from kb.service import serving as processes
from kb.service.access import runs
from kb.service.http import access, body, structures
from tests import waiting
from tests.clients import test_liveruns
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.service import callers, serving, whole
from tests.kb.service.callers import BEGIN, HOUR, KEYS, bearer, signed


@pytest.fixture(params=["tokens", "open"])
async def http(
    request: pytest.FixtureRequest, kb: world.ObservedState, meters: metrics.Metrics, tokens: Path
) -> AsyncIterator[httpx.AsyncClient]:
    """A knowledge base with a file of tokens, and one without."""
    gate = callers.gate(tokens if request.param == "tokens" else None)
    async with serving.over(kb, meters, gate=gate) as (_, raw):
        yield raw


def asked_body(where: scope.Scope) -> Mapping[str, object]:
    return {"scope": where.model_dump(by_alias=True), "query": "what?"}


async def test_a_run_reads_its_own_scope_and_what_belongs_to_no_client(http: httpx.AsyncClient) -> None:
    ref = await client.Client(str(http.base_url), http, "operator-token").store(scopes.SHOP, b"something")
    kb_client = client.Client(str(http.base_url), http, signed())
    await kb_client.retrieve(api.RetrieveRequest(scope=scopes.SHOP, query="what?"))
    await kb_client.retrieve(api.RetrieveRequest(scope=scopes.GLOBAL, query="what?"))
    assert await kb_client.fetch(scopes.SHOP, ref.key) == b"something"
    for where in (scopes.TILL, scopes.ACME):
        with pytest.raises(client.Rejected, match="may not read in this scope"):
            await kb_client.fetch(where, ref.key)


@pytest.mark.parametrize(
    "where",
    [scopes.OTHER, scopes.ACME, scopes.RETAIL, scopes.TILL, scopes.BLOG, scopes.make("acme", "shop", "else")],
    ids=str,
)
async def test_no_other_scope_of_its_client_or_another(http: httpx.AsyncClient, where: scope.Scope) -> None:
    answer = await http.post("/api/v1/retrieve", json=asked_body(where), headers=bearer(signed()))
    problem = answer.json()["error"]
    assert (answer.status_code, problem["code"], problem["field"]) == (403, "forbidden", "scope")
    assert "scope" in problem["remedy"]


async def test_a_run_of_a_whole_client_does_not_open_its_projects(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/v1/retrieve", json=asked_body(scopes.SHOP), headers=bearer(signed(scopes.ACME)))
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/queue?clientId=acme&projectId=shop&groupId=retail"),
        ("GET", "/api/v1/aliases?clientId=acme&projectId=shop&groupId=retail"),
        ("POST", "/api/v1/queue/reorder"),
        ("POST", "/api/v1/ingest/full"),
        ("POST", "/api/v1/ingest/file?clientId=acme&projectId=shop&groupId=retail"),
        ("POST", "/api/v1/ingest"),
        ("POST", "/api/v1/outcomes"),
        ("DELETE", "/api/v1/documents?sourceUrn=a::b&clientId=acme&projectId=shop&groupId=retail"),
        ("DELETE", "/api/v1/rules?ruleKey=a&deletedBy=b&clientId=acme&projectId=shop&groupId=retail"),
        ("DELETE", "/api/v1/memory/procedural?id=a&clientId=acme"),
        ("POST", "/api/v1/erasures"),
        ("GET", "/api/v1/nothing"),
    ],
)
async def test_nothing_is_removed_or_administered_with_it(http: httpx.AsyncClient, method: str, path: str) -> None:
    answer = await http.request(method, path, headers=bearer(signed()), json=asked_body(scopes.SHOP))
    assert answer.status_code == 403
    problem = answer.json()["error"]
    assert (problem["code"], problem["field"]) == ("forbidden", "path")
    assert "docs/tokens.md" in problem["remedy"]
    assert "0b7f" in problem["message"]


async def test_a_run_stores_content_in_exactly_its_scope(http: httpx.AsyncClient) -> None:
    own = client.Client(str(http.base_url), http, signed())
    ref = await own.store(scopes.SHOP, b"a draft")
    assert await own.fetch(scopes.SHOP, ref.key) == b"a draft"
    for where in (scopes.TILL, scopes.ACME, scopes.GLOBAL):
        with pytest.raises(client.Rejected, match="may not write in this scope"):
            await own.store(where, b"a draft")


def passes(token: str) -> runs.Pass:
    return runs.Pass(runtoken.Verifier(lambda: KEYS, lambda: BEGIN, runtoken.KNOWLEDGE_BASE).verify(token))


ADDED: list[http_routes.Route[Any]] = [
    routes.CRAWL,
    routes.STORE,
    routes.MEMORY_SAVE_PROCEDURE,
    routes.MEMORY_USE_PROCEDURE,
]


@pytest.mark.parametrize("route", ADDED, ids=lambda route: route.path)
def test_a_run_on_behalf_of_a_user_adds_nothing_that_others_see(route: http_routes.Route[Any]) -> None:
    assert passes(signed()).permits(route.callers)
    assert not passes(signed(principals=("user:eve",))).permits(route.callers)


@pytest.mark.parametrize(("more", "may"), [({}, False), ({"teaches": True}, False), ({"rules": ("mail",)}, True)])
def test_a_rule_takes_the_approval_of_a_rule(more: dict[str, Any], may: bool) -> None:
    assert passes(signed(**more)).permits(routes.RULES_PUT.callers) is may


async def test_an_analysis_stores_its_overview_and_reads_nothing(http: httpx.AsyncClient) -> None:
    """What else it may write is below."""
    ref = await client.Client(str(http.base_url), http, "operator-token").store(scopes.SHOP, b"something")
    own = client.Client(str(http.base_url), http, signed(repository="acme/storage"))
    assert (await own.store(scopes.SHOP, b"an overview")).bytes == 11
    for call in (
        lambda: own.fetch(scopes.SHOP, ref.key),
        lambda: own.retrieve(api.RetrieveRequest(scope=scopes.SHOP, query="what?")),
    ):
        with pytest.raises(client.Rejected, match="may not call"):
            await call()


async def test_a_sandbox_reads_and_stores_content_of_its_scope_and_nothing_else(http: httpx.AsyncClient) -> None:
    """What its command could do with the token, were it to get at it."""
    own = client.Client(str(http.base_url), http, signed(sandbox=True))
    ref = await own.store(scopes.SHOP, b"a workspace")
    assert await own.fetch(scopes.SHOP, ref.key) == b"a workspace"
    for where in (scopes.TILL, scopes.ACME, scopes.GLOBAL):
        with pytest.raises(client.Rejected, match="in this scope"):
            await own.fetch(where, ref.key)
    writes = [(route.method, route.path) for route in (*ADDED, routes.RULES_PUT)]
    for method, path in [*writes, ("POST", "/api/v1/retrieve"), ("GET", "/api/v1/rules"), ("POST", "/mcp")]:
        headers = bearer(signed(sandbox=True))
        answer = await http.request(method, path, headers=headers, json=asked_body(scopes.SHOP))
        error = answer.json()["error"]
        problem = error["data"] if path == "/mcp" else error  # there in an envelope of JSON-RPC
        assert (answer.status_code, problem["code"]) == (403, "forbidden"), path


async def test_an_expired_or_changed_one_is_no_token_even_where_none_is_asked_for(http: httpx.AsyncClient) -> None:
    good = signed()
    for token, reason in (
        (signed(lifetime=timedelta(minutes=5)), "expired"),
        (good[:-4] + "AAAA", "signature"),
    ):
        answer = await http.post("/api/v1/retrieve", json=asked_body(scopes.SHOP), headers=bearer(token))
        problem = answer.json()["error"]
        assert (answer.status_code, problem["code"], problem["field"]) == (401, "unauthorized", "Authorization")
        assert reason in problem["message"]
        assert token not in answer.text
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_where_no_token_is_asked_for_requests_without_one_are_served(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    async with serving.over(kb, meters, gate=callers.gate()) as (_, http):
        assert (await http.post("/api/v1/retrieve", json=asked_body(scopes.OTHER))).status_code == 200
        other = await http.post("/api/v1/retrieve", json=asked_body(scopes.OTHER), headers=bearer("anything"))
        assert other.status_code == 200


async def test_a_priority_above_its_ceiling_is_lowered() -> None:
    async def show(request: web.Request) -> web.Response:
        return web.json_response(body.urgency(request))

    application = web.Application(middlewares=[access.middleware(callers.gate())])
    application[access.ROUTES] = {("POST", routes.RETRIEVE.path): routes.RETRIEVE}
    application.router.add_post(routes.RETRIEVE.path, show)
    async with test_utils.TestClient(test_utils.TestServer(application)) as http:
        for ceiling in Priority:
            headers = bearer(signed(ceiling=ceiling))
            for named in Priority:
                given = await http.post("/api/v1/retrieve", headers={**headers, priority.HEADER: f"P{int(named)}"})
                assert await given.json() == max(named, ceiling)
            assert await (await http.post("/api/v1/retrieve", headers=headers)).json() is None
        free = await http.post("/api/v1/retrieve", headers={priority.HEADER: "P0"})
        assert await free.json() == Priority.P0


async def test_a_run_that_is_over_reads_nothing_and_where_that_is_not_known_it_waits(
    kb: world.ObservedState, meters: metrics.Metrics
) -> None:
    said: list[Exception] = []

    def lives(claims: runtoken.Claims) -> None:
        if said:
            raise said[0]

    async with serving.over(kb, meters, gate=callers.gate(lives=lives)) as (_, raw):

        async def asked() -> httpx.Response:
            return await raw.post("/api/v1/retrieve", json=asked_of, headers=bearer(signed()))

        asked_of = asked_body(scopes.SHOP)
        assert (await asked()).status_code == 200
        said.append(runtoken.Ended("run 2 of task 0b7f is over"))
        over = await asked()
        assert (over.status_code, over.json()["error"]["code"]) == (401, "unauthorized")
        assert "is over" in over.json()["error"]["message"]
        said[0] = live_runs.Unheard("the operator has not said", retry_after=3)
        unheard = await asked()
        assert (unheard.status_code, unheard.headers["Retry-After"]) == (503, "3")


async def test_the_service_asks_the_operator_it_is_told(tmp_path: Path) -> None:
    """The wiring of a process: with an address it follows the list until it ends."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/signing").write_bytes(b"k" * 48)
    operator = test_liveruns.Operator(live_runs.sign(live_runs.Live(as_of=datetime.now(UTC), runs={"0b7f": 2}), KEYS))
    async with test_liveruns.served(operator) as url:
        config = settings.Settings(run_token_keys=str(tmp_path / "keys"), live_runs_url=url)
        async with contextlib.AsyncExitStack() as stack:
            verifier = processes._verifier(config, stack)
            assert verifier is not None
            now = datetime.now(UTC) - HOUR / 2
            for uid, over in (("0b7f", False), ("other", True)):
                token = signed(now=lambda: now, task_uid=uid)
                await waiting.done(operator.asked_for(1))
                if over:
                    with pytest.raises(runtoken.Ended):
                        verifier.verify(token)
                else:
                    assert verifier.verify(token).task_uid == uid


@pytest.fixture
async def analyzed(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[httpx.AsyncClient]:
    analysts = analyst.Analyst()
    pipeline = kb.pipeline.structures(book.Book(database, clock), analysts, budget.Budget())
    works = structures.Structures(pipeline, lanes.Lanes(meters))
    async with whole.over(kb, meters, clock, gate=callers.gate(now=clock), more=works.routes()) as (_, raw):
        yield raw
    analysts.close()


@pytest.fixture
def token(clock: clocks.Clock) -> str:
    return callers.signed(now=clock, audience=runtoken.ANALYSIS_AUDIENCE, attempt=0, repository="acme/storage")


def structure(name: str = "storage", where: scope.Scope = scopes.SHOP, **more: object) -> dict[str, object]:
    owner, of = where.model_dump(by_alias=True), {"org": "acme", "name": name}
    return {"scope": owner, "repository": of, "branch": "main", "commit": "0123456789abcdef", **more}


@pytest.mark.services
async def test_it_writes_about_its_own_repository_in_its_own_scope(analyzed: httpx.AsyncClient, token: str) -> None:
    # It may: the second one is refused because there is nothing yet that an export could stand beside.
    for path, status in (("git-structure", 200), ("cpg", 409)):

        async def sent(said: dict[str, object], to: str = path) -> httpx.Response:
            return await analyzed.post(f"/api/v1/ingest/{to}", json=said, headers=callers.bearer(token))

        assert (await sent(structure())).status_code == status
        for odd, field in ((structure("other"), "repository"), (structure(where=scopes.TILL), "scope")):
            answer = await sent(odd)
            assert (answer.status_code, answer.json()["error"]["field"]) == (403, field)


@pytest.mark.services
@pytest.mark.parametrize(
    "more",
    [
        {"removed": True, "commit": None},
        {"moved": True},
        {"host": "git.example.com"},
        {"access": {"visibility": "Public"}},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_it_says_nothing_that_the_connection_says(
    analyzed: httpx.AsyncClient, token: str, more: dict[str, Any]
) -> None:
    answer = await analyzed.post("/api/v1/ingest/git-structure", json=structure(**more), headers=callers.bearer(token))
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, next(iter(more)))
    # A request without a token of an analysis may.
    assert (await analyzed.post("/api/v1/ingest/git-structure", json=structure(**more))).status_code == 200
