"""Tokens bound to scopes, a client's rate, and the audit record: who did what, and nothing of what was said."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import test_utils, web
from hypothesis import given
from hypothesis import strategies as st

from contracts import http_routes, mongo_collections
from contracts.tokens import token_file
from crds import scope
from kb import api, client, errors, identity, metrics, mongo, routes
from kb.erasure import closed
from kb.service.access import audit, rates
from kb.service.http import access
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.service import callers, serving, whole
from tests.kb.service.callers import NOW, SHOP, rejected


@pytest.fixture
async def http(
    kb: world.ObservedState, clock: clocks.Clock, meters: metrics.Metrics, tokens: Path
) -> AsyncIterator[httpx.AsyncClient]:
    async with whole.over(kb, meters, clock, gate=callers.gate(tokens)) as (_, raw):
        yield raw


def kb_client(http: httpx.AsyncClient, token: str) -> client.Client:
    return client.Client(str(http.base_url), http, token)


def said(where: scope.Scope) -> api.Knowledge:
    return api.Knowledge(scope=where, subject="s", content="something")


async def test_nobody_comes_in_without_a_token(http: httpx.AsyncClient) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic shop-token"}):
        answer = await http.get("/api/v1/queue?clientId=acme", headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthorized")
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert (await http.get("/healthz")).status_code == 200
    assert (await http.get("/api/v1/openapi.json")).status_code == 200


async def test_a_token_opens_its_scopes_and_no_other(http: httpx.AsyncClient) -> None:
    shop = kb_client(http, "shop-token")
    await shop.learning.store(said(scopes.SHOP))
    elsewhere = (scopes.BLOG, scopes.ACME, scopes.OTHER, scopes.GLOBAL, scopes.RETAIL)
    for where in (*elsewhere, scopes.make("acme", "shop", "else")):
        caught = await rejected(shop.learning.store(said(where)))
        assert (caught.code, caught.status, caught.field) == ("forbidden", 403, "scope")
    assert (await shop.queue.listed(scopes.GLOBAL)).total == 0  # every client reads global data
    with pytest.raises(client.Rejected):
        await shop.queue.listed(scopes.BLOG)


async def test_a_readers_token_writes_nothing(http: httpx.AsyncClient) -> None:
    reader = kb_client(http, "reader-token")
    await reader.queue.listed(scopes.SHOP)
    with pytest.raises(client.Rejected, match="may not write"):
        await reader.learning.store(said(scopes.SHOP))
    with pytest.raises(client.Rejected, match="may not write"):
        await reader.learning.file(scopes.SHOP, b"text")
    with pytest.raises(client.Rejected, match="may not read"):
        await reader.memory.user(scopes.OTHER)
    await kb_client(http, "operator-token").learning.store(said(scopes.OTHER))


async def test_who_sees_a_wider_scope_may_not_change_it(http: httpx.AsyncClient) -> None:
    wide = await kb_client(http, "operator-token").learning.store(said(scopes.ACME))
    global_fact = await kb_client(http, "operator-token").learning.store(said(scopes.GLOBAL))
    shop = kb_client(http, "shop-token")
    mine = await shop.learning.store(said(scopes.SHOP))
    assert {one.id for one in (await shop.queue.listed(scopes.SHOP)).jobs} == {wide.id, global_fact.id, mine.id}
    for job_id in (wide.id, global_fact.id):
        for move in (calls.prioritize(shop, scopes.SHOP, job_id), shop.queue.reorder(scopes.SHOP, job_id, 2)):
            with pytest.raises(client.Rejected, match="may not write"):
                await move
    assert (await calls.prioritize(shop, scopes.SHOP, mine.id)).place == 1
    assert (await calls.prioritize(kb_client(http, "operator-token"), scopes.ACME, wide.id)).place == 1


@pytest.mark.services
async def test_nor_the_memories_of_a_wider_scope(
    kb: world.ObservedState, clock: clocks.Clock, meters: metrics.Metrics, tokens: Path, database: mongo.Database
) -> None:
    async with whole.over(kb, meters, clock, database=database, gate=callers.gate(tokens)) as (_, raw):
        shop, operator = kb_client(raw, "shop-token"), kb_client(raw, "operator-token")
        step = api.Step(agent="a", action="b")
        draft = api.ProcedureDraft(client_id="acme", trigger_pattern="t", procedure_steps=[step])
        way = await operator.memory.save_procedure(draft)
        address = {"clientId": "acme", "projectId": "shop", "id": way.id}
        bearer = callers.bearer("shop-token")
        refused = await raw.delete("/api/v1/memory/procedural", params=address, headers=bearer)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
        assert [one.id for one in await operator.memory.procedures("acme")] == [way.id]
        for uid, owner in (("wide", scopes.ACME), ("own", scopes.SHOP), ("foreign", scopes.BLOG)):
            await database[mongo_collections.MEMORY].insert_one(
                {"_id": uid, "taskUid": uid, "scope": mongo.names(owner)}
            )
        found = api.Findings(scope=scopes.SHOP, structured_data={"a": 1})
        assert (await calls.task_memory(shop, scopes.SHOP, "wide")).structured_data == {}
        with pytest.raises(client.Rejected, match="may not write"):
            await calls.add_findings(shop, "wide", found)
        with pytest.raises(client.Rejected, match="no memory of a task"):
            await calls.add_findings(shop, "foreign", found)
        assert (await calls.add_findings(shop, "own", found)).structured_data == {"a": 1}


def asking(route: http_routes.Route[Any]) -> web.Request:
    """A request that came to the route."""
    return access.inner(test_utils.make_mocked_request(route.method, route.path), route)


def test_only_a_token_that_says_so_erases_and_within_its_bounds() -> None:
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0)
    wide = token_file.Grant.model_validate(
        {"name": "w", "sha256": "0" * 64, "write": True, "scopes": [{"clientId": "*"}]}
    )
    own = {"write": True, "erase": True, "scopes": [{"clientId": "acme", "projectId": "shop"}]}
    shop = wide.model_copy(
        update={
            "erase": True,
            "scopes": token_file.Grant.model_validate({"name": "s", "sha256": "0" * 64, **own}).scopes,
        }
    )
    asked = asking(routes.ERASURES_ASK)
    with pytest.raises(errors.Forbidden, match="may not erase") as caught:
        gate.admit(asked, wide, scopes.SHOP)
    assert "erase: true" in (caught.value.remedy or "")
    gate.admit(asked, shop, scopes.make("acme", "shop"))
    with pytest.raises(errors.Forbidden, match="may not write in this scope"):
        gate.admit(asked, shop, scopes.ACME)
    gate.admit(asking(routes.ERASURES_LIST), wide, scopes.SHOP)


def test_a_scope_that_is_erased_can_be_read_and_asked_about_but_not_written() -> None:
    shut = closed.Closed()
    shut.replace([scopes.ACME])
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0, shut)
    for route in (routes.RULES_LIST, routes.RETRIEVE, routes.ERASURES_ASK):
        gate.admit(asking(route), None, scopes.SHOP)
    with contextlib.ExitStack() as stack:
        writes = asking(routes.RULES_PUT)
        writes[access.ENTERED] = stack
        with pytest.raises(errors.Erasing):
            gate.admit(writes, None, scopes.SHOP)
        gate.admit(writes, None, scopes.OTHER)
        assert not shut.quiet(scopes.OTHER)
    assert shut.quiet(scopes.OTHER)


def test_a_changed_file_holds_and_a_broken_one_does_not(tokens: Path) -> None:
    book = token_file.Book(tokens)
    assert book.find("shop-token") is not None
    tokens.write_text(json.dumps({"tokens": callers.TOKENS[1:]}))
    assert book.find("shop-token") is None
    tokens.write_text("tokens: [")
    assert book.find("reader-token") is not None


def test_a_wrong_file_names_its_field(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text("tokens: [{name: x, sha256: short, scopes: [{clientId: a}]}]")
    with pytest.raises(token_file.Unusable, match="sha256") as caught:
        token_file.read(path)
    assert caught.value.field == "tokensFile.tokens.0.sha256"
    with pytest.raises(token_file.Unusable, match="cannot be read"):
        token_file.read(tmp_path / "absent.yaml")


@pytest.mark.parametrize("right", ["write", "erase"])
def test_a_token_of_a_user_writes_nothing(tmp_path: Path, right: str) -> None:
    one = {"name": "jana", "sha256": "0" * 64, "scopes": [{"clientId": "acme"}], "principals": ["user:jana"]}
    path = tmp_path / "tokens.yaml"
    path.write_text(json.dumps({"tokens": [one]}))
    assert token_file.read(path)[0].principals == ("user:jana",)
    path.write_text(json.dumps({"tokens": [{**one, right: True}]}))
    with pytest.raises(token_file.Unusable) as caught:
        token_file.read(path)
    assert caught.value.field == "tokensFile.tokens.0.principals"
    assert f"take {right} or principals away" in caught.value.message


@given(
    client_id=st.sampled_from(["a", "b"]),
    project=st.sampled_from(["", "p", "q"]),
    group=st.sampled_from(["", "g"]),
    where=scopes.ANY,
)
def test_no_bound_is_left_by_a_claim(client_id: str, project: str, group: str, where: scope.Scope) -> None:
    """What a bound covers names its client, its project where it has one, and no other group than its own."""
    bound = token_file.Bound(client_id=client_id, project_id=project, group_id=group)
    if bound.covers(where):
        assert where.client_id == client_id
        assert not project or where.project_id == project
        assert not (project or group) or where.group_id in ("", group)
        assert not (group and not project) or (where.project_id, where.group_id) == ("", group)


def test_a_clients_rate() -> None:
    held = rates.Rates(2.0, 3)
    for _ in range(3):
        held.take("acme", 10.0)
    with pytest.raises(errors.Crowded, match="acme") as caught:
        held.take("acme", 10.0)
    assert caught.value.retry_after == 1
    held.take("other", 10.0)
    held.take("acme", 10.5)
    with pytest.raises(errors.Crowded):
        held.take("acme", 10.5)
    rates.Rates(0, 1).take("acme", 0.0)


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
async def audited(
    kb: world.ObservedState, meters: metrics.Metrics, tokens: Path, lines: list[str]
) -> AsyncIterator[httpx.AsyncClient]:
    trail = audit.Trail(lines.append, lambda: NOW)
    async with serving.over(kb, meters, gate=callers.gate(tokens), trail=trail) as (_, raw):
        yield raw


def last(lines: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lines[-1])
    return found


async def test_who_wrote_is_what_the_gate_found_out(audited: httpx.AsyncClient, lines: list[str]) -> None:
    document = world.request("A quetzal.", title="Quetzal", urn="note:quetzal")
    headers = callers.bearer("operator-token") | {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    body = document.model_dump(mode="json", by_alias=True)
    answer = await audited.post("/api/v1/ingest/full", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    assert last(lines) == {
        "event": "audit",
        "timestamp": "2026-03-01T00:30:00+00:00",
        "action": "write",
        "route": "POST /api/v1/ingest/full",
        "caller": {"kind": "token", "name": "operator"},
        "scopes": [SHOP],
        "documents": [identity.document(scopes.SHOP, "note:quetzal")],
        "status": 200,
        "trace": TRACE,
    }
    gone = await audited.delete("/api/v1/documents", params={**SHOP, "sourceUrn": "note:quetzal"}, headers=headers)
    assert gone.status_code == 204
    assert (last(lines)["action"], last(lines)["documents"]) == ("erase", json.loads(lines[0])["documents"])
    assert "uetzal" not in "".join(lines)


async def test_a_run_is_named_by_its_task(audited: httpx.AsyncClient, lines: list[str]) -> None:
    asked = {"scope": SHOP, "query": "quetzal?"}
    token = callers.signed(scopes.SHOP)
    assert (await audited.post("/api/v1/retrieve", json=asked, headers=callers.bearer(token))).status_code == 200
    assert (last(lines)["action"], last(lines)["status"], last(lines)["scopes"]) == ("read", 200, [SHOP])
    assert last(lines)["caller"] == {"kind": "run", "name": "run 2 of task 0b7f in team-a"}


async def test_what_is_refused_is_recorded_with_what_it_asked_for(audited: httpx.AsyncClient, lines: list[str]) -> None:
    token = callers.signed(scopes.BLOG)
    for headers, status, name, where in (
        ({}, 401, "", []),
        (callers.bearer("quetzal"), 401, "", []),
        (callers.bearer(token), 403, "run 2 of task 0b7f in team-a", [SHOP]),
    ):
        answer = await audited.get("/api/v1/graph/nodes", params={**SHOP, "q": "quetzal"}, headers=headers)
        assert answer.status_code == status
        assert (last(lines)["status"], last(lines)["caller"]["name"], last(lines)["scopes"]) == (status, name, where)
        assert last(lines)["route"] == "GET /api/v1/graph/nodes"
    assert "quetzal" not in "".join(lines)
    assert token not in "".join(lines)


async def test_what_is_no_use_of_the_api_is_not_recorded(audited: httpx.AsyncClient, lines: list[str]) -> None:
    for path in ("/healthz", "/startedz", "/readyz", "/servez", "/metrics", "/api/v1/openapi.json", "/kb/"):
        await audited.get(path)
    assert lines == []


@pytest.mark.parametrize(
    ("action", "status", "written"),
    [("read", 200, False), ("read", 403, True), ("write", 200, True), ("erase", 204, True)],
)
def test_without_reads_there_is_what_changes_something(action: str, status: int, written: bool) -> None:
    lines: list[str] = []
    trail = audit.Trail(lines.append, lambda: NOW + timedelta(seconds=1), reads=False)
    trail.record(audit.Entry(audit.Action(action), "GET /api/v1/x", status=status))
    assert bool(lines) == written
