"""The search: question -> evidence pack.

    embed -> dense + lexical -> only what the graph has committed -> fuse -> two hops from the best -> rank -> pack

Seed 001 "RAG-first Search", "Graph Expansion", "Evidence Pack Assembly".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from crds import priority
from kb import metrics, wire
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.retrieve import rank
from kb.vectors import embedding, model
from kb.vectors import store as vectors


@dataclass(frozen=True)
class Breadth:
    """How widely is searched: `hits` per list and result asked for, `seeds` chunks to hop from, `hops` at most."""

    hits: int = 50
    seeds: int = 8
    hops: int = 2
    per_node: int = 50
    reach: int = 1000


@dataclass(frozen=True)
class _Way:
    """How the graph leads to a chunk: its best sentence, what it is worth, and after how many hops."""

    reach: graph_model.Reach
    cosine: float
    hops: int


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
            ways = await self._hops(request, vector, fused)
        sentences = {chunk_id: (way.cosine, way.hops) for chunk_id, way in ways.items()}
        scores = rank.combine(fused, sentences, self._weights)
        best = sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))[: request.max_results]
        chunks |= await self._vectors.chunks(request.scope, [key for key in best if key not in chunks])
        # The text of a chunk that was deleted between the two stores' answers is gone, and so is the chunk.
        best = [chunk_id for chunk_id in best if chunk_id in chunks]
        confidence = rank.confidence(scores, self._weights)
        items = [
            _item(chunks[chunk_id], confidence[chunk_id], fused.get(chunk_id), ways.get(chunk_id)) for chunk_id in best
        ]
        nodes = {way.reach.node_key for chunk_id, way in ways.items() if chunk_id in chunks}
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

    async def _hops(
        self, request: wire.RetrieveRequest, vector: model.Vector, fused: dict[str, float]
    ) -> dict[str, _Way]:
        """Chunk id -> best way to it. Chunks that were found directly are judged by their own sentences (0 hops)."""
        ways: dict[str, _Way] = {}
        if not self._breadth.hops:
            return ways
        own = await self._graph.mentioned(request.scope, fused.keys())
        await self._judge(request, vector, own, 0, ways)
        scores = dict(fused)
        seen: set[str] = set()
        for hop in range(1, self._breadth.hops + 1):
            seeds = [key for key in _top(scores) if key not in seen][: self._breadth.seeds]
            if not seeds:
                break
            seen.update(seeds)
            reached = await self._graph.reach(
                request.scope,
                seeds,
                kinds=request.kinds,
                per_node=self._breadth.per_node,
                limit=self._breadth.reach,
            )
            await self._judge(request, vector, [way for way in reached if way.chunk_id not in fused], hop, ways)
            found = {chunk_id: (way.cosine, way.hops) for chunk_id, way in ways.items()}
            scores = rank.combine(fused, found, self._weights)
        return ways

    async def _judge(
        self,
        request: wire.RetrieveRequest,
        vector: model.Vector,
        reached: Iterable[graph_model.Reach],
        hops: int,
        ways: dict[str, _Way],
    ) -> None:
        """Keep the best sentence of every chunk that was not reached in fewer hops."""
        fresh = [way for way in reached if way.chunk_id not in ways or ways[way.chunk_id].hops >= hops]
        cosines = await self._vectors.cosines(request.scope, vector, {way.sentence_id for way in fresh})
        for way in sorted(fresh, key=_telling):
            cosine = cosines.get(way.sentence_id)
            if cosine is None:
                # Its vector is not there (yet): the sentence proves the hop, but cannot rank it.
                continue
            known = ways.get(way.chunk_id)
            if known is None or cosine > known.cosine:
                ways[way.chunk_id] = _Way(way, cosine, hops)


def _telling(way: graph_model.Reach) -> int:
    """Of two ways through one sentence the one that says more is shown: a relationship, then a node."""
    if way.edge is None:
        return 1
    return 2 if way.edge.type == "mentions" else 0


def _top(scores: dict[str, float]) -> list[str]:
    return sorted(scores, key=lambda chunk_id: (-scores[chunk_id], chunk_id))


def _item(chunk: model.Chunk, confidence: float, fused: float | None, way: _Way | None) -> wire.EvidenceItem:
    edge = way.reach.edge if way else None
    return wire.EvidenceItem(
        source="RAG" if fused is not None else "Graph",
        content=chunk.text,
        confidence=confidence,
        provenance=wire.Provenance(
            source_urn=chunk.source_urn,
            title=chunk.title,
            chunk_id=chunk.id,
            node_key=way.reach.node_key if way else None,
            edge=wire.EdgeRef(source=edge.source, type=edge.type, target=edge.target) if edge else None,
            sentence=way.reach.sentence if way else None,
        ),
    )
