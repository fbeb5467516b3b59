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
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import quote

from arango import exceptions
from arango.client import ArangoClient
from arango.http import DefaultHTTPClient

from crds import scope
from kb import errors, selection, visibility
from kb.graph import aql, model, traversal

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

    async def regroup(self, owner: scope.Scope) -> list[str]:
        bound = {"project": owner.project_id, "group": owner.group_id}

        def work() -> list[str]:
            if not self._exists(owner.client_id):
                return []
            nodes, edges = _nodes(owner.client_id), _edges(owner.client_id)
            with self._transaction(owner.client_id) as transaction:
                changed = transaction.aql.execute(aql.REGROUP_NODES, bind_vars=bound | {"@nodes": nodes})
                transaction.aql.execute(aql.REGROUP_EDGES, bind_vars=bound | {"@edges": edges})
                return sorted(changed)

        return await self._call(work)

    async def committed(
        self, viewer: scope.Scope, chunk_ids: Collection[str], chosen: selection.Selection = selection.ALL
    ) -> set[str]:
        rows = await self._ask(aql.COMMITTED, viewer, chunks=sorted(chunk_ids), **_selected(chosen))
        return {str(row) for row in rows}

    async def mentioned(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Said]:
        rows = await self._ask(aql.MENTIONED, viewer, chunks=sorted(chunk_ids))
        return sorted((_said(row) for row in rows), key=_place)

    async def bridges(self, viewer: scope.Scope, chunk_ids: Collection[str]) -> list[model.Bridge]:
        rows = await self._ask(aql.BRIDGES, viewer, chunks=sorted(chunk_ids))
        return sorted({model.Bridge(*row) for row in rows})

    async def leads(
        self,
        viewer: scope.Scope,
        node_keys: Collection[str],
        chosen: selection.Selection = selection.ALL,
        *,
        per_node: int = 50,
    ) -> list[model.Lead]:
        rows = await self._ask(aql.LEADS, viewer, nodes=_named(node_keys), rows=8 * per_node, **_selected(chosen))
        salient: dict[str, dict[str, float]] = {}
        for node, chunk_id, salience in rows:
            chunks = salient.setdefault(node, {})
            chunks[chunk_id] = max(chunks.get(chunk_id, 0.0), salience)
        leads = []
        for node, chunks in sorted(salient.items()):
            kept = sorted(chunks.items(), key=lambda pair: (-pair[1], pair[0]))[:per_node]
            leads += [model.Lead(node, chunk_id, salience, len(kept)) for chunk_id, salience in kept]
        return leads

    async def named(self, viewer: scope.Scope, names: Collection[str]) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for name, key in await self._ask(aql.NAMED, viewer, names=sorted(names)):
            found.setdefault(name, set()).add(key)
        return {name: sorted(keys) for name, keys in found.items()}

    async def nodes(
        self,
        viewer: scope.Scope,
        *,
        keys: Collection[str] | None = None,
        text: str | None = None,
        node_type: str | None = None,
        limit: int = 50,
    ) -> list[model.Node]:
        wanted = {"keys": None if keys is None else sorted(keys), "text": text.casefold() if text else None}
        found: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        for row in await self._ask(aql.NODES, viewer, type=node_type, limit=limit, **wanted):
            found.setdefault(row["key"], (row["type"], []))[1].extend(row["rows"])
        nodes = [_node(key, kind, rows) for key, (kind, rows) in found.items()]
        return sorted(nodes, key=lambda node: (-node.mentions, node.key))[:limit]

    async def traverse(
        self, viewer: scope.Scope, start: Collection[str], steps: model.Steps, *, as_of: datetime | None = None
    ) -> model.Walk:
        bound = {
            "types": None if steps.edge_types is None else list(steps.edge_types),
            "latest": None if as_of is None else selection.millis(as_of),
        }
        present = await self._ask(aql.PRESENT, viewer, nodes=_named(start))
        walk = traversal.Traversal(steps, [str(row) for row in present])
        while frontier := walk.frontier():
            around: dict[str, set[model.Edge]] = {}
            asked = {"nodes": _named(frontier), "limit": steps.fan_out + 1, **bound}
            for row in await self._ask(aql.AROUND, viewer, **asked):
                around.setdefault(row["node"], set()).add(_edge(row))
            walk.step((node, sorted(edges)) for node, edges in around.items())
        met = walk.seen()
        among = await self._ask(aql.AMONG, viewer, nodes=_named(met), keys=met, limit=traversal.EDGES + 1, **bound)
        return walk.finish([_edge(row) for row in among])

    async def relationships(
        self,
        viewer: scope.Scope,
        *,
        source: str | None = None,
        edge_type: str | None = None,
        target: str | None = None,
        limit: int = 200,
    ) -> list[model.Said]:
        bound = {"source": source, "type": edge_type, "target": target, "limit": limit}
        said = [_said(row) for row in await self._ask(aql.PROOFS, viewer, **bound)]
        return sorted(said, key=_latest)[:limit]

    async def edges(self, viewer: scope.Scope, *, limit: int = 1000) -> list[model.Proven]:
        proven: dict[model.Edge, set[str]] = {}
        for row in await self._ask(aql.EDGES, viewer, limit=limit):
            proven.setdefault(_edge(row), set()).update(row["chunks"])
        return [model.Proven(edge, tuple(sorted(proven[edge]))) for edge in sorted(proven)][:limit]

    async def naming(
        self, owner: scope.Scope, node_key: str, *, after: str = "", limit: int = 500
    ) -> list[tuple[model.Document, scope.Scope]]:
        client = owner.client_id

        def work() -> list[Any]:
            if not self._exists(client):
                return []
            bound = {
                "@edges": _edges(client),
                "target": f"{_nodes(client)}/{safe_key(node_key)}",
                "project": owner.project_id,
                "group": owner.group_id,
                "after": after,
                "limit": limit,
            }
            return list(self._database.aql.execute(aql.NAMING, bind_vars=bound))

        return [
            (
                _document(row),
                scope.Scope(client_id=client, project_id=row["projectId"], group_id=row["groupId"]),
            )
            for row in await self._call(work)
        ]

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

    async def audit(
        self, client_id: str, *, after: str | None = None, limit: int = 500
    ) -> tuple[list[model.Committed], str | None]:
        rows = await self._audited(client_id, {"after": after or "", "limit": limit, "chunks": None})
        page = [one for row in rows for one in _committed(client_id, row)]
        return page, str(rows[-1]["key"]) if len(rows) == limit else None

    async def held(self, client_id: str, chunk_ids: Collection[str]) -> dict[str, model.Committed]:
        wanted = set(chunk_ids)
        rows = await self._audited(client_id, {"after": "", "limit": len(wanted), "chunks": sorted(wanted)})
        return {one.chunk_id: one for row in rows for one in _committed(client_id, row) if one.chunk_id in wanted}

    async def _audited(self, client_id: str, bound: dict[str, Any]) -> list[Any]:
        named = bound | {"@nodes": _nodes(client_id), "@edges": _edges(client_id)}

        def work() -> list[Any]:
            return list(self._database.aql.execute(aql.AUDIT, bind_vars=named)) if self._exists(client_id) else []

        return await self._call(work)

    async def clients(self) -> list[str]:
        def work() -> list[str]:
            names = [str(graph["name"]) for graph in self._database.graphs()]
            return sorted(
                name[1 : -len("_graph")] for name in names if name.startswith("c") and name.endswith("_graph")
            )

        return await self._call(work)

    async def close(self) -> None:
        await asyncio.to_thread(self._client.close)

    def _transact(self, client: str, document_id: str, rows: _Rows | None) -> bool:
        """Take the document away and, with `rows`, put it back as they say; True when it was there."""
        nodes, edges = {"@nodes": _nodes(client)}, {"@edges": _edges(client)}
        with self._transaction(client) as transaction:
            ends = list(transaction.aql.execute(aql.DROP_EDGES, bind_vars=edges | {"id": document_id}))
            key = _document_key(document_id)
            known = list(transaction.aql.execute(aql.DROP_DOCUMENT, bind_vars=nodes | {"key": key}))
            if rows is not None:
                transaction.aql.execute(aql.PUT_DOCUMENT, bind_vars=nodes | {"row": rows.document})
                transaction.aql.execute(aql.PUT_ENTITIES, bind_vars=nodes | {"rows": rows.entities})
                transaction.aql.execute(aql.PUT_EDGES, bind_vars=edges | {"rows": list(rows.edges.values())})
            candidates = {"candidates": sorted(set(ends))}
            transaction.aql.execute(aql.DROP_LONELY, bind_vars=nodes | edges | candidates)
        return bool(known)

    @contextmanager
    def _transaction(self, client: str) -> Iterator[Any]:
        """A stream transaction over the client's collections: all of it, or nothing."""
        transaction: Any = self._database.begin_transaction(write=[_nodes(client), _edges(client)])
        try:
            yield transaction
        except BaseException:
            transaction.abort_transaction()
            raise
        transaction.commit_transaction()

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
        "observedMs": document.observed_ms,
    }
    types = {mention.node_key: mention.node_type for mention in patch.mentions}
    entities = [
        {"_key": safe_key(key), "type": kind, "key": key, "name": model.name_of(key)}
        for key, kind in sorted(types.items())
    ]
    rows = _Rows({"_key": me, "type": "document", "chunkIds": list(patch.chunk_ids), **origin}, entities, {})

    def add(source: str, kind: str, target: str, start: str, proof: dict[str, Any]) -> None:
        key = safe_key(f"{kind}::{source}->{target}::{document.id}")
        ends = {"_from": place + start, "_to": place + safe_key(target), "structural": start == me}
        facts = {"edgeType": kind, "source": source, "target": target, "evidence": [], "evidenceChunkIds": []}
        row = rows.edges.setdefault(key, {"_key": key, **ends, **facts, **origin})
        row["evidence"].append(proof)
        row["evidenceChunkIds"] = sorted({*row["evidenceChunkIds"], proof["chunkId"]})

    for mention in patch.mentions:
        said = _proof(mention) | {
            "name": mention.name,
            "description": mention.description,
            "salience": mention.salience,
        }
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


def _document(row: dict[str, Any]) -> model.Document:
    return model.Document(row["documentId"], row["sourceUrn"], row["kind"], row["title"], row["observedMs"])


def _said(row: dict[str, Any]) -> model.Said:
    edge = None if row["structural"] else _edge(row)
    node = row["target"] if edge is None else row["source"]
    proof = row["proof"]
    return model.Said(proof["chunkId"], _document(row), node, edge, proof["sentenceId"], proof["sentence"])


def _place(said: model.Said) -> tuple[str, str, str, str, str]:
    edge = (said.edge.type, said.edge.target) if said.edge else ("", "")
    return said.node_key, said.chunk_id, said.sentence_id, *edge


def _latest(said: model.Said) -> tuple[str, str, bool, int, str, str]:
    observed = said.document.observed_ms
    return said.node_key, str(said.edge), observed is None, -(observed or 0), said.chunk_id, said.sentence_id


def _node(key: str, kind: str, rows: Sequence[dict[str, Any]]) -> model.Node:
    said = {name: tuple(dict.fromkeys(row[name] for row in rows if row[name])) for name in ("name", "description")}
    chunks = tuple(dict.fromkeys(row["chunkId"] for row in rows))
    return model.Node(key, kind, said["name"], said["description"], chunks, len(rows))


def _committed(client_id: str, row: dict[str, Any]) -> list[model.Committed]:
    """A document's row of an audit, by chunk."""
    owner = scope.Scope(client_id=client_id, project_id=row["projectId"], group_id=row["groupId"])
    nodes: dict[str, set[str]] = {}
    sentences: dict[str, set[str]] = {}
    for said in row["mentions"]:
        sentences.setdefault(said["chunk"], set()).add(said["sentence"])
        if said["node"] is not None:
            nodes.setdefault(said["chunk"], set()).add(said["node"])
    return [
        model.Committed(
            chunk_id,
            owner,
            _document(row),
            tuple(sorted(nodes.get(chunk_id, ()))),
            tuple(sorted(sentences.get(chunk_id, ()))),
        )
        for chunk_id in row["chunkIds"]
    ]


def _named(keys: Iterable[str]) -> list[list[str]]:
    """Keys as the queries take them: beside what ArangoDB calls them."""
    return [[key, safe_key(key)] for key in sorted(keys)]


def _selected(chosen: selection.Selection) -> dict[str, Any]:
    earliest, latest = chosen.span()
    sources = chosen.sources
    return {
        "kinds": None if chosen.kinds is None else list(chosen.kinds),
        "sources": None if sources is None else [one for one in sources if not one.endswith("*")],
        "beginnings": [one[:-1] for one in sources or () if one.endswith("*")],
        "dated": chosen.dated,
        "earliest": earliest,
        "latest": latest,
    }


def _edge(row: dict[str, Any]) -> model.Edge:
    return model.Edge(row["source"], row["edgeType"], row["target"])


def _nodes(client: str) -> str:
    return f"c{client}_nodes"


def _edges(client: str) -> str:
    return f"c{client}_edges"
