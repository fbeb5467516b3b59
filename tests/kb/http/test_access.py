"""Tokens bound to scopes, and a client's rate."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import test_utils
from hypothesis import given
from hypothesis import strategies as st

from crds import grants, leftovers, scope
from kb import api, client, errors, metrics, mongo
from kb.access import rates
from kb.erasure import closed
from kb.http import access
from tests.kb import clock as clocks
from tests.kb import scopes, world
from tests.kb.http import callers, whole
from tests.kb.http.callers import rejected


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
        for move in (shop.queue.prioritize(scopes.SHOP, job_id), shop.queue.reorder(scopes.SHOP, job_id, 2)):
            with pytest.raises(client.Rejected, match="may not write"):
                await move
    assert (await shop.queue.prioritize(scopes.SHOP, mine.id)).place == 1
    assert (await kb_client(http, "operator-token").queue.prioritize(scopes.ACME, wide.id)).place == 1


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
            await database[leftovers.MEMORY].insert_one({"_id": uid, "taskUid": uid, "scope": mongo.names(owner)})
        found = api.Findings(scope=scopes.SHOP, structured_data={"a": 1})
        assert (await shop.memory.task(scopes.SHOP, "wide")).structured_data == {}
        with pytest.raises(client.Rejected, match="may not write"):
            await shop.memory.add_findings("wide", found)
        with pytest.raises(client.Rejected, match="no memory of a task"):
            await shop.memory.add_findings("foreign", found)
        assert (await shop.memory.add_findings("own", found)).structured_data == {"a": 1}


def test_only_a_token_that_says_so_erases_and_within_its_bounds() -> None:
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0)
    wide = grants.Grant.model_validate({"name": "w", "sha256": "0" * 64, "write": True, "scopes": [{"clientId": "*"}]})
    own = {"write": True, "erase": True, "scopes": [{"clientId": "acme", "projectId": "shop"}]}
    shop = wide.model_copy(
        update={"erase": True, "scopes": grants.Grant.model_validate({"name": "s", "sha256": "0" * 64, **own}).scopes}
    )
    asked = test_utils.make_mocked_request("POST", access.ERASURES)
    with pytest.raises(errors.Forbidden, match="may not erase") as caught:
        gate.admit(asked, wide, scopes.SHOP)
    assert "erase: true" in (caught.value.remedy or "")
    gate.admit(asked, shop, scopes.make("acme", "shop"))
    with pytest.raises(errors.Forbidden, match="may not write in this scope"):
        gate.admit(asked, shop, scopes.ACME)
    gate.admit(test_utils.make_mocked_request("GET", access.ERASURES), wide, scopes.SHOP)


def test_a_scope_that_is_erased_can_be_read_and_asked_about_but_not_written() -> None:
    shut = closed.Closed()
    shut.replace([scopes.ACME])
    gate = access.Gate(None, rates.Rates(0, 1), lambda: 0.0, shut)
    for method, path in (("GET", "/api/v1/rules"), ("POST", "/api/v1/retrieve"), ("POST", access.ERASURES)):
        gate.admit(test_utils.make_mocked_request(method, path), None, scopes.SHOP)
    with contextlib.ExitStack() as stack:
        writes = test_utils.make_mocked_request("PUT", "/api/v1/rules")
        writes[access.ENTERED] = stack
        with pytest.raises(errors.Erasing):
            gate.admit(writes, None, scopes.SHOP)
        gate.admit(writes, None, scopes.OTHER)
        assert not shut.quiet(scopes.OTHER)
    assert shut.quiet(scopes.OTHER)


def test_a_changed_file_holds_and_a_broken_one_does_not(tokens: Path) -> None:
    book = grants.Book(tokens)
    assert book.find("shop-token") is not None
    tokens.write_text(json.dumps({"tokens": callers.TOKENS[1:]}))
    assert book.find("shop-token") is None
    tokens.write_text("tokens: [")
    assert book.find("reader-token") is not None


def test_a_wrong_file_names_its_field(tmp_path: Path) -> None:
    path = tmp_path / "tokens.yaml"
    path.write_text("tokens: [{name: x, sha256: short, scopes: [{clientId: a}]}]")
    with pytest.raises(grants.Unusable, match="sha256") as caught:
        grants.read(path)
    assert caught.value.field == "tokensFile.tokens.0.sha256"
    with pytest.raises(grants.Unusable, match="cannot be read"):
        grants.read(tmp_path / "absent.yaml")


@pytest.mark.parametrize("right", ["write", "erase"])
def test_a_token_of_a_user_writes_nothing(tmp_path: Path, right: str) -> None:
    one = {"name": "jana", "sha256": "0" * 64, "scopes": [{"clientId": "acme"}], "principals": ["user:jana"]}
    path = tmp_path / "tokens.yaml"
    path.write_text(json.dumps({"tokens": [one]}))
    assert grants.read(path)[0].principals == ("user:jana",)
    path.write_text(json.dumps({"tokens": [{**one, right: True}]}))
    with pytest.raises(grants.Unusable) as caught:
        grants.read(path)
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
    bound = grants.Bound(client_id=client_id, project_id=project, group_id=group)
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
