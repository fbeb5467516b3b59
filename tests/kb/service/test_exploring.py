"""The read endpoints over HTTP: shapes, narrowing, bounds, errors, and that they stay within the scope."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from kb import api, client, metrics, selection
from kb.ingest import changes
from kb.retrieve import rank
from tests.kb import calls, scopes, world
from tests.kb import clock as clocks
from tests.kb.aliases import memory as names
from tests.kb.graph import contract
from tests.kb.service import serving
from tests.kb.service.callers import SHOP, refused

BLOG = {"clientId": "acme", "projectId": "blog"}
FEBRUARY, MARCH = datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)

# What a confidence of 1 adds up to (`kb.retrieve.rank`).
WHOLE = 1.0 + rank.Weights().own + rank.Weights().named + rank.Weights().hop


@pytest.fixture
async def kb(open_world: world.Opening, clock: clocks.Clock) -> AsyncIterator[world.ObservedState]:
    async with open_world(aliases=names.Registry(clock)) as opened:
        for number, (name, observed) in enumerate([("Jana", FEBRUARY), ("Petr", MARCH)]):
            text = f"The login bug is open.\n\njira:JERV-1|ASSIGNED_TO|user:{name}\n"
            urn = f"email::<m{number}@acme.com>"
            await opened.ingest(world.request(text, urn=urn, observed_at=observed, title="Login"))
        await opened.ingest(world.request("JERV-1 is secret.", urn="u:blog", owner=scopes.BLOG, kind="wiki"))
        yield opened


@pytest.fixture
async def served(kb: world.ObservedState, meters: metrics.Metrics) -> AsyncIterator[Any]:
    async with serving.over(kb, meters) as pair:
        yield pair


async def ask(http: httpx.AsyncClient, path: str, **body: Any) -> Any:
    response = await http.post(f"/api/v1/{path}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def look(http: httpx.AsyncClient, path: str, **query: str) -> Any:
    response = await http.get(f"/api/v1/{path}", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_hybrid_search_says_what_its_scores_are_made_of(http: httpx.AsyncClient) -> None:
    found = await ask(http, "search/hybrid", scope=SHOP, query="login bug", limit=5, alpha=0.5)
    assert [hit["chunk"]["title"] for hit in found["hits"]] == ["Login", "Login"]
    assert all(0 <= hit["score"] <= 1 and hit["cosine"] is not None for hit in found["hits"])
    [first, *_] = (await ask(http, "search/hybrid", scope=SHOP, query="login", sources=["email::<m1*"]))["hits"]
    assert first["chunk"]["sourceUrn"] == "email::<m1@acme.com>"


async def test_chunks_of_a_kind_come_newest_first(http: httpx.AsyncClient) -> None:
    found = await ask(http, "chunks/by-kind", scope=SHOP, kinds=["email"])
    assert [chunk["observedAt"][:10] for chunk in found["chunks"]] == ["2026-03-01", "2026-02-01"]
    assert found["truncated"] is False
    first = await ask(http, "chunks/by-kind", scope=SHOP, kinds=["email"], limit=1)
    assert (len(first["chunks"]), first["truncated"]) == (1, True)
    then = await ask(http, "chunks/by-kind", scope=SHOP, kinds=["email", "wiki"], asOf="2026-02-10T00:00:00Z")
    assert len(then["chunks"]) == 1


async def test_a_chunk_shows_what_it_says_to_those_who_may_see_it(http: httpx.AsyncClient) -> None:
    [chunk, _] = (await ask(http, "chunks/by-kind", scope=SHOP, kinds=["email"]))["chunks"]
    found = await look(http, f"chunks/{chunk['chunkId']}", **SHOP)
    assert found["chunk"] == chunk
    edges = [said["edge"] for said in found["said"]]
    assert {"source": "jira::JERV-1", "type": "assigned_to", "target": "user:petr"} in edges
    for query, key in ((BLOG, chunk["chunkId"]), (SHOP, "nothing"), (SHOP, "0" * 36)):
        assert refused(await http.get(f"/api/v1/chunks/{key}", params=query)) == (404, "chunkId")


async def test_nodes_are_listed_within_the_scope(http: httpx.AsyncClient) -> None:
    found = await look(http, "graph/nodes", q="jerv", **SHOP)
    [node] = found["nodes"]
    assert (node["key"], node["type"], len(node["ragChunks"])) == ("jira::JERV-1", "jira_issue", 2)
    theirs = await look(http, "graph/nodes", key="jira::JERV-1", **BLOG)
    assert len(theirs["nodes"][0]["ragChunks"]) == 1
    assert (await look(http, "graph/nodes", type="nothing", **SHOP))["nodes"] == []
    assert (await look(http, "graph/nodes", limit="1", **SHOP))["truncated"] is True


async def test_nodes_are_found_by_the_properties_that_they_were_given(
    http: httpx.AsyncClient, kb: world.ObservedState
) -> None:
    for number, status in enumerate(("Open", "Done", "Open")):
        given = {"properties": {"status": status, "points": number}}
        node: dict[str, Any] = {"key": f"jira::JERV-1{number}", "type": "jira_issue", **given}
        await kb.ingest(world.request(f"Ticket {number}.", urn=f"jira:JERV-1{number}", nodes=[node]))
    found = await look(http, "graph/nodes", property="status=Open", **SHOP)
    assert [node["key"] for node in found["nodes"]] == ["jira::JERV-10", "jira::JERV-12"]
    assert found["nodes"][0]["properties"].items() >= {"points": 0, "status": "Open"}.items()
    several = f"/api/v1/graph/nodes?{urlencode(SHOP)}&property=status=Open&property=status=Done&property=points=1"
    assert [node["key"] for node in (await http.get(several)).json()["nodes"]] == ["jira::JERV-11"]
    assert (await look(http, "graph/nodes", property="status=Open", limit="1", **SHOP))["truncated"] is True
    assert (await look(http, "graph/nodes", property="status=Open", **BLOG))["nodes"] == []
    for wrong in ("status", "=Open", "status=" + "x" * 300):
        response = await http.get("/api/v1/graph/nodes", params={"clientId": "acme", "property": wrong})
        assert refused(response) == (422, "property")


async def test_a_walk_says_how_sure_its_relationships_are(http: httpx.AsyncClient, kb: world.ObservedState) -> None:
    given = [{"source": "jira::JERV-1", "type": "blocks", "target": "jira::JERV-2", "at": "issuelinks"}]
    await kb.ingest(world.request("JERV-1 blocks JERV-2.", urn="jira:JERV-1", relationships=given))
    walk = await ask(http, "graph/traverse", scope=SHOP, start=["jira::JERV-1"], hops=2)
    for edge in walk["edges"]:
        ends = {name: edge[name] for name in ("source", "type", "target")}
        [proven] = (await look(http, "graph/relationship", **ends, **SHOP))["relationships"]
        assert edge["confidence"] == proven["confidence"] > 0
        assert edge["retiredAt"] == proven["retiredAt"]
    sure = {(edge["type"], edge["target"]): edge["confidence"] for edge in walk["edges"]}
    assert sure["blocks", "jira::JERV-2"] == 0.9
    assert sure["assigned_to", "user:petr"] == 0.6


async def test_keys_are_read_as_they_are_written(http: httpx.AsyncClient) -> None:
    """Whatever the spelling: ingest made one node of it, and reading finds that node."""
    [node] = (await look(http, "graph/nodes", key="JIRA:jerv-1", **SHOP))["nodes"]
    assert node["key"] == "jira::JERV-1"
    walk = await ask(http, "graph/traverse", scope=SHOP, start=["User:JANA"], hops=1, edgeTypes=["Assigned To"])
    assert [one["key"] for one in walk["nodes"]] == ["user:jana", "jira::JERV-1"]
    ends = {"source": "issue:JERV-1", "target": "User:Petr"}
    found = await look(http, "graph/relationship", type="ASSIGNED_TO", **ends, **SHOP)
    assert [one["target"] for one in found["relationships"]] == ["user:petr"]


async def test_an_alias_is_followed(http: httpx.AsyncClient, kb: world.ObservedState) -> None:
    await kb.ingest(world.request("user:jana|KNOWS|user:tom", urn="n:1", owner=scopes.TILL))
    await kb.ingest(world.request("user:jana|LEADS|team:core", urn="n:2", title="Jana"))
    await kb.merger.merge(scopes.SHOP, "user:jana", "user:jana.novak@acme.com", "petr")
    while await kb.workers.step() is not None:
        pass
    found = {one["key"] for one in (await look(http, "graph/nodes", key="user:Jana", **SHOP))["nodes"]}
    assert found == {"user:jana.novak@acme.com", "user:jana"}, "the other project's is another one"
    walk = await ask(http, "graph/traverse", scope=SHOP, start=["user:jana"], hops=1, edgeTypes=["assigned_to"])
    assert "jira::JERV-1" in {one["key"] for one in walk["nodes"]}
    said = await look(http, "graph/relationship", target="user:jana", type="assigned_to", **SHOP)
    [relation] = said["relationships"]
    assert (relation["source"], relation["target"]) == ("jira::JERV-1", "user:jana.novak@acme.com")
    answer = await ask(http, "retrieve", scope=SHOP, query="What about Jana?", explain=True)
    why = {item["provenance"]["sourceUrn"]: item["explanation"] for item in answer["items"]}
    assert why["n:2"]["named"] > 0, "the question names the alias, the document has what it means"


async def test_a_walk_shows_which_facts_a_newer_one_has_retired(http: httpx.AsyncClient) -> None:
    walk = await ask(http, "graph/traverse", scope=SHOP, start=["jira::JERV-1"], hops=1, edgeTypes=["assigned_to"])
    assert [node["key"] for node in walk["nodes"]] == ["jira::JERV-1", "user:jana", "user:petr"]
    assert {edge["target"]: (edge["retiredAt"] or "")[:10] for edge in walk["edges"]} == {
        "user:jana": "2026-03-01",
        "user:petr": "",
    }
    before = await ask(http, "graph/traverse", scope=SHOP, start=["jira::JERV-1"], hops=1, asOf="2026-02-10T00:00:00Z")
    assert [edge["retiredAt"] for edge in before["edges"] if edge["type"] == "assigned_to"] == [None]
    assert (await ask(http, "graph/traverse", scope=BLOG, start=["user:petr"]))["nodes"] == []


async def test_no_number_of_facts_leaves_out_that_one_is_retired(
    kb: world.ObservedState, http: httpx.AsyncClient
) -> None:
    for month, name in ((FEBRUARY, "jana"), (MARCH, "petr")):
        edges = [(f"issue:{number}", "assigned_to", f"user:{name}") for number in range(45)]
        made = contract.patch(scopes.SHOP, f"list:{name}", edges, chunks=5)
        dated = replace(made.document, observed_ms=selection.millis(month))
        await kb.graph.replace(scopes.SHOP, replace(made, document=dated))
    start = [f"issue:{number}" for number in range(45)]
    walk = await ask(http, "graph/traverse", scope=SHOP, start=start, hops=1, edgeTypes=["assigned_to"])
    ends = [edge["supersededBy"] for edge in walk["edges"] if edge["source"] in start and edge["target"] == "user:jana"]
    assert ends == ["user:petr"] * 45


async def test_the_versions_of_a_document_can_be_looked_at(kb: world.ObservedState, http: httpx.AsyncClient) -> None:
    await kb.ingest(world.request("jira:JERV-2|STATUS|state:open\n", urn="u:2", observed_at=FEBRUARY, title="Two"))
    await kb.ingest(world.request("jira:JERV-2|STATUS|state:done\n", urn="u:2", observed_at=MARCH, title="Two"))
    about = {"source": "jira::JERV-2", "type": "status", **SHOP}
    [now] = (await look(http, "graph/relationship", **about))["relationships"]
    assert (now["target"], now["retiredAt"]) == ("state:done", None)
    [done, opened] = (await look(http, "graph/relationship", history="true", **about))["relationships"]
    assert (opened["target"], opened["supersededBy"]) == ("state:open", "state:done")
    assert (opened["evidence"][0]["validUntil"], done["evidence"][0]["validUntil"]) == ("2026-03-01T00:00:00Z", None)
    [then] = (await look(http, "graph/relationship", asOf="2026-02-10T00:00:00Z", **about))["relationships"]
    assert (then["target"], then["retiredAt"]) == ("state:open", None)
    chunk = await look(http, f"chunks/{then['evidence'][0]['chunkId']}", **SHOP)
    assert (chunk["chunk"]["validUntil"], "open" in chunk["chunk"]["text"]) == ("2026-03-01T00:00:00Z", True)
    assert "state:open" in {said["nodeKey"] for said in chunk["said"]}
    nodes = await look(http, "graph/nodes", q="state:", asOf="2026-02-10T00:00:00Z", **SHOP)
    assert [node["key"] for node in nodes["nodes"]] == ["state:open"]
    hits = (await ask(http, "search/hybrid", scope=SHOP, query="JERV-2", asOf="2026-02-10T00:00:00Z"))["hits"]
    assert "2026-03-01T00:00:00Z" in [hit["chunk"]["validUntil"] for hit in hits]
    hidden = await http.get(f"/api/v1/chunks/{then['evidence'][0]['chunkId']}", params=BLOG)
    assert hidden.status_code == 404
    assert refused(await http.get("/api/v1/graph/relationship", params={**about, "history": "yes"})) == (422, "history")


async def test_a_relationship_shows_its_proof(http: httpx.AsyncClient) -> None:
    found = await look(http, "graph/relationship", source="jira::JERV-1", type="assigned_to", **SHOP)
    [jana, petr] = found["relationships"]
    assert (jana["target"], jana["retiredAt"][:10], petr["retiredAt"]) == ("user:jana", "2026-03-01", None)
    assert jana["evidence"][0]["sentence"] == "jira:JERV-1|ASSIGNED_TO|user:Jana"
    assert jana["evidence"][0]["sourceUrn"] == "email::<m0@acme.com>"
    then = await look(http, "graph/relationship", source="jira::JERV-1", asOf="2026-02-10T00:00:00Z", **SHOP)
    assert "user:petr" not in {one["target"] for one in then["relationships"]}
    assert refused(await http.get("/api/v1/graph/relationship", params=SHOP)) == (422, "source")


async def test_retrieval_as_of_a_moment_and_explained(http: httpx.AsyncClient) -> None:
    found = await ask(http, "retrieve", scope=SHOP, query="Who has JERV-1?", asOf="2026-02-10T00:00:00Z", explain=True)
    assert {item["provenance"]["sourceUrn"] for item in found["items"]} == {"email::<m0@acme.com>"}
    [item] = found["items"]
    why = item["explanation"]
    assert why["cosine"] is not None
    parts = {name: why[name] for name in ("fused", "own", "named", "hop", "lead")}
    assert item["confidence"] == pytest.approx(sum(parts.values()) / WHOLE)
    assert parts["fused"] == pytest.approx(1.0), "the only one that is found is the best of both lists"
    # The question names JERV-1, and this is the only chunk of that time that mentions it.
    assert (parts["named"], parts["hop"]) == (rank.Weights().named * rank.Weights().mention, 0)
    assert item["provenance"]["observedAt"] == "2026-02-01T00:00:00Z"
    plain = await ask(http, "retrieve", scope=SHOP, query="Who has JERV-1?")
    assert plain["items"][0]["explanation"] is None
    wrong = {"scope": SHOP, "query": "x", "since": "2026-03-01T00:00:00Z", "until": "2026-02-01T00:00:00Z"}
    answer = await http.post("/api/v1/retrieve", json=wrong)
    assert (answer.status_code, "since must not be after until" in answer.text) == (422, True)


async def test_retrieval_in_lines(http: httpx.AsyncClient) -> None:
    request = {"scope": SHOP, "query": "login bug"}
    response = await http.post("/api/v1/retrieve", json=request, headers={"Accept": "application/x-ndjson"})
    assert response.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert [line["stage"] for line in lines] == ["search", "graph", "reply"]
    whole = await ask(http, "retrieve", **request)
    shown, asked = ([one["provenance"]["chunkId"] for one in of["items"]] for of in (lines[-1]["reply"], whole))
    assert shown == asked


async def test_consistency_of_the_scope(http: httpx.AsyncClient, kb: world.ObservedState) -> None:
    found = await look(http, "health/consistency", **SHOP)
    assert (found["state"], found["documents"], found["findings"]) == ("Consistent", 2, [])
    assert (await look(http, "health/consistency", limit="1", **SHOP))["state"] == "Partial"
    [chunk] = (await ask(http, "chunks/by-kind", scope=BLOG, kinds=["wiki"]))["chunks"]
    await kb.vectors.discard("acme", chunk_ids=[chunk["chunkId"]], sentence_ids=[])
    assert (await look(http, "health/consistency", **SHOP))["state"] == "Consistent"
    assert found["passes"] == []
    await kb.ledger.record(changes.Pass("Full", kb.clock(), kb.clock(), "acme"))
    await kb.ledger.record(changes.Pass("Changed", kb.clock()))
    now = kb.clock().isoformat().replace("+00:00", "Z")
    assert (await look(http, "health/consistency", **SHOP))["passes"] == [
        {"kind": "Changed", "begunAt": now, "endedAt": None},
        {"kind": "Full", "begunAt": now, "endedAt": now},
    ]
    theirs = await look(http, "health/consistency", **BLOG)
    assert (theirs["state"], theirs["findings"][0]["kind"]) == ("Inconsistent", "ChunkTextMissing")


async def test_a_project_is_moved_to_its_new_group(http: httpx.AsyncClient) -> None:
    moved = {"clientId": "acme", "projectId": "shop", "groupId": "wholesale"}
    assert (await ask(http, "projects/regroup", scope=moved))["documents"] == 2
    neighbour = {"clientId": "acme", "projectId": "bulk", "groupId": "wholesale"}
    assert len((await ask(http, "retrieve", scope=neighbour, query="login bug"))["items"]) == 2
    refused = await http.post("/api/v1/projects/regroup", json={"scope": {"clientId": "acme"}})
    assert refused.json()["error"]["field"] == "scope.projectId"


async def test_the_page_is_served_with_a_policy_for_exactly_its_script(http: httpx.AsyncClient) -> None:
    page = await http.get("/kb/")
    assert page.headers["Content-Type"].startswith("text/html")
    inline = page.text.count("<script>") + page.text.count("<style>")
    assert page.headers["Content-Security-Policy"].count("'sha256-") == inline == 5
    assert "unsafe" not in page.headers["Content-Security-Policy"]
    assert (await http.get("/kb")).headers["Location"] == "kb/"


async def test_through_the_typed_client(kb_client: client.Client) -> None:
    see = kb_client.looking
    hits = (await see.search(api.HybridRequest(scope=scopes.SHOP, query="login bug"))).hits
    said = (await calls.chunk(kb_client, scopes.SHOP, hits[0].chunk.chunk_id)).said
    assert "jira::JERV-1" in {one.node_key for one in said}
    newest = (await see.by_kind(api.ByKindRequest(scope=scopes.SHOP, kinds=["email"]))).chunks
    assert {chunk.chunk_id for chunk in newest} == {hit.chunk.chunk_id for hit in hits}
    named = (await see.nodes(scopes.SHOP, text="petr", node_type="user")).nodes
    assert [node.key for node in named] == ["user:petr"]
    walk = await see.traverse(api.TraverseRequest(scope=scopes.SHOP, start=["user:petr"], hops=1))
    assert "jira::JERV-1" in {node.key for node in walk.nodes}
    found = await calls.relationships(kb_client, scopes.SHOP, source="jira::JERV-1", edge_type="assigned_to")
    assert [one.target for one in found.relationships] == ["user:jana", "user:petr"]
    assert (await calls.consistency(kb_client, scopes.SHOP)).state == "Consistent"
