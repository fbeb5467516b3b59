"""The production graph store. Its contract runs where JERVIS_TEST_ARANGO_URL names a server."""

from __future__ import annotations

import asyncio
import itertools
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from string import ascii_letters, digits
from typing import Any

import pytest
from arango import exceptions
from arango.client import ArangoClient
from hypothesis import given
from hypothesis import strategies as st

from kb import errors
from kb.graph import aql, arango, model
from kb.graph.arango import connection, keys
from tests import ports
from tests.fakes.arango import server as fake
from tests.kb import scopes
from tests.kb.graph import contract

Opened = Callable[..., arango.Store]
URL = os.environ.get("JERVIS_TEST_ARANGO_URL", "")


@pytest.fixture
async def store() -> AsyncIterator[arango.Store]:
    """A database of its own, dropped afterwards."""
    client = ArangoClient(hosts=URL)
    password = os.environ.get("JERVIS_TEST_ARANGO_PASSWORD", "")
    system = client.db("_system", username="root", password=password)
    name = f"test_kb_{uuid.uuid4().hex[:12]}"
    system.create_database(name)
    opened = arango.Store(URL, name, "root", password)
    yield opened
    await opened.close()
    system.delete_database(name)
    client.close()


@pytest.fixture
def server() -> Iterator[fake.Server]:
    with fake.Server() as running:
        yield running


@pytest.fixture
async def opened(server: fake.Server) -> AsyncIterator[Opened]:
    """Stores on the stand-in, each as a process of its own has it."""
    async with AsyncExitStack() as stack:

        def make(**more: Any) -> arango.Store:
            store = arango.Store(server.url, "wire", "root", "secret", **more)
            stack.push_async_callback(store.close)
            return store

        yield make


@pytest.fixture
def wired(opened: Opened) -> arango.Store:
    return opened()


class TestWire(contract.Contract, contract.History):
    """The contract through python-arango, on a stand-in that runs the queries as they stand."""

    @pytest.fixture
    def store(self, wired: arango.Store) -> arango.Store:
        return wired


@pytest.mark.skipif(not URL, reason="JERVIS_TEST_ARANGO_URL is not set: the ArangoDB store was NOT tested")
class TestArango(contract.Contract, contract.History):
    """The contract on the real thing."""


@given(st.text(min_size=1, max_size=300))
def test_any_text_makes_a_key_that_arangodb_takes(text: str) -> None:
    key = keys.safe_key(text)
    assert 0 < len(key.encode()) <= 254
    assert set(key) <= set(ascii_letters + digits + "_-:.@()+,=;$!*'%")


def test_keys_stay_apart_and_readable() -> None:
    assert keys.safe_key("jira::JERV-123") == "jira::JERV-123"
    assert keys.safe_key("file::src/Main.kt") == "file::src%2FMain.kt"
    long = ["x" * 199, "x" * 200, "x" * 201, "x" * 202, "y" + "x" * 300, "x" * 300 + "y", "é" * 100, "é" * 101]
    assert len({keys.safe_key(text) for text in long}) == len(long)
    assert keys.safe_key("x" * 200) == "x" * 200


async def test_a_server_that_is_not_there_is_away_and_the_start_does_not_wait_for_it() -> None:
    store = arango.Store(f"http://127.0.0.1:{ports.free()}", "any", "root", "")
    await store.prepare()
    with pytest.raises(errors.Away, match="arangodb"):
        await store.ready()
    with pytest.raises(errors.Away, match="arangodb"):
        await contract.put(store, scopes.SHOP, "u:1", [("n:a", "to", "n:b")])
    await store.close()


async def test_no_more_is_read_at_a_hub_than_its_bound(opened: Opened) -> None:
    await contract.check_hub(opened(hub=20))


async def test_a_question_has_its_time(server: fake.Server, wired: arango.Store, opened: Opened) -> None:
    await wired.replace(scopes.SHOP, made())
    hurried = opened(seconds=30.0)
    assert len(await hurried.nodes(scopes.SHOP)) == 2
    server.takes = 30.0
    with pytest.raises(errors.TooLong, match="arangodb had no answer"):
        await hurried.nodes(scopes.SHOP)
    # Writers and the comparison of the stores have the time of a request.
    await hurried.replace(scopes.SHOP, made("u:2"))
    server.takes = 0.0
    assert (await wired.counts(scopes.SHOP)).documents == 2


def made(urn: str = "u:1") -> model.Patch:
    return contract.patch(scopes.SHOP, urn, [("n:a", "to", "n:b")])


async def test_a_client_gets_its_three_objects_and_indexes_once(server: fake.Server, wired: arango.Store) -> None:
    await wired.replace(scopes.SHOP, made())
    there = server.databases["wire"]
    assert set(there.collections) == {"cacme_nodes", "cacme_edges"}
    assert there.edges == {"cacme_edges"}
    assert there.graphs["cacme_graph"]["edgeDefinitions"] == [
        {"collection": "cacme_edges", "from": ["cacme_nodes"], "to": ["cacme_nodes"]}
    ]
    assert ["_from", "structural", "projectId"] in [one["fields"] for one in there.indexes["cacme_edges"]]
    before = len(server.calls)
    await wired.replace(scopes.SHOP, made("u:2"))
    assert [path for _, path, _ in server.calls[before:] if path.split("/")[0] not in ("cursor", "transaction")] == []


async def test_a_hub_of_many_documents_hides_no_other_edge(wired: arango.Store) -> None:
    for number in range(6):
        await contract.put(wired, scopes.SHOP, f"u:{number}", [("n:a", "to", "n:b")])
    await contract.put(wired, scopes.SHOP, "u:z", [("n:a", "to", "n:c")])
    walk = await wired.traverse(scopes.SHOP, ["n:a"], model.Steps(hops=1, fan_out=3))
    assert sorted(edge.target for edge in walk.edges) == ["n:b", "n:c"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((409, {"errorNum": 1200, "errorMessage": "write-write conflict"}), "write-write conflict"),
        ((503, {"errorNum": 11, "errorMessage": "shutting down"}), "shutting down"),
        ((410, {"errorNum": 1654, "errorMessage": "transaction aborted"}), "transaction aborted"),
        ((500, {"errorNum": 18, "errorMessage": "lock timeout"}), "lock timeout"),
        ((500, {"errorNum": 29, "errorMessage": "deadlock detected"}), "deadlock"),
        ((404, {"errorNum": 1228, "errorMessage": "database not found"}), "JERVIS_KB_ARANGO_DATABASE"),
        ((404, {"errorNum": 1655, "errorMessage": "transaction not found"}), "transaction not found"),
        ((401, {"errorNum": 11, "errorMessage": "not authorized"}), "JERVIS_KB_ARANGO_USERNAME"),
        ((0, {}), "arangodb is away"),
    ],
)
async def test_what_fails_in_the_middle_is_undone_and_may_be_repeated(
    server: fake.Server, wired: arango.Store, answer: fake.Answer, said: str
) -> None:
    await wired.replace(scopes.SHOP, made())
    before = await contract.state(wired, scopes.SHOP)
    changed = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:c")])
    for place in range(1, 8):
        statements = itertools.count(1)

        def trouble(method: str, path: str, body: Any) -> fake.Answer | None:
            ours = path.split("/")[0] in ("cursor", "transaction") and method != "DELETE"
            return answer if ours and next(statements) >= place else None  # noqa: B023 -- used in this round

        server.trouble = trouble
        with pytest.raises(errors.Away, match=said):
            await wired.replace(scopes.SHOP, changed)
        server.trouble = lambda method, path, body: None
        assert await contract.state(wired, scopes.SHOP) == before
    assert server.transactions == {}, "each was told to be forgotten"
    await wired.replace(scopes.SHOP, changed)
    assert [str(one.edge.target) for one in await wired.edges(scopes.SHOP)] == ["n:c"]


async def test_a_mistake_of_ours_is_no_outage(server: fake.Server, wired: arango.Store) -> None:
    await wired.replace(scopes.SHOP, made())
    server.trouble = lambda method, path, body: (400, {"errorNum": 1501, "errorMessage": "syntax error"})
    with pytest.raises(exceptions.ArangoServerError, match="syntax error"):
        await wired.counts(scopes.SHOP)


async def test_a_server_that_does_not_answer_in_time_is_away(
    server: fake.Server, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_SECONDS", 0.05)
    slow = opened()
    with server.lock, pytest.raises(errors.Away, match="arangodb is away"):
        await slow.ready()


async def test_a_writer_that_gets_no_turn_may_come_back(server: fake.Server, wired: arango.Store) -> None:
    await wired.replace(scopes.SHOP, made())
    with pytest.MonkeyPatch.context() as patched, wired._transaction("acme"):
        patched.setattr(connection, "_LOCK_SECONDS", 0)
        with pytest.raises(errors.Away, match="timeout waiting"):
            await wired.replace(scopes.SHOP, made("u:2"))
    await wired.replace(scopes.SHOP, made("u:2"))
    assert (await wired.counts(scopes.SHOP)).documents == 2


async def test_writers_of_one_document_take_turns_and_end_in_one_of_them(wired: arango.Store) -> None:
    said = [contract.patch(scopes.SHOP, "u:1", [("n:a", "to", f"n:{number}")]) for number in range(6)]
    await asyncio.gather(*(wired.replace(scopes.SHOP, patch) for patch in said))
    assert await wired.counts(scopes.SHOP) == model.Counts(documents=1, chunks=1, nodes=2, edges=1, mentions=2)
    await wired.remove(scopes.SHOP, contract.document(scopes.SHOP, "u:1").id)
    assert await wired.counts(scopes.SHOP) == model.Counts(0, 0, 0, 0, 0)


async def test_a_missing_database_is_no_empty_knowledge_base(server: fake.Server, wired: arango.Store) -> None:
    server.trouble = lambda method, path, body: (404, {"errorNum": 1228, "errorMessage": "database not found"})
    with pytest.raises(errors.Away, match="JERVIS_KB_ARANGO_DATABASE"):
        await wired.counts(scopes.SHOP)


async def test_graphs_of_others_in_the_same_database_are_no_clients(server: fake.Server, wired: arango.Store) -> None:
    await wired.replace(scopes.SHOP, made())
    edges = {"collection": "bought", "from": ["people"], "to": ["goods"]}
    foreign = {"edgeDefinitions": [edges], "orphanCollections": []}
    for name in ("customer_graph", "c_graph", "c not ours_graph", "people_graph"):
        server.databases["wire"].graphs[name] = {"name": name, "_key": name, "_rev": "1", **foreign}
    assert await wired.clients() == ["acme"]


async def test_the_collections_of_a_client_that_owns_nothing_go(
    server: fake.Server, wired: arango.Store, opened: Opened
) -> None:
    await wired.replace(scopes.SHOP, made())
    [present] = await wired.versions(scopes.SHOP, made().document.id)
    kept = model.Keep("00000000-0000-5000-8000-000000000000", 5)
    await wired.replace(scopes.SHOP, replace(made(), keep=kept))
    other = opened()
    assert (await other.counts(scopes.SHOP)).documents == 1
    await wired.vacate("acme")
    assert set(server.databases["wire"].graphs) == {"cacme_graph", "hacme_graph"}, "it owns data"
    await wired.remove(scopes.SHOP, present.id)
    await wired.vacate("acme")
    assert (server.databases["wire"].graphs, server.databases["wire"].collections) == ({}, {})
    # Another process has seen them; it looks again.
    with pytest.raises(errors.Away):
        await other.counts(scopes.SHOP)
    assert (await other.counts(scopes.SHOP)).documents == 0
    await other.replace(scopes.SHOP, made())
    assert await wired.clients() == ["acme"]


async def test_collections_of_an_older_version_get_what_they_lack_and_of_a_newer_one_are_refused(
    server: fake.Server, wired: arango.Store, opened: Opened
) -> None:
    await wired.replace(scopes.SHOP, made())
    there = server.databases["wire"]
    there.collections["cacme_nodes"].documents["$schema"]["version"] = aql.VERSION - 1
    there.indexes["cacme_nodes"] = []
    again = opened()
    changed = contract.patch(scopes.SHOP, "u:1", [("n:a", "to", "n:c")])
    await again.replace(scopes.SHOP, changed)
    assert ["documentId"] in [one["fields"] for one in there.indexes["cacme_nodes"]]
    assert there.collections["cacme_nodes"].documents["$schema"]["version"] == aql.VERSION
    there.collections["cacme_nodes"].documents["$schema"]["version"] = aql.VERSION + 1
    with pytest.raises(errors.Misconfigured, match="schema version"):
        await opened().replace(scopes.SHOP, changed)


async def test_present_questions_name_no_collection_of_the_past(server: fake.Server, wired: arango.Store) -> None:
    first = contract.version(scopes.SHOP, [("n:a", "to", "n:b")], 2)
    await wired.replace(scopes.SHOP, first)
    [present] = await wired.versions(scopes.SHOP, first.document.id)
    await wired.replace(scopes.SHOP, contract.version(scopes.SHOP, [("n:a", "to", "n:c")], 5, keep=present))
    assert "hacme_edges" in server.databases["wire"].collections
    before = len(server.calls)
    await wired.leads(scopes.SHOP, ["n:a"])
    await wired.named(scopes.SHOP, ["a"])
    await wired.nodes(scopes.SHOP)
    await wired.traverse(scopes.SHOP, ["n:a"], model.Steps())
    await wired.relationships(scopes.SHOP, source="n:a")
    await wired.bridges(scopes.SHOP, first.chunk_ids)
    await wired.mentioned(scopes.SHOP, first.chunk_ids)
    await wired.observed(scopes.SHOP, ["n:a"], ["to"])
    asked = [body["bindVars"] for _, path, body in server.calls[before:] if path == "cursor"]
    named = {one[name] for one in asked for name in ("@nodes", "@edges") if name in one}
    assert named == {"cacme_nodes", "cacme_edges"}


async def test_collections_lie_in_a_cluster_as_the_settings_say(server: fake.Server, opened: Opened) -> None:
    await opened(cluster=arango.Cluster(3, 2, 1)).replace(scopes.SHOP, made(), fence=1)
    there = server.databases["wire"].properties
    assert there.keys() == {"cacme_nodes", "cacme_edges", "jervis_fences"}
    wanted = {"numberOfShards": 3, "replicationFactor": 2, "writeConcern": 1}
    assert [one | wanted for one in there.values()] == [wanted] * 3
    safer = opened(cluster=arango.Cluster(5, 3, 2))
    await safer.replace(scopes.SHOP, made())
    found = {
        name: (one["numberOfShards"], one["replicationFactor"], one["writeConcern"]) for name, one in there.items()
    }
    assert found["cacme_nodes"] == found["cacme_edges"] == (3, 3, 2), "the number of shards stays"
    before = len(server.calls)
    await safer.replace(scopes.SHOP, made("u:2"))
    assert [path for _, path, _ in server.calls[before:] if path.startswith("collection")] == [], "asked once"


async def test_no_setting_leaves_it_to_the_database(server: fake.Server, wired: arango.Store) -> None:
    await wired.replace(scopes.SHOP, made())
    sent = [body for method, path, body in server.calls if (method, path) == ("POST", "collection")]
    assert [set(body) & {"numberOfShards", "replicationFactor", "writeConcern"} for body in sent] == [set(), set()]


async def test_a_new_index_reaches_clients_that_nobody_writes(
    server: fake.Server, wired: arango.Store, opened: Opened
) -> None:
    """The upkeep of all clients goes over them once an hour."""
    await wired.replace(scopes.SHOP, made())
    there = server.databases["wire"]
    del there.collections["cacme_nodes"].documents["$schema"]
    there.indexes["cacme_nodes"] = []
    again = opened()
    await again.expire("acme", 0)
    assert ["stem"] in [one["fields"] for one in there.indexes["cacme_nodes"]]
    await again.expire("other", 0)
    assert set(there.graphs) == {"cacme_graph"}, "it makes nothing for a client that is not there"
