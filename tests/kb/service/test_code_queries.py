"""Ad-hoc queries: asked, claimed in turns of clients, answered once, by the token of their own Job alone."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

import httpx
import pytest

from codegraph import api as code_api
from codegraph.api import QueryState
from contracts.tokens import runtoken
from crds import scope
from kb import api, client, errors, metrics, mongo
from kb.code import joern_queries
from kb.service.http import analyze, app, content, health
from tests import httpserver
from tests.kb import clock as clocks
from tests.kb import memory
from tests.kb.service import callers
from tests.kb.service.callers import refused, rejected

pytestmark = pytest.mark.services
SHOP = scope.Scope(client_id="acme", project_id="shop")
OTHER = scope.Scope(client_id="other")


@pytest.fixture
def rows(database: mongo.Database, clock: clocks.Clock) -> joern_queries.Queries:
    numbers = itertools.count()
    return joern_queries.Queries(database, clock, lambda: f"query{next(numbers)}")


@asynccontextmanager
async def served(
    routes: analyze.Analyze, clock: Callable[[], datetime], meters: metrics.Metrics
) -> AsyncIterator[httpx.AsyncClient]:
    """The routes of queries alone, on a socket."""
    stored = content.Content(memory.Content(), limit=1000)
    faces = app.Faces(None, None, stored, health.Health({}, meters), routes.routes())
    made = app.build(faces, meters, max_body=4 << 20, version=api.VERSION, gate=callers.gate(now=clock))
    async with (
        httpserver.serving(made, shutdown_seconds=60, handler_cancellation=True) as base,
        httpx.AsyncClient(base_url=base, trust_env=False, timeout=60) as raw,
    ):
        yield raw


@pytest.fixture(params=[True])
async def http(
    request: pytest.FixtureRequest, rows: joern_queries.Queries, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[httpx.AsyncClient]:
    async with served(analyze.Analyze(rows, allowed=request.param), clock, meters) as raw:
        yield raw


def asked(where: scope.Scope = SHOP, query: str = "cpg.method.name.l") -> code_api.CodeQuery:
    return code_api.CodeQuery(scope=where, namespace="team-a", connection="code", query=query)


def token(clock: clocks.Clock, id_: str, where: scope.Scope = SHOP) -> str:
    about: dict[str, Any] = {"task_uid": id_, "attempt": 0, "repository": "acme/shop"}
    return callers.signed(where, now=clock, audience=runtoken.ANALYSIS_AUDIENCE, **about)


async def test_a_query_is_claimed_once_and_has_one_result(http: httpx.AsyncClient, clock: clocks.Clock) -> None:
    kb = client.Client(str(http.base_url), http)
    first = await kb.analyze.ask(asked())
    assert first.state is QueryState.WAITING
    assert await kb.analyze.claim(0) == []
    [work] = await kb.analyze.claim(1)
    assert (work.id, work.query, work.scope, work.job_uid) == (first.id, "cpg.method.name.l", SHOP, "")
    # After a kill of the operator the same one is given, with what is known of its Job.
    await kb.analyze.made(first.id, "uid-1")
    assert [(one.id, one.job_uid) for one in await kb.analyze.claim(1)] == [(first.id, "uid-1")]
    own = client.Client(str(http.base_url), http, token(clock, first.id))
    ended = await own.analyze.end(first.id, code_api.QueryResult(commit="abc", result="List(f)"))
    assert (ended.state, ended.result, ended.commit) == (QueryState.SUCCEEDED, "List(f)", "abc")
    late = code_api.QueryFailure(reason="JobLost", message="late")
    assert (await kb.analyze.end(first.id, code_api.QueryResult(failure=late))).state is QueryState.SUCCEEDED
    assert (await kb.analyze.show(SHOP, first.id)).result == "List(f)"
    assert await kb.analyze.claim(5) == []
    assert (await rejected(kb.analyze.show(OTHER, first.id))).code == "not_found"
    clock.advance(days=1)
    with pytest.raises(client.Rejected):
        await kb.analyze.show(SHOP, first.id)


async def test_the_token_of_a_job_opens_its_own_result_and_nothing_else(
    http: httpx.AsyncClient, clock: clocks.Clock
) -> None:
    kb = client.Client(str(http.base_url), http)
    mine, foreign = await kb.analyze.ask(asked()), await kb.analyze.ask(asked())
    await kb.analyze.claim(2)
    own = client.Client(str(http.base_url), http, token(clock, mine.id))
    result = code_api.QueryResult(result="x")
    for call in (
        lambda: own.analyze.end(foreign.id, result),
        lambda: own.analyze.show(SHOP, mine.id),
        lambda: own.analyze.claim(9),
        lambda: own.analyze.ask(asked()),
        lambda: own.analyze.made(mine.id, "uid"),
    ):
        with pytest.raises(client.Rejected):
            await call()
    elsewhere = client.Client(str(http.base_url), http, token(clock, mine.id, OTHER))
    with pytest.raises(client.Rejected):
        await elsewhere.analyze.end(mine.id, result)
    assert (await kb.analyze.show(SHOP, mine.id)).state is QueryState.RUNNING


async def test_clients_take_turns_and_have_bounds(rows: joern_queries.Queries, clock: clocks.Clock) -> None:
    for where in (SHOP, SHOP, OTHER, SHOP):
        await rows.add(asked(where))
        clock.advance(seconds=1)
    assert [one.scope for one in await rows.claim(2)] == [SHOP, OTHER]
    assert {one.id for one in await rows.claim(3)} == {"query0", "query1", "query2"}
    for _ in range(joern_queries.MOST_WAITING - 3):
        await rows.add(asked())
    with pytest.raises(errors.Crowded):
        await rows.add(asked())
    await rows.add(asked(OTHER))


async def test_clients_take_turns_where_one_query_runs_at_a_time(
    rows: joern_queries.Queries, clock: clocks.Clock
) -> None:
    for where in (SHOP, SHOP, SHOP, OTHER, OTHER):
        await rows.add(asked(where))
        clock.advance(seconds=1)
    begun = []
    for _ in range(5):
        [one] = await rows.claim(1)
        begun.append(one.id)
        await rows.end(one.id, code_api.QueryResult(result="x"))
        clock.advance(seconds=1)
    assert begun == ["query0", "query3", "query1", "query4", "query2"]


async def test_one_that_has_waited_for_long_lasts_as_long_as_its_job(
    rows: joern_queries.Queries, clock: clocks.Clock
) -> None:
    asks = await rows.add(asked())
    clock.advance(hours=23, minutes=59)
    [work] = await rows.claim(1)
    clock.advance(hours=23, minutes=59)
    assert [one.id for one in await rows.claim(0)] == [work.id]
    ended = await rows.end(work.id, code_api.QueryResult(result="x"))
    clock.advance(hours=23, minutes=59)
    assert (await rows.find(asks.id))[1].result == "x"
    clock.advance(minutes=2)
    with pytest.raises(errors.NotFound):
        await rows.find(asks.id)
    assert ended.expires_at > asks.expires_at


@pytest.mark.parametrize("http", [False], indirect=True)
async def test_a_query_is_a_program_and_none_runs_where_it_is_not_allowed(http: httpx.AsyncClient) -> None:
    kb = client.Client(str(http.base_url), http)
    assert "joern.adHocQueries" in str((await rejected(kb.analyze.ask(asked()))).remedy)
    body = {**asked().model_dump(by_alias=True), "query": "x" * (8 << 10) + "y"}
    assert refused(await http.post("/api/v1/analyze/code", json=body)) == (422, "query")
