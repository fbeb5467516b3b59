"""Looking around in the knowledge base: hybrid search, chunks, nodes, walks, relationships."""

from __future__ import annotations

import re
from collections.abc import Iterable

from aiohttp import web

from crds import scope
from kb import errors, reading, selection
from kb.graph import model, temporal
from kb.graph import store as graph
from kb.http import answering, body, openapi
from kb.retrieve import search, view
from kb.vectors import store as vectors

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Subjects whose functional facts are looked at for one answer, and proofs of each.
_SUBJECTS = 40
_PROOFS = 500


class Exploring:
    """The routes of a process that reads."""

    def __init__(self, finder: search.Search, graph_store: graph.Store, vector_store: vectors.Store) -> None:
        self._search = finder
        self._graph = graph_store
        self._vectors = vector_store

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (HYBRID, self.hybrid),
            (BY_KIND, self.by_kind),
            (CHUNK, self.chunk),
            (NODES, self.nodes),
            (TRAVERSE, self.traverse),
            (RELATIONSHIP, self.relationship),
        ]

    async def hybrid(self, request: web.Request) -> web.Response:
        """POST /api/v1/search/hybrid"""
        asked = await body.read(request, reading.HybridRequest)
        vector = await self._search.embed(asked.query, answering.or_background(body.urgency(request)))
        limit = max(50, asked.limit)
        chosen = asked.selection()
        found = await self._search.direct(asked.scope, asked.query, vector, chosen, limit=limit, alpha=asked.alpha)
        best = sorted(found.fused, key=lambda key: (-found.fused[key], key))[: asked.limit]
        chunks = await self._vectors.chunks(asked.scope, best)
        hits = [
            reading.Hit(
                chunk=view.chunk(chunks[key]),
                score=found.fused[key],
                cosine=found.dense.get(key),
                bm25=found.lexical.get(key),
            )
            for key in best
            if key in chunks
        ]
        return answering.json(reading.HybridReply(hits=hits))

    async def by_kind(self, request: web.Request) -> web.Response:
        """POST /api/v1/chunks/by-kind"""
        asked = await body.read(request, reading.ByKindRequest)
        chosen = asked.selection()
        found = await self._vectors.newest(asked.scope, chosen, limit=asked.limit + 1)
        committed = await self._graph.committed(asked.scope, [chunk.id for chunk in found], chosen)
        shown = [view.chunk(chunk) for chunk in found if chunk.id in committed][: asked.limit]
        return answering.json(reading.ChunksReply(chunks=shown, truncated=len(found) > asked.limit))

    async def chunk(self, request: web.Request) -> web.Response:
        """GET /api/v1/chunks/{chunkId}"""
        viewer, chunk_id = body.owner(request), request.match_info["chunkId"]
        missing = errors.NotFound(
            f"no chunk {chunk_id!r} in this scope", field="chunkId", remedy="Use a chunkId that a search answered."
        )
        if not _UUID.fullmatch(chunk_id) or not await self._graph.committed(viewer, [chunk_id]):
            raise missing
        found = (await self._vectors.chunks(viewer, [chunk_id])).get(chunk_id)
        if found is None:
            raise missing
        said = [view.statement(one) for one in await self._graph.mentioned(viewer, [chunk_id])]
        return answering.json(reading.ChunkReply(chunk=view.chunk(found), said=said))

    async def nodes(self, request: web.Request) -> web.Response:
        """GET /api/v1/graph/nodes"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=50, most=500)
        keys = request.query.getall("key", [])
        found = await self._graph.nodes(
            viewer,
            keys=keys or None,
            text=request.query.get("q"),
            node_type=request.query.get("type"),
            limit=limit + 1,
        )
        shown = [view.node(one) for one in found[:limit]]
        return answering.json(reading.NodesReply(nodes=shown, truncated=len(found) > limit))

    async def traverse(self, request: web.Request) -> web.Response:
        """POST /api/v1/graph/traverse"""
        asked = await body.read(request, reading.TraverseRequest)
        types = None if asked.edge_types is None else tuple(asked.edge_types)
        steps = model.Steps(asked.hops, asked.limit, asked.fan_out, types)
        walk = await self._graph.traverse(asked.scope, asked.start, steps, as_of=asked.as_of)
        as_of = None if asked.as_of is None else selection.millis(asked.as_of)
        retired = await self._retired(asked.scope, walk.edges, as_of)
        edges = [
            reading.Related(
                source=edge.source,
                type=edge.type,
                target=edge.target,
                retired_at=view.moment(retired.get(edge)),
            )
            for edge in walk.edges
        ]
        nodes = [view.visit(visit) for visit in walk.visits]
        return answering.json(reading.TraverseReply(nodes=nodes, edges=edges, truncated=walk.truncated))

    async def relationship(self, request: web.Request) -> web.Response:
        """GET /api/v1/graph/relationship"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=200, most=1000)
        source, edge_type, target = (request.query.get(name) for name in ("source", "type", "target"))
        if not (source or target):
            raise errors.Invalid(
                "source and target are missing", field="source", remedy="Give the key of at least one end."
            )
        moment = answering.moment(request, "asOf")
        as_of = None if moment is None else selection.millis(moment)
        found = await self._graph.relationships(
            viewer, source=source or None, edge_type=edge_type or None, target=target or None, limit=limit + 1
        )
        said = [one for one in found[:limit] if as_of is None or (one.document.observed_ms or as_of) <= as_of]
        retired = await self._retired(viewer, {one.edge for one in said if one.edge}, as_of)
        shown = view.relationships(said, retired)
        return answering.json(reading.RelationshipsReply(relationships=shown, truncated=len(found) > limit))

    async def _retired(
        self, viewer: scope.Scope, edges: Iterable[model.Edge], as_of: int | None
    ) -> dict[model.Edge, int]:
        """When each of the edges ceased to hold, for those that did (`kb.graph.temporal`)."""
        subjects = sorted({(edge.source, edge.type) for edge in edges if edge.type in temporal.FUNCTIONAL})
        ends: dict[model.Edge, int] = {}
        for source, kind in subjects[:_SUBJECTS]:
            said = await self._graph.relationships(viewer, source=source, edge_type=kind, limit=_PROOFS)
            ends |= temporal.retired(said, as_of_ms=as_of)
        return ends


HYBRID = openapi.Route(
    "POST",
    "/api/v1/search/hybrid",
    "Chunks by meaning and by letter, without the graph",
    body=reading.HybridRequest,
    reply=reading.HybridReply,
)
BY_KIND = openapi.Route(
    "POST",
    "/api/v1/chunks/by-kind",
    "Chunks of documents of some kinds, newest first; no model is asked",
    body=reading.ByKindRequest,
    reply=reading.ChunksReply,
)
CHUNK = openapi.Route(
    "GET",
    "/api/v1/chunks/{chunkId}",
    "A chunk, and what its sentences say",
    reply=reading.ChunkReply,
    query=openapi.SCOPE,
)
NODES = openapi.Route(
    "GET",
    "/api/v1/graph/nodes",
    "Nodes by key, part of a key (q) or type, the most mentioned first",
    reply=reading.NodesReply,
    query=openapi.SCOPE,
    optional=("q", "type", "key", "limit"),
)
TRAVERSE = openapi.Route(
    "POST",
    "/api/v1/graph/traverse",
    "A walk over relationships, breadth first, within bounds",
    body=reading.TraverseRequest,
    reply=reading.TraverseReply,
)
RELATIONSHIP = openapi.Route(
    "GET",
    "/api/v1/graph/relationship",
    "Relationships of one or two nodes with the sentences that prove them",
    reply=reading.RelationshipsReply,
    query=openapi.SCOPE,
    optional=("source", "type", "target", "limit", "asOf"),
)
