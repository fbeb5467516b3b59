"""What the token of a Job that analyzes code opens: writing about its own repository, in its own scope."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from crds import runtoken, scope
from kb import metrics, mongo
from kb.code import analyst, book, budget
from kb.http import structures
from kb.ingest import lanes
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.http import callers, whole
from tests.kb.ingest import trees

pytestmark = pytest.mark.services
kb = trees.kb


@pytest.fixture
async def http(
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


def body(name: str = "storage", where: scope.Scope = scopes.SHOP, **more: object) -> dict[str, object]:
    owner, of = where.model_dump(by_alias=True), {"org": "acme", "name": name}
    return {"scope": owner, "repository": of, "branch": "main", "commit": "0123456789abcdef", **more}


async def test_it_writes_about_its_own_repository_in_its_own_scope(http: httpx.AsyncClient, token: str) -> None:
    # It may: the second one is refused because there is nothing yet that an export could stand beside.
    for path, status in (("git-structure", 200), ("cpg", 409)):

        async def sent(said: dict[str, object], to: str = path) -> httpx.Response:
            return await http.post(f"/api/v1/ingest/{to}", json=said, headers=callers.bearer(token))

        assert (await sent(body())).status_code == status
        for odd, field in ((body("other"), "repository"), (body(where=scopes.TILL), "scope")):
            answer = await sent(odd)
            assert (answer.status_code, answer.json()["error"]["field"]) == (403, field)


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
    http: httpx.AsyncClient, token: str, more: dict[str, Any]
) -> None:
    answer = await http.post("/api/v1/ingest/git-structure", json=body(**more), headers=callers.bearer(token))
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, next(iter(more)))
    # A request without a token of an analysis may.
    assert (await http.post("/api/v1/ingest/git-structure", json=body(**more))).status_code == 200
