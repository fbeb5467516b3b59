"""The production graph store: ArangoDB, with the three objects per client that seed 001 "ArangoDB Schema" names.

    c{client}_nodes   documents (`$document::<id>`) and entities, told apart by `type`
    c{client}_edges   `mentions` from a document to each entity it names (`structural`), and the relationships it states
    c{client}_graph   the named graph over both; the global scope is the client ""

There is one edge document per relationship *and document*: it carries the project and group of its document, so that
every hop filters on the edge it crosses, and taking a document away takes exactly its own proof. Entities hold nothing
but their key and type. A replacement runs in one stream transaction.

python-arango is synchronous; every call runs in a thread.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from arango import exceptions
from arango.client import ArangoClient
from arango.http import DefaultHTTPClient

from crds import scope
from kb import errors, visibility
from kb.graph import aql, model

_Result = TypeVar("_Result")
_KEY_CHARS = 200
# What ArangoDB allows in a `_key` beside letters and digits.
_KEY_SAFE = "_-:.@()+,=;$!*'"
_DUPLICATE_NAME = 1207
_GRAPH_EXISTS = 1925


class Store:
    """Implements `kb.graph.store.Store` on one database."""

    def __init__(self, url: str, database: str, username: str, password: str) -> None:
        # One attempt: who may come back is the caller's business, and it must hear at once that the server is away.
        http = DefaultHTTPClient(request_timeout=30, retry_attempts=1, backoff_factor=0)
        self._client = ArangoClient(hosts=url, http_client=http)
        self._database: Any = self._client.db(database, username=username, password=password)
        self._there: set[str] = set()

    async def prepare(self) -> None:
        """Nothing: the server may be away at the start, and collections are made when a client first writes."""

    async def ready(self) -> None:
        await self._call(self._database.version)

    async def replace(self, owner: scope.Scope, patch: model.Patch) -> None:
        rows = _rows(owner, patch)

        def work() -> None:
            self._ensure(owner.client_id)
            self._transact(owner.client_id, patch.document.id, rows)

        await self._call(work)

    async def remove(self, owner: scope.Scope, document_id: str) -> bool:
        def work() -> bool:
            return self._exists(owner.client_id) and self._transact(owner.client_id, document_id, None)

        return await self._call(work)

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], kinds: Sequence[str] | None = None
    ) -> set[str]:
        rows = await self._ask(aql.COMMITTED, viewer, chunks=sorted(chunk_ids), kinds=_list(kinds))
        return {str(row) for row in rows}

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Reach]:
        rows = await self._ask(aql.MENTIONED, viewer, chunks=sorted(chunk_ids))
        reached = [_reach(row, None if row["structural"] else _edge(row)) for row in rows]
        return sorted(reached, key=lambda way: (way.node_key, way.chunk_id, way.sentence_id, str(way.edge)))

    async def reach(
        self,
        viewer: scope.Scope,
        chunk_ids: Collection[str],
        *,
        kinds: Sequence[str] | None = None,
        per_node: int = 50,
        limit: int = 1000,
    ) -> list[model.Reach]:
        start = await self.mentioned(viewer, chunk_ids)
        nodes = sorted({mention.node_key for mention in start})
        crossed: dict[str, model.Edge | None] = dict.fromkeys(nodes)
        for edge in await self._around(viewer, nodes, limit):
            for node in (edge.source, edge.target):
                crossed.setdefault(node, edge)
        rows = await self._ask(
            aql.ELSEWHERE,
            viewer,
            nodes=[[node, safe_key(node)] for node in sorted(crossed)],
            chunks=sorted(chunk_ids),
            kinds=_list(kinds),
            limit=limit,
        )
        return _capped([_reach(row, crossed[row["target"]]) for row in rows], per_node)[:limit]

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], *, hops: int = 2, limit: int = 500
    ) -> list[model.Visit]:
        present = await self._ask(aql.PRESENT, viewer, nodes=[[node, safe_key(node)] for node in sorted(start)])
        visits = [model.Visit(node, 0, None) for node in sorted({str(row) for row in present})][:limit]
        seen = {visit.node_key for visit in visits}
        frontier = sorted(seen)
        for hop in range(1, hops + 1):
            if not frontier or len(visits) >= limit:
                break
            met: dict[str, model.Edge] = {}
            for edge in await self._around(viewer, frontier, 2 * limit):
                for node in (edge.source, edge.target):
                    if node not in seen:
                        met.setdefault(node, edge)
            frontier = sorted(met)[: limit - len(visits)]
            visits += [model.Visit(node, hop, met[node]) for node in frontier]
            seen.update(frontier)
        return visits

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        proven: dict[model.Edge, set[str]] = {}
        for row in await self._ask(aql.EDGES, viewer, limit=limit):
            proven.setdefault(_edge(row), set()).update(row["chunks"])
        return [model.Proven(edge, tuple(sorted(proven[edge]))) for edge in sorted(proven)][:limit]

    async def counts(self, viewer: scope.Scope) -> model.Counts:
        documents = chunks = mentions = 0
        nodes: set[str] = set()
        edges: set[str] = set()
        for row in await self._ask(aql.COUNTS, viewer):
            documents += row["documents"]
            chunks += row["chunks"]
            mentions += row["mentions"]
            nodes.update(row["nodes"])
            edges.update(json.dumps(edge) for edge in row["edges"])
        return model.Counts(documents, chunks, len(nodes), len(edges), mentions)

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)

    def _transact(self, client: str, document_id: str, rows: _Rows | None) -> bool:
        """Take the document away and, with `rows`, put it back as they say; True when it was there."""
        nodes, edges = {"@nodes": _nodes(client)}, {"@edges": _edges(client)}
        transaction: Any = self._database.begin_transaction(write=[_nodes(client), _edges(client)])
        try:
            ends = list(transaction.aql.execute(aql.DROP_EDGES, bind_vars=edges | {"id": document_id}))
            key = _document_key(document_id)
            known = list(transaction.aql.execute(aql.DROP_DOCUMENT, bind_vars=nodes | {"key": key}))
            if rows is not None:
                transaction.aql.execute(aql.PUT_DOCUMENT, bind_vars=nodes | {"row": rows.document})
                transaction.aql.execute(aql.PUT_ENTITIES, bind_vars=nodes | {"rows": rows.entities})
                transaction.aql.execute(aql.PUT_EDGES, bind_vars=edges | {"rows": list(rows.edges.values())})
            candidates = {"candidates": sorted(set(ends))}
            transaction.aql.execute(aql.DROP_LONELY, bind_vars=nodes | edges | candidates)
        except BaseException:
            transaction.abort_transaction()
            raise
        transaction.commit_transaction()
        return bool(known)

    async def _around(self, viewer: scope.Scope, nodes: Sequence[str], limit: int) -> list[model.Edge]:
        rows = await self._ask(aql.AROUND, viewer, nodes=[safe_key(node) for node in nodes], limit=limit)
        return sorted({_edge(row) for row in rows})[:limit]

    async def _ask(self, query: str, viewer: scope.Scope, **values: Any) -> list[Any]:
        """The rows of a query over every partition in which the viewer's data can lie."""

        def work() -> list[Any]:
            rows: list[Any] = []
            for client in visibility.clients(viewer):
                if self._exists(client):
                    names = {"@nodes": _nodes(client), "@edges": _edges(client), "prefix": _nodes(client)}
                    bound: dict[str, Any] = {
                        "everything": not client,
                        "project": viewer.project_id,
                        "group": viewer.group_id,
                        **names,
                        **values,
                    }
                    # AQL refuses a bound value that its query does not use.
                    used = {name: value for name, value in bound.items() if f"@{name}" in query}
                    rows += list(self._database.aql.execute(query, bind_vars=used))
            return rows

        return await self._call(work)

    def _exists(self, client: str) -> bool:
        if client not in self._there and self._database.has_graph(f"c{client}_graph"):
            self._there.add(client)
        return client in self._there

    def _ensure(self, client: str) -> None:
        if self._exists(client):
            return
        nodes, edges = _nodes(client), _edges(client)
        for name, is_edge in ((nodes, False), (edges, True)):
            _tolerate(_DUPLICATE_NAME, functools.partial(self._database.create_collection, name, edge=is_edge))
        for name, fields in aql.indexes(nodes, edges):
            index = {"type": "persistent", "fields": fields, "name": "_".join(fields).replace("[*]", "_each")}
            self._database.collection(name).add_index(index)
        definition = {"edge_collection": edges, "from_vertex_collections": [nodes], "to_vertex_collections": [nodes]}
        _tolerate(_GRAPH_EXISTS, lambda: self._database.create_graph(f"c{client}_graph", [definition]))
        self._there.add(client)

    async def _call(self, work: Callable[[], _Result]) -> _Result:
        try:
            return await asyncio.to_thread(work)
        except (exceptions.ServerConnectionError, exceptions.ArangoClientError, ConnectionError) as error:
            self._there.clear()
            raise errors.Away("arangodb", str(error)[:300]) from error
        except exceptions.ArangoServerError as error:
            self._there.clear()
            # 409 and 412: another transaction won; 503: starting, shutting down or without a leader.
            if error.http_code in (409, 412, 429, 503):
                raise errors.Away("arangodb", str(error)[:300], retry_after=1) from error
            raise


def safe_key(text: str) -> str:
    """A `_key` for any text: other characters escaped, at most 200 long with a SHA-256 suffix (seed 001).

    ArangoDB takes 254 bytes; two texts never share a key.
    """
    # `quote` never escapes "~", which ArangoDB refuses.
    escaped = quote(text, safe=_KEY_SAFE).replace("~", "%7E")
    if len(escaped) <= _KEY_CHARS:
        return escaped
    suffix = hashlib.sha256(text.encode()).hexdigest()
    return f"{escaped[: _KEY_CHARS - len(suffix) - 1]}:{suffix}"


@dataclass
class _Rows:
    """What a patch becomes in the two collections."""

    document: dict[str, Any]
    entities: list[dict[str, Any]]
    edges: dict[str, dict[str, Any]]


def _rows(owner: scope.Scope, patch: model.Patch) -> _Rows:
    document, place = patch.document, f"{_nodes(owner.client_id)}/"
    me = _document_key(document.id)
    origin = {
        "documentId": document.id,
        "projectId": owner.project_id,
        "groupId": owner.group_id,
        "sourceUrn": document.source_urn,
        "kind": document.kind,
        "title": document.title,
    }
    types = {mention.node_key: mention.node_type for mention in patch.mentions}
    entities = [{"_key": safe_key(key), "type": kind, "key": key} for key, kind in sorted(types.items())]
    rows = _Rows({"_key": me, "type": "document", "chunkIds": list(patch.chunk_ids), **origin}, entities, {})

    def add(source: str, kind: str, target: str, start: str, proof: dict[str, Any]) -> None:
        key = safe_key(f"{kind}::{source}->{target}::{document.id}")
        ends = {"_from": place + start, "_to": place + safe_key(target), "structural": start == me}
        facts = {"edgeType": kind, "source": source, "target": target, "evidence": [], "evidenceChunkIds": []}
        row = rows.edges.setdefault(key, {"_key": key, **ends, **facts, **origin})
        row["evidence"].append(proof)
        row["evidenceChunkIds"] = sorted({*row["evidenceChunkIds"], proof["chunkId"]})

    for mention in patch.mentions:
        said = _proof(mention) | {"name": mention.name, "description": mention.description}
        add(me, "mentions", mention.node_key, me, said)
    for stated in patch.evidence:
        add(stated.source, stated.type, stated.target, safe_key(stated.source), _proof(stated))
    return rows


def _document_key(document_id: str) -> str:
    # No entity's key starts with "$": a namespace is made of letters, digits, "_" and "-".
    return safe_key(f"$document::{document_id}")


def _proof(said: model.Mention | model.Evidence) -> dict[str, Any]:
    return {"chunkId": said.chunk_id, "sentenceId": said.sentence_id, "sentence": said.sentence}


def _tolerate(code: int, work: Callable[[], object]) -> None:
    """Run `work`; that another process was faster (error `code`) is as good."""
    try:
        work()
    except exceptions.ArangoServerError as error:
        if error.error_code != code:
            raise


def _capped(reached: list[model.Reach], per_node: int) -> list[model.Reach]:
    """At most `per_node` chunks at each node; first chunks of every node come before second ones."""
    places: dict[str, dict[str, int]] = {}
    for way in sorted(reached, key=lambda way: (way.node_key, way.chunk_id)):
        chunks = places.setdefault(way.node_key, {})
        chunks.setdefault(way.chunk_id, len(chunks))
    ranked = [(places[way.node_key][way.chunk_id], way) for way in reached]
    kept = [(place, way) for place, way in ranked if place < per_node]
    kept.sort(key=lambda pair: (pair[0], pair[1].node_key, pair[1].chunk_id, pair[1].sentence_id))
    return [way for _, way in kept]


def _reach(row: dict[str, Any], edge: model.Edge | None) -> model.Reach:
    document = model.Document(row["documentId"], row["sourceUrn"], row["kind"], row["title"])
    node = row["target"] if edge is None or row["structural"] else row["source"]
    proof = row["proof"]
    return model.Reach(proof["chunkId"], document, node, edge, proof["sentenceId"], proof["sentence"])


def _edge(row: dict[str, Any]) -> model.Edge:
    return model.Edge(row["source"], row["edgeType"], row["target"])


def _nodes(client: str) -> str:
    return f"c{client}_nodes"


def _edges(client: str) -> str:
    return f"c{client}_edges"


def _list(kinds: Iterable[str] | None) -> list[str] | None:
    return None if kinds is None else list(kinds)
