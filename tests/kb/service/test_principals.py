"""Questions on behalf of a user: what a source shows to some alone is shown to no others."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from crds import access as accesses
from crds import scope
from kb import api, metrics
from tests.kb import scopes, world
from tests.kb.service import callers, serving
from tests.kb.service.callers import SHOP

JANA, DEV = ("user:jana@acme.cz", "group:staff"), ("user:petr@acme.cz", "group:dev")


def text(name: str) -> str:
    return f"The {name} plan of the login service.\n\nservice:login|HAS_PLAN|plan:{name}\n"


def restricted(*principals: str) -> accesses.Access:
    return accesses.restricted(principals)


@pytest.fixture
async def kb(open_world: world.Opening) -> AsyncIterator[world.ObservedState]:
    async with open_world() as opened:
        for name, given in (
            ("open", accesses.PUBLIC),
            ("jana", restricted(JANA[0])),
            ("dev", restricted("group:dev")),
            ("silent", None),
            ("closed", restricted()),
        ):
            await put(opened, name, given)
        yield opened


async def put(kb: world.ObservedState, name: str, given: accesses.Access | None, more: str = "") -> None:
    request = world.request(text(name) + more, urn=f"wiki::{name}", kind="wiki", title=f"Plan {name}")
    await kb.ingest(request.model_copy(update={"access": given}))


@pytest.fixture
async def http(kb: world.ObservedState, meters: metrics.Metrics, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    told = {"name": "jana", "sha256": callers.digest("jana-token"), "scopes": [{"clientId": "acme"}]}
    gate = callers.gate(callers.write(tmp_path, told | {"principals": JANA}))
    async with serving.over(kb, meters, gate=gate) as (_, raw):
        yield raw


def run_token(*principals: str) -> str:
    return callers.signed(principals=principals)


def headers(token: str, *named: str) -> dict[str, str]:
    more = {accesses.HEADER: ", ".join(named)} if named else {}
    return callers.bearer(token) | more


async def plans(http: httpx.AsyncClient, sent: dict[str, str]) -> set[str]:
    """The plans that each way of asking shows; all ways must show the same."""
    ways: list[set[str]] = []

    async def ask(path: str, **asked: Any) -> str:
        response = await http.post(f"/api/v1/{path}", json={"scope": SHOP, **asked}, headers=sent)
        assert response.status_code == 200, response.text
        return response.text

    async def look(path: str, **asked: str) -> str:
        response = await http.get(f"/api/v1/{path}", params={**SHOP, **asked}, headers=sent)
        assert response.status_code == 200, response.text
        return response.text

    for found in (
        await ask("retrieve", query="the plan of the login service", maxResults=20),
        await ask("search/hybrid", query="plan login service", limit=20),
        await ask("chunks/by-kind", kinds=["wiki"], limit=20),
        await ask("graph/traverse", start=["service:login"], hops=1),
        await look("graph/nodes", type="plan"),
    ):
        ways.append({name for name in ("open", "jana", "dev", "silent", "closed") if f"plan:{name}" in found})
        assert accesses.METADATA not in found
    assert all(way == ways[0] for way in ways), ways
    return ways[0]


async def test_every_way_of_asking_shows_the_same(http: httpx.AsyncClient) -> None:
    everything = {"open", "jana", "dev", "silent", "closed"}
    assert await plans(http, headers("reader-token")) == everything
    assert await plans(http, headers("reader-token", *JANA)) == {"open", "jana"}
    assert await plans(http, headers("reader-token", *DEV)) == {"open", "dev"}
    assert await plans(http, headers("reader-token", "user:nobody")) == {"open"}
    assert await plans(http, headers("jana-token")) == {"open", "jana"}
    assert await plans(http, headers(run_token())) == everything
    assert await plans(http, headers(run_token(*DEV))) == {"open", "dev"}


async def test_a_question_names_no_others_than_its_token(http: httpx.AsyncClient) -> None:
    assert await plans(http, headers("jana-token", "group:staff")) == {"open"}
    for token in ("jana-token", run_token(*JANA)):
        asked = {"scope": SHOP, "query": "plan"}
        response = await http.post("/api/v1/retrieve", json=asked, headers=headers(token, *DEV))
        assert (response.status_code, response.json()["error"]["field"]) == (403, accesses.HEADER)


@pytest.mark.parametrize(
    "named",
    ["", ",", "jana", "user:", "user:Jana", "user:a b", ",".join(["user:a"] * 1 + [f"user:{n}" for n in range(32)])],
)
async def test_what_names_no_principals_is_refused(http: httpx.AsyncClient, named: str) -> None:
    sent = {**headers("reader-token"), accesses.HEADER: named}
    response = await http.post("/api/v1/retrieve", json={"scope": SHOP, "query": "plan"}, headers=sent)
    assert (response.status_code, response.json()["error"]["field"]) == (422, accesses.HEADER)


async def test_what_cannot_be_answered_on_behalf_of_somebody_is_not(http: httpx.AsyncClient) -> None:
    for path in ("content/k", "queue"):
        response = await http.get(f"/api/v1/{path}", params=SHOP, headers=headers("jana-token"))
        assert response.status_code == 403, path


async def test_a_right_that_is_revoked_or_given_counts_at_once(
    kb: world.ObservedState, http: httpx.AsyncClient
) -> None:
    await put(kb, "jana", restricted("group:dev"))
    assert await plans(http, headers("reader-token", *JANA)) == {"open"}
    assert await plans(http, headers("reader-token", *DEV)) == {"open", "dev", "jana"}
    await put(kb, "jana", None, "A sentence more.\n")
    assert await plans(http, headers("reader-token", *JANA)) == {"open"}
    assert await plans(http, headers("reader-token", *DEV)) == {"open", "dev", "jana"}
    await put(kb, "jana", accesses.UNKNOWN)
    assert await plans(http, headers("reader-token", *DEV)) == {"open", "dev"}
    await put(kb, "jana", accesses.PUBLIC)
    assert await plans(http, headers("reader-token", *JANA)) == {"open", "jana"}


async def test_an_attachment_is_shown_to_those_who_see_its_document(
    kb: world.ObservedState, http: httpx.AsyncClient
) -> None:
    async def attach(given: accesses.Access | None = None) -> None:
        urn = api.attachment_urn("wiki::dev", "notes.txt")
        request = world.request("The minutes of the login service.", urn=urn, kind=api.ATTACHMENT, title="notes.txt")
        await kb.ingest(request.model_copy(update={"access": given}))

    async def found(*principals: str) -> bool:
        asked = {"scope": SHOP, "query": "minutes login service"}
        response = await http.post("/api/v1/search/hybrid", json=asked, headers=headers("reader-token", *principals))
        return "The minutes" in response.text

    await attach(accesses.PUBLIC)
    assert (await found(*DEV), await found(*JANA), await found()) == (True, False, True)
    await put(kb, "dev", restricted(JANA[0]))
    await attach()
    assert (await found(*DEV), await found(*JANA), await found()) == (False, True, True)


async def test_the_name_is_the_knowledge_base_s_own(http: httpx.AsyncClient) -> None:
    asked = {"scope": SHOP, "sourceUrn": "wiki::x", "kind": "wiki", "content": "x"}
    asked |= {"metadata": {accesses.METADATA: "public"}}
    response = await http.post("/api/v1/ingest/full", json=asked, headers=headers("operator-token"))
    assert response.status_code == 422
    assert accesses.METADATA in response.json()["error"]["message"]


def test_principals_are_written_in_one_way() -> None:
    assert accesses.principal("user", " Jana@Acme.cz ") == "user:jana@acme.cz"
    assert accesses.principal("group", "Účetní, Brno") == "group:%C3%BA%C4%8Detn%C3%AD%2C%20brno"
    assert accesses.restricted([accesses.principal("user", "x" * 500)]).principals[0].startswith("user:")
    assert accesses.restricted([f"user:{n}" for n in range(101)]) == accesses.UNKNOWN


def test_a_token_of_somebody_is_not_taken_for_one_of_all() -> None:
    """A service that knows no principals refuses the type."""
    assert json.loads(_head(run_token(*JANA)))["typ"] != json.loads(_head(run_token()))["typ"]


def _head(token: str) -> bytes:
    first = token.partition(".")[0]
    return base64.urlsafe_b64decode(first + "=" * (-len(first) % 4))


def test_a_scope_with_principals_is_no_scope_without() -> None:
    viewer = scope.Viewer(**scopes.SHOP.model_dump(), principals=JANA)
    assert viewer != scopes.SHOP
