"""The search: question -> evidence pack.

    embed -> dense + lexical -> only what the graph has committed -> fuse -> two hops from the best -> rank -> pack

Seed 001 "RAG-first Search", "Graph Expansion", "Evidence Pack Assembly".
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from crds import priority
from kb import metrics, wire
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.retrieve import rank
from kb.vectors import embedding, model
from kb.vectors import store as vectors


@dataclass(frozen=True)
class Breadth:
    """How widely is searched.

    `hits`: chunks taken from each list. `own`: those found directly that are judged by their sentences too. `seeds`:
    chunks to hop from, `hops`: how often at most. `per_node` and `reach` bound what the graph returns.
    """

    hits: int = 50
    own: int = 30
    seeds: int = 8
    hops: int = 2
    per_node: int = 50
    reach: int = 1000


@dataclass
class _Trail:
    """What is known about the ways to chunks while a search runs.

    `cosines`: sentence id -> cosine with the question. `ways`: chunk id -> the ways to it. `shown`: chunk id -> what
    its best way is worth and through which sentence it goes, for the provenance.
    """

    cosines: dict[str, float] = field(default_factory=dict)
    ways: dict[str, list[rank.Way]] = field(default_factory=dict)
    shown: dict[str, tuple[float, graph_model.Reach]] = field(default_factory=dict)

    def add(self, reach: graph_model.Reach, way: rank.Way, worth: float) -> None:
        """Remember a way; the first of the best is shown."""
        self.ways.setdefault(reach.chunk_id, []).append(way)
        known = self.shown.get(reach.chunk_id)
        if known is None or worth > known[0]:
            self.shown[reach.chunk_id] = (worth, reach)


class Search:
    """Answers questions from both stores. Raises what the stores and the router raise."""

    def __init__(
        self,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        embedder: embedding.Embedder,
        meters: metrics.Metrics,
        weights: rank.Weights,
        breadth: Breadth,
    ) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._embedder = embedder
        self._meters = meters
        self._weights = weights
        self._breadth = breadth

    async def retrieve(self, request: wire.RetrieveRequest, urgency: priority.Priority) -> wire.RetrieveReply:
        """The evidence pack for a question, best first, each chunk once."""
        with self._meters.stages.labels("embed").time():
            [vector] = await self._embedder.embed([request.query], urgency)
        with self._meters.stages.labels("search").time():
            fused, chunks = await self._direct(request, vector)
        with self._meters.stages.labels("hops").time():
            trail = await self._hops(request, vector, fused)
        scores = rank.combine(fused, trail.ways, self._weights)
        best = _top(scores)[: request.max_results]
        chunks |= await self._vectors.chunks(request.scope, [key for key in best if key not in chunks])
        # The text of a chunk that was deleted between the two stores' answers is gone, and so is the chunk.
        best = [chunk_id for chunk_id in best if chunk_id in chunks]
        confidence = rank.confidence(scores, self._weights)
        shown = {chunk_id: trail.shown[chunk_id][1] for chunk_id in best if chunk_id in trail.shown}
        items = [
            _item(chunks[chunk_id], confidence[chunk_id], chunk_id in fused, shown.get(chunk_id)) for chunk_id in best
        ]
        nodes = {reach.node_key for reach in shown.values()}
        direct = sum(item.source == "RAG" for item in items)
        summary = f"Found {direct} RAG results and {len(nodes)} related graph nodes."
        return wire.RetrieveReply(items=items, summary=summary)

    async def _direct(
        self, request: wire.RetrieveRequest, vector: model.Vector
    ) -> tuple[dict[str, float], dict[str, model.Chunk]]:
        limit = max(self._breadth.hits, 3 * request.max_results)
        dense, lexical = await asyncio.gather(
            self._vectors.dense(request.scope, vector, limit=limit, kinds=request.kinds),
            self._vectors.lexical(request.scope, request.query, limit=limit, kinds=request.kinds),
        )
        chunks = {hit.chunk.id: hit.chunk for hit in (*dense, *lexical)}
        committed = await self._graph.committed(request.scope, chunks, request.kinds)
        fused = rank.fuse(
            {hit.chunk.id: hit.score for hit in dense if hit.chunk.id in committed},
            {hit.chunk.id: hit.score for hit in lexical if hit.chunk.id in committed},
            self._weights.alpha,
        )
        return fused, {chunk_id: chunk for chunk_id, chunk in chunks.items() if chunk_id in committed}

    async def _hops(self, request: wire.RetrieveRequest, vector: model.Vector, fused: dict[str, float]) -> _Trail:
        """The ways to every chunk that the graph leads to, from the best of those found directly."""
        trail = _Trail()
        if not self._breadth.hops:
            return trail
        found = _top(fused)[: self._breadth.own]
        own = await self._judged(request, vector, await self._graph.mentioned(request.scope, found), trail)
        for reach in own:
            way = rank.Way(trail.cosines[reach.sentence_id])
            trail.add(reach, way, way.worth(self._weights))
        seen: set[str] = set()
        for hop in range(1, self._breadth.hops + 1):
            scores = rank.combine(fused, trail.ways, self._weights)
            seeds = [chunk_id for chunk_id in _top(scores) if chunk_id not in seen][: self._breadth.seeds]
            if not seeds:
                break
            seen.update(seeds)
            await self._hop(request, vector, seeds, hop, trail)
        return trail

    async def _hop(
        self, request: wire.RetrieveRequest, vector: model.Vector, seeds: list[str], hop: int, trail: _Trail
    ) -> None:
        starts, reached = await asyncio.gather(
            self._graph.mentioned(request.scope, seeds),
            self._graph.reach(
                request.scope,
                seeds,
                kinds=request.kinds,
                per_node=self._breadth.per_node,
                limit=self._breadth.reach,
            ),
        )
        # How well the question fits the sentence through which each node is left.
        bridges: dict[str, float] = {}
        for start in await self._judged(request, vector, starts, trail):
            cosine = trail.cosines[start.sentence_id]
            bridges[start.node_key] = max(bridges.get(start.node_key, -1.0), cosine)
        crowds = _crowds(reached)
        for reach in sorted(reached, key=_telling):
            cosine = max((bridges[end] for end in _ends(reach) if end in bridges), default=0.0)
            way = rank.Way(cosine, crowd=crowds[reach.node_key], hops=hop)
            trail.add(reach, way, way.worth(self._weights))

    async def _judged(
        self, request: wire.RetrieveRequest, vector: model.Vector, reached: list[graph_model.Reach], trail: _Trail
    ) -> list[graph_model.Reach]:
        """Those of `reached` whose sentence has a cosine, which is in the trail afterwards; the most telling first.

        A sentence whose vector is not there (yet) proves a hop, but cannot rank it.
        """
        missing = {reach.sentence_id for reach in reached} - trail.cosines.keys()
        if missing:
            trail.cosines |= await self._vectors.cosines(request.scope, vector, missing)
        return sorted((reach for reach in reached if reach.sentence_id in trail.cosines), key=_telling)


def _ends(reach: graph_model.Reach) -> tuple[str, ...]:
    """The nodes from which the hop may have started."""
    return (reach.edge.source, reach.edge.target) if reach.edge else (reach.node_key,)


def _crowds(reached: list[graph_model.Reach]) -> dict[str, int]:
    """Node -> how many chunks it leads to: what leads everywhere says little about any of them."""
    chunks: dict[str, set[str]] = {}
    for reach in reached:
        chunks.setdefault(reach.node_key, set()).add(reach.chunk_id)
    return {node: len(found) for node, found in chunks.items()}


def _top(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))


def _telling(reach: graph_model.Reach) -> int:
    """Of two ways through one sentence the one that says more is shown: a relationship, then a node."""
    if reach.edge is None:
        return 1
    return 2 if reach.edge.type == "mentions" else 0


def _item(chunk: model.Chunk, confidence: float, direct: bool, reach: graph_model.Reach | None) -> wire.EvidenceItem:
    edge = reach.edge if reach else None
    return wire.EvidenceItem(
        source="RAG" if direct else "Graph",
        content=chunk.text,
        confidence=confidence,
        provenance=wire.Provenance(
            source_urn=chunk.source_urn,
            title=chunk.title,
            chunk_id=chunk.id,
            node_key=reach.node_key if reach else None,
            edge=wire.EdgeRef(source=edge.source, type=edge.type, target=edge.target) if edge else None,
            sentence=reach.sentence if reach else None,
        ),
    )
