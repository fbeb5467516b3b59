"""Looking around in the knowledge base: hybrid search, chunks, nodes, walks, relationships."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from aiohttp import web

from crds import priority, scope
from kb import api, errors, routes, selection
from kb.aliases import registry
from kb.extract import reference
from kb.graph import model
from kb.graph import store as graph
from kb.retrieve import facts, search, view
from kb.service.http import answering, body, openapi
from kb.vectors import store as vectors

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Exploring:
    """The routes of a process that reads."""

    def __init__(
        self,
        finder: search.Search,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        aliases: registry.Registry | None = None,
    ) -> None:
        self._search = finder
        self._graph = graph_store
        self._vectors = vector_store
        self._aliases = aliases or registry.Nothing()

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.SEARCH_HYBRID, self.hybrid),
            (routes.CHUNKS_BY_KIND, self.by_kind),
            (routes.CHUNKS_SHOW, self.chunk),
            (routes.GRAPH_NODES, self.nodes),
            (routes.GRAPH_TRAVERSE, self.traverse),
            (routes.GRAPH_RELATIONSHIPS, self.relationship),
        ]

    async def hybrid(self, request: web.Request) -> web.Response:
        """POST /api/v1/search/hybrid"""
        asked = await body.read(request, api.HybridRequest)
        return answering.json(await self.found(asked, body.urgency(request)))

    async def found(self, asked: api.HybridRequest, urgency: priority.Priority | None) -> api.HybridReply:
        """The chunks of a search."""
        vector = await self._search.embed(asked.query, answering.or_background(urgency))
        limit = max(50, asked.limit)
        chosen = asked.selection()
        found = await self._search.direct(asked.scope, asked.query, vector, chosen, limit=limit, alpha=asked.alpha)
        best = sorted(found.fused, key=lambda key: (-found.fused[key], key))[: asked.limit]
        chunks = await self._vectors.chunks(asked.scope, best, history=asked.as_of is not None)
        hits = [
            api.Hit(
                chunk=view.chunk(chunks[key]),
                score=found.fused[key],
                cosine=found.dense.get(key),
                bm25=found.lexical.get(key),
            )
            for key in best
            if key in chunks
        ]
        return api.HybridReply(hits=hits)

    async def by_kind(self, request: web.Request) -> web.Response:
        """POST /api/v1/chunks/by-kind"""
        asked = await body.read(request, api.ByKindRequest)
        chosen = asked.selection()
        found = await self._vectors.newest(asked.scope, chosen, limit=asked.limit + 1)
        committed = await self._graph.committed(asked.scope, [chunk.id for chunk in found], chosen)
        shown = [view.chunk(chunk) for chunk in found if chunk.id in committed][: asked.limit]
        return answering.json(api.ChunksReply(chunks=shown, truncated=len(found) > asked.limit))

    async def chunk(self, request: web.Request) -> web.Response:
        """GET /api/v1/chunks/{chunkId}"""
        viewer, chunk_id = body.owner(request), request.match_info["chunkId"]
        missing = errors.NotFound(
            f"no chunk {chunk_id!r} in this scope", field="chunkId", remedy="Use a chunkId that a search answered."
        )
        if not _UUID.fullmatch(chunk_id):
            raise missing
        found = (await self._vectors.chunks(viewer, [chunk_id], history=True)).get(chunk_id)
        if found is None:
            raise missing
        # A version that was replaced was known until the millisecond in which that happened.
        last = view.moment(found.until_ms and found.until_ms - 1)
        if not await self._graph.committed(viewer, [chunk_id], selection.Selection(as_of=last)):
            raise missing
        past = found.until_ms is not None
        said = [view.statement(one) for one in await self._graph.mentioned(viewer, [chunk_id], history=past)]
        return answering.json(api.ChunkReply(chunk=view.chunk(found), said=said))

    async def nodes(self, request: web.Request) -> web.Response:
        """GET /api/v1/graph/nodes"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=50, most=500)
        asked = request.query.getall("key", [])
        keys = {key for meant in (await self._meant(viewer, asked)).values() for key in meant}
        found = await self._graph.nodes(
            viewer,
            keys=keys if asked else None,
            text=request.query.get("q"),
            node_type=request.query.get("type"),
            limit=limit + 1,
            as_of=answering.moment(request, "asOf"),
            having=_having(request),
        )
        shown = [view.node(one) for one in found[:limit]]
        return answering.json(api.NodesReply(nodes=shown, truncated=len(found) > limit))

    async def traverse(self, request: web.Request) -> web.Response:
        """POST /api/v1/graph/traverse"""
        asked = await body.read(request, api.TraverseRequest)
        types = None if asked.edge_types is None else tuple(reference.edge_type(one) for one in asked.edge_types)
        steps = model.Steps(asked.hops, asked.limit, asked.fan_out, types)
        start = [key for meant in (await self._meant(asked.scope, asked.start)).values() for key in meant]
        walk = await self._graph.traverse(asked.scope, list(dict.fromkeys(start)), steps, as_of=asked.as_of)
        retired = await facts.retired(self._graph, asked.scope, walk.edges, as_of=asked.as_of)
        proofs = await self._graph.proofs(asked.scope, walk.edges, as_of=asked.as_of)
        edges = [view.related(edge, retired.get(edge), proofs.get(edge, ())) for edge in walk.edges]
        nodes = [view.visit(visit) for visit in walk.visits]
        return answering.json(api.TraverseReply(nodes=nodes, edges=edges, truncated=walk.truncated))

    async def relationship(self, request: web.Request) -> web.Response:
        """GET /api/v1/graph/relationship"""
        viewer = body.owner(request)
        limit = answering.number(request, "limit", default=200, most=1000)
        source, target = (request.query.get(name, "") for name in ("source", "target"))
        edge_type = reference.edge_type(request.query.get("type", ""))
        if not (source or target):
            raise errors.Invalid(
                "source and target are missing", field="source", remedy="Give the key of at least one end."
            )
        as_of, history = answering.moment(request, "asOf"), answering.flag(request, "history")
        meant = await self._meant(viewer, [end for end in (source, target) if end])
        found: list[model.Statement] = []
        for one, other in itertools.product(meant.get(source, [None]), meant.get(target, [None])):
            found += await self._graph.relationships(
                viewer,
                source=one,
                edge_type=edge_type or None,
                target=other,
                limit=limit + 1,
                as_of=as_of,
                history=history,
            )
        said = found[:limit]
        edges = {one.edge for one in said if one.edge}
        retired = await facts.retired(self._graph, viewer, edges, as_of=as_of, history=history)
        shown = view.relationships(said, retired)
        return answering.json(api.RelationshipsReply(relationships=shown, truncated=len(found) > limit))

    async def _meant(self, viewer: scope.Scope, asked: Sequence[str]) -> dict[str, list[str]]:
        """By what was asked for: its canonical key, itself, and, where the key is an alias, what it means.

        Itself, because an answer's own key (`email::m1@acme.com`) may be read as another one. The key beside what it
        means, because an alias of one project leaves the node of that name in another one that the viewer sees.
        """
        keys = {text: reference.normalise(text, viewer) or text for text in asked}
        aliases = await self._aliases.resolve(viewer, set(keys.values())) if keys else {}
        return {
            text: list(dict.fromkeys((key, text, *([aliases[key]] if key in aliases else ()))))
            for text, key in keys.items()
        }


def _having(request: web.Request) -> tuple[tuple[str, ...], ...]:
    """The properties that nodes must have, as labels: of one name any of its values is enough."""
    wanted: dict[str, list[str]] = {}
    for given in request.query.getall("property", []):
        name, separator, value = given.partition("=")
        if not name or not separator or len(given) > selection.LABEL_CHARS:
            raise errors.Invalid(
                f"property={given[:100]!r} is not NAME=VALUE of at most {selection.LABEL_CHARS} characters",
                field="property",
                remedy="Give it as in property=status=open.",
            )
        wanted.setdefault(name, []).append(value)
    return tuple(selection.labels({name: values}) for name, values in wanted.items())
