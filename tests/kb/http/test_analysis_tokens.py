"""What the token of a Job that analyzes code opens: writing about its own repository, in its own scope."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import httpx
import pytest

from crds import runtoken, scope
from crds.pendingtask import Mode
from crds.priority import Priority
from kb import metrics, mongo
from kb.access import rates
from kb.code import analyst, book, budget
from kb.http import access, structures
from kb.ingest import lanes
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.http import whole
from tests.kb.ingest import trees

pytestmark = pytest.mark.services
KEYS = runtoken.ring([b"k" * 48])
kb = trees.kb


@pytest.fixture
async def http(
    kb: world.ObservedState, meters: metrics.Metrics, clock: clocks.Clock, database: mongo.Database
) -> AsyncIterator[httpx.AsyncClient]:
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0, None, runtoken.Verifier(lambda: KEYS, clock, "jervis-kb"))
    analysts = analyst.Analyst()
    pipeline = kb.pipeline.structures(book.Book(database, clock), analysts, budget.Budget())
    works = structures.Structures(pipeline, lanes.Lanes(meters))
    async with whole.over(kb, meters, clock, gate=gate, more=works.routes()) as (_, raw):
        yield raw
    analysts.close()


@pytest.fixture
def token(clock: clocks.Clock) -> str:
    run = runtoken.Run(
        task_uid="0b7f", namespace="team-a", attempt=0, scope=scopes.SHOP, mode=Mode.BACKGROUND, ceiling=Priority.P3,
        repository="acme/storage",
    )  # fmt: skip
    return runtoken.Signer(lambda: KEYS, clock).sign(run, timedelta(hours=1), runtoken.ANALYSIS_AUDIENCE)


def body(name: str = "storage", where: scope.Scope = scopes.SHOP, **more: object) -> dict[str, object]:
    owner, of = where.model_dump(by_alias=True), {"org": "acme", "name": name}
    return {"scope": owner, "repository": of, "branch": "main", "commit": "0123456789abcdef", **more}


async def test_it_writes_about_its_own_repository_in_its_own_scope(http: httpx.AsyncClient, token: str) -> None:
    # It may: the second one is refused because there is nothing yet that an export could stand beside.
    for path, status in (("git-structure", 200), ("cpg", 409)):

        async def sent(said: dict[str, object], to: str = path) -> httpx.Response:
            return await http.post(f"/api/v1/ingest/{to}", json=said, headers={"Authorization": f"Bearer {token}"})

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
    headers = {"Authorization": f"Bearer {token}"}
    answer = await http.post("/api/v1/ingest/git-structure", json=body(**more), headers=headers)
    assert (answer.status_code, answer.json()["error"]["field"]) == (403, next(iter(more)))
    # A request without a token of an analysis may.
    assert (await http.post("/api/v1/ingest/git-structure", json=body(**more))).status_code == 200
