"""`jervis-kb code query` against the routes on a socket, with the operator's part played by the test."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pytest

from kb import api, client, metrics, mongo
from kb.analyze import queries
from kb.http import analyze
from tests import waiting
from tests.cli.knowledge.conftest import Run
from tests.cli.knowledge.test_code import WHERE
from tests.kb import clock as clocks
from tests.kb.http.test_code_queries import served

pytestmark = pytest.mark.services
ASK = ("code", "query", "cpg.method.name.l", "--connection", "code", "-n", "team-a")


@pytest.fixture
async def kb(
    database: mongo.Database, clock: clocks.Clock, meters: metrics.Metrics
) -> AsyncIterator[tuple[str, client.Client]]:
    numbers = itertools.count()
    rows = queries.Queries(database, clock, lambda: f"query{next(numbers)}")
    async with served(analyze.Analyze(rows, allowed=True), clock, meters) as http:
        yield str(http.base_url), client.Client(str(http.base_url), http)


async def test_it_waits_for_the_result(kb: tuple[str, client.Client], run: Run) -> None:
    url, operator = kb
    where = (*WHERE, "--url", url)
    asks = asyncio.ensure_future(run(*ASK, *where))
    works = await waiting.eventually(lambda: operator.analyze.claim(1), "the program asks")
    await operator.analyze.end(works[0].id, api.QueryResult(commit="abc", result='List("f")\x1b[2J'))
    done = (await asks).succeeded()
    assert done.out == 'List("f")\N{REPLACEMENT CHARACTER}[2J\n'
    assert done.err.startswith("query query0\n")
    assert (await run(*ASK, *where, "--no-wait")).succeeded().out == "query1\n"
    await operator.analyze.claim(1)
    failure = api.QueryFailure(reason="InvalidQuery", message="';' expected.")
    await operator.analyze.end("query1", api.QueryResult(failure=failure))
    (await run("code", "result", "query1", *where)).refused("InvalidQuery", "';' expected.")
