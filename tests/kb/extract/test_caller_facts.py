"""Nodes and relationships that the caller gives stand beside what models read, with places, scope, past and erasure."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kb import api, client, identity
from kb.upkeep import check
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.aliases import memory as aliases_memory
from tests.kb.service import serving

URN = "jira::JERV-1"
NODES = [
    {"key": "JERV-1", "type": "jira_issue", "properties": {"status": "Open", "points": 3, "done": False}},
    {"key": "file:src/Login.kt", "type": "file", "properties": {"lines": 120, "labels": ["a", "b"], "load": 0.5}},
]
RELATIONSHIPS = [
    {"source": "JERV-1", "type": "ASSIGNED_TO", "target": "user:petr", "at": "assignee"},
    {"source": "class:Login", "type": "calls", "target": "method:check", "at": "src/Login.kt@4f2c1a:17"},
    {"source": "class:Login", "type": "calls", "target": "method:check", "at": "src/Login.kt@4f2c1a:21"},
    {"source": "JERV-1", "type": "affects", "target": "file:src/Login.kt", "properties": {"weight": 2}},
]


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def ticket(**more: Any) -> api.IngestRequest:
    filled: dict[str, Any] = {"nodes": NODES, "relationships": RELATIONSHIPS, "observed_at": day(2)} | more
    return world.request("The page does not open.", urn=URN, kind="jira", title="Broken page", **filled)


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=aliases_memory.Registry(clock)) as made:
        yield made


@pytest.fixture
async def clients(kb: world.ObservedState) -> AsyncIterator[tuple[client.Client, httpx.AsyncClient]]:
    async with serving.over(kb, kb.meters) as both:
        yield both


async def test_given_facts_are_in_the_graph_with_type_properties_and_places(
    kb: world.ObservedState, clients: tuple[client.Client, httpx.AsyncClient]
) -> None:
    kb_client, _ = clients
    reply = await kb_client.ingest(ticket())
    assert {"jira::JERV-1", "file:src/login.kt", "user:petr", "class:login", "method:check"} <= set(reply.node_keys)
    nodes = {one.key: one for one in (await kb_client.looking.nodes(scopes.SHOP)).nodes}
    assert nodes["jira::JERV-1"].type == "jira_issue"
    assert nodes["jira::JERV-1"].properties.items() >= {"status": "Open", "points": 3, "done": False}.items()
    assert nodes["file:src/login.kt"].properties == {"lines": 120, "labels": ["a", "b"], "load": 0.5}
    [assigned] = (await calls.relationships(kb_client, scopes.SHOP, edge_type="assigned_to", source=URN)).relationships
    assert (assigned.target, assigned.confidence) == ("user:petr", 0.9)
    assert [(one.places, one.sentence) for one in assigned.evidence] == [(["assignee"], "JERV-1 assigned to petr")]
    [called] = (await calls.relationships(kb_client, scopes.SHOP, source="class:login")).relationships
    assert [one.places for one in called.evidence] == [["src/Login.kt@4f2c1a:17", "src/Login.kt@4f2c1a:21"]]
    [affects] = (await calls.relationships(kb_client, scopes.SHOP, edge_type="affects", source=URN)).relationships
    assert affects.properties == {"weight": 2}
    assert affects.evidence[0].places == ["relationships.3"]
    chunk = await calls.chunk(kb_client, scopes.SHOP, reply.chunk_ids[0])
    named = {one.node_key: one.places for one in chunk.said if one.edge is None and one.places}
    assert named == {"jira::JERV-1": ["nodes.0", "part_of"], "file:src/login.kt": ["nodes.1"]}
    assert (await kb_client.looking.nodes(scopes.BLOG, text="petr")).nodes == []
    found = await kb.ask("Who is JERV-1 assigned to?")
    assert (found.items[0].provenance.places, found.items[0].provenance.node_key) == (["assignee"], "jira::JERV-1")
    assert (await check.Checker(kb.graph, kb.vectors, kb.ledger.working).look("acme")).findings == []


async def test_given_facts_need_no_model(kb: world.ObservedState) -> None:
    reply = await kb.intake.take(ticket(), None)
    assert reply.queued
    [proof] = await kb.graph.relationships(scopes.SHOP, source=URN, edge_type="assigned_to")
    assert proof.places == ("assignee",)


async def test_other_given_facts_are_another_version_though_the_text_is_the_same(kb: world.ObservedState) -> None:
    await kb.ingest(ticket())
    changed = [{"source": "JERV-1", "type": "assigned_to", "target": "user:jana", "at": "assignee"}]
    done = [{**NODES[0], "properties": {"status": "Done"}}]
    # The time stands in the heading of chunks; without one the text is the same to the letter.
    await kb.ingest(ticket(nodes=done, relationships=changed, observed_at=day(5)))

    async def known(at: datetime | None) -> tuple[list[str], object]:
        proofs = await kb.graph.relationships(scopes.SHOP, source=URN, edge_type="assigned_to", as_of=at)
        [node] = await kb.graph.nodes(scopes.SHOP, keys=[URN], as_of=at)
        return [one.edge.target for one in proofs if one.edge], node.properties.get("status")

    assert await known(day(3)) == (["user:petr"], "Open")
    assert await known(None) == (["user:jana"], "Done")
    await kb.pipeline.forget(scopes.SHOP, URN)
    assert await kb.graph.nodes(scopes.SHOP, as_of=day(3)) == []


async def test_a_merge_of_names_keeps_what_was_given(kb: world.ObservedState) -> None:
    await kb.ingest(ticket())
    await kb.merger.merge(scopes.SHOP, "user:petr", "user:svoboda", "Jana")
    while await kb.workers.step():
        pass
    [proof] = await kb.graph.relationships(scopes.SHOP, source=URN, edge_type="assigned_to")
    assert (proof.edge.target if proof.edge else "", proof.places) == ("user:svoboda", ("assignee",))
    [node] = await kb.graph.nodes(scopes.SHOP, keys=[URN])
    assert node.properties["status"] == "Open"
    assert len(await kb.graph.versions(scopes.SHOP, identity.document(scopes.SHOP, URN))) == 1


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"nodes": [{"key": "no key", "type": "file"}]}, "nodes.0.key"),
        ({"nodes": [NODES[0], {"key": "file:a", "type": "!!"}]}, "nodes.1.type"),
        ({"relationships": [{"source": "user:a", "type": "knows", "target": "nobody"}]}, "relationships.0.target"),
        ({"relationships": [{"source": "user:a", "type": "knows", "target": "user:A"}]}, "relationships.0.target"),
        ({"nodes": [{"key": "file:a", "type": "file", "properties": {"a b": 1}}]}, "nodes.0.properties"),
        ({"nodes": [{"key": "file:a", "type": "file", "properties": {"a": {"b": 1}}}]}, "nodes.0.properties"),
        ({"nodes": [{"key": "file:a", "kind": "file"}]}, "nodes.0.type"),
    ],
)
async def test_a_fact_that_is_none_is_refused_by_its_place_and_nothing_is_stored(
    kb: world.ObservedState, clients: tuple[client.Client, httpx.AsyncClient], facts: dict[str, Any], field: str
) -> None:
    body = {
        "scope": {"clientId": "acme", "projectId": "shop", "groupId": "retail"},
        "sourceUrn": URN,
        "kind": "jira",
        "content": "The page does not open.",
        **facts,
    }
    for path in ("ingest", "ingest/full"):
        answer = await clients[1].post(f"/api/v1/{path}", json=body)
        assert answer.status_code == 422
        assert answer.json()["error"]["field"].startswith(field)
        assert answer.json()["error"]["remedy"]
    assert await kb.vectors.counts(scopes.SHOP) == (0, 0)


async def test_several_independent_sources_are_surer_than_one(
    kb: world.ObservedState, clients: tuple[client.Client, httpx.AsyncClient]
) -> None:
    kb_client, _ = clients
    line = "user:jana|LEADS|team:core"

    async def confidence() -> float:
        [one] = (await calls.relationships(kb_client, scopes.SHOP, source="user:jana", edge_type="leads")).relationships
        return one.confidence

    await kb.ingest(world.request(f"A mail.\n\n{line}\n", urn="u:1"))
    assert await confidence() == 0.6
    await kb.ingest(world.request(f"A mail that quotes it.\n\n{line}\n", urn="u:2"))
    assert await confidence() == 0.6, "the same words again prove nothing new"
    await kb.ingest(world.request("A page.\n\nuser:jana -[leads]-> team:core\n", urn="u:3"))
    assert await confidence() == 0.84
    given = [{"source": "user:jana", "type": "leads", "target": "team:core", "at": "lead"}]
    await kb.ingest(world.request("The directory.", urn="u:4", relationships=given))
    assert await confidence() == 0.984
    await kb.pipeline.forget(scopes.SHOP, "u:3")
    assert await confidence() == 0.96


@pytest.mark.parametrize("kind", ["ASSIGNED_TO", "REVIEWED_BY"])
async def test_a_fact_that_a_newer_one_retired_comes_behind_it_and_says_so(kb: world.ObservedState, kind: str) -> None:
    """Of an issue's reviewers none retires another: there the better words decide."""
    for urn, name, at in (("u:old", "Jana", day(2)), ("u:new", "Petr", day(5))):
        text = f"jira:JERV-7|{kind}|user:{name}\n" + ("" if urn == "u:old" else "\nWeather report: rain. " * 20)
        await kb.ingest(world.request(text, urn=urn, observed_at=at, title="Note"))
    question = f"JERV-7 {kind} user"
    then = [item.provenance for item in (await kb.ask(question, as_of=day(3))).items]
    assert [(one.source_urn, one.retired_at) for one in then] == [("u:old", None)]
    now = (await kb.ask(question)).items
    shown = [(one.provenance.source_urn, one.provenance.retired_at, one.provenance.superseded_by) for one in now]
    first = [one.provenance.source_urn for one in (await kb.ask(question, max_results=1)).items]
    if kind == "ASSIGNED_TO":
        assert shown == [("u:new", None, None), ("u:old", day(5), "user:petr")]
        assert now[0].confidence >= now[1].confidence
        assert first == ["u:new"]
    else:
        assert shown == [("u:old", None, None), ("u:new", None, None)]
        assert first == ["u:old"]


async def test_every_type_of_a_property_stays_what_it_is(kb: world.ObservedState) -> None:
    said = {
        "summary": "Broken page",
        "description": "",
        "votes": 3,
        "load": 0.5,
        "hasAttachments": True,
        "resolved": False,
        "to": ["a@acme.com", "b@acme.com"],
        "numbers": [1, 2.5],
        "createdAt": "2026-02-27T08:15:30.123+01:00",
    }
    await kb.ingest(ticket(nodes=[{"key": "JERV-1", "type": "jira_issue", "properties": said}], relationships=[]))
    [node] = await kb.graph.nodes(scopes.SHOP, keys=[URN])
    assert {name: node.properties[name] for name in said} == said
    kinds = {name: type(value) for name, value in said.items()}
    assert {name: type(node.properties[name]) for name in said} == kinds, "true is not 1"


async def test_what_a_source_says_wins_over_what_the_text_says(kb: world.ObservedState) -> None:
    text = "JERV-1: Broken page\nStatus: Open\nAssignee: Petr Svoboda\nReporter: Ann Meyer\n\nIt does not open."
    nodes = [{"key": "JERV-1", "type": "jira_issue", "properties": {"status": "In Review"}}]
    stated = [{"source": "JERV-1", "type": "assigned_to", "target": "user:jana@acme.com", "at": "assignee"}]
    await kb.ingest(ticket(nodes=nodes, relationships=stated).model_copy(update={"content": text}))
    [node] = await kb.graph.nodes(scopes.SHOP, keys=[URN])
    assert node.properties["status"] == "In Review"
    proofs = await kb.graph.relationships(scopes.SHOP, source=URN)
    by_field = {(one.edge.type, one.edge.target) for one in proofs if one.edge and one.places}
    assert ("assigned_to", "user:jana@acme.com") in by_field
    assert ("assigned_to", "person:petr svoboda") not in by_field
    assert ("reported_by", "person:ann meyer") in by_field, "of what the source leaves out the text is believed"


async def test_an_account_meets_the_person_of_a_mail_by_the_address_and_not_by_the_name(
    kb: world.ObservedState,
) -> None:
    account = {"key": "user:557058", "type": "user", "properties": {"name": "Jana Novak", "email": "Jana@acme.com"}}
    other = {"key": "user:557059", "type": "user", "properties": {"name": "Jana Novak"}}
    stated = [{"source": "JERV-1", "type": "assigned_to", "target": "user:557058"}]
    await kb.ingest(ticket(nodes=[account, other], relationships=stated))
    mail = "From: Jana Novak <jana@acme.com>\nTo: core@acme.com\n\nThe page is fixed."
    await kb.ingest(world.request(mail, urn="email::m7@acme.com", title="Page"))
    [assigned] = await kb.graph.relationships(scopes.SHOP, source=URN, edge_type="assigned_to")
    [known] = await kb.graph.relationships(scopes.SHOP, edge_type="called")
    assert assigned.edge is not None
    assert known.edge is not None
    assert (known.edge.source, known.edge.target) == (assigned.edge.target, "person:jana novak")
    assert known.edge.source == "user:jana@acme.com"
    assert known.sentence == "From: Jana Novak <jana@acme.com>"
    keys = {one.key for one in await kb.graph.nodes(scopes.SHOP, node_type="user")}
    assert keys == {"user:jana@acme.com", "user:557059", "user:core@acme.com"}


@pytest.mark.parametrize(
    ("value", "why"),
    [({"y": 1}, "'x' holds an object"), (None, "'x' holds null"), ([[1]], "'x' holds a list in a list")],
)
async def test_a_property_that_is_not_flat_is_named(
    clients: tuple[client.Client, httpx.AsyncClient], value: object, why: str
) -> None:
    body = ticket().model_dump(mode="json", by_alias=True)
    body["nodes"][0]["properties"] = {"x": value}
    answer = await clients[1].post("/api/v1/ingest/full", json=body)
    said = answer.json()["error"]
    assert (answer.status_code, said["field"]) == (422, "nodes.0.properties")
    assert why in said["message"]
