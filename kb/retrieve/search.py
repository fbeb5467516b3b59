"""The search: question -> evidence pack.

    embed -> dense + lexical -> only what the graph has committed -> fuse -> what the question names
          -> two hops from the best -> rank -> pack

Seed 001 "RAG-first Search", "Graph Expansion", "Evidence Pack Assembly".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from crds import priority, scope
from kb import metrics, wire
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.retrieve import naming, pack, rank
from kb.selection import Selection
from kb.vectors import embedding, model
from kb.vectors import store as vectors


@dataclass(frozen=True)
class Breadth:
    """How widely is searched.

    `hits`: chunks taken from each list. `own`: those found directly that are judged by their sentences too. `seeds`:
    chunks to hop from, `hops`: how often at most; without hops the graph is not asked for anything but what is
    committed. `per_node` bounds the chunks taken at one node.
    """

    hits: int = 50
    own: int = 30
    seeds: int = 8
    hops: int = 2
    per_node: int = 50


@dataclass(frozen=True)
class Found:
    """What was found without the graph: raw and fused scores by chunk id."""

    dense: Mapping[str, float]
    lexical: Mapping[str, float]
    fused: Mapping[str, float]


@dataclass
class _Trail:
    """What is known while a search runs, by chunk id; `cosines` of the question with sentences, by sentence id.

    `bridges` leave a chunk, `via` is the best hop to one; `named` are the nodes that the question itself names.
    """

    scores: dict[str, rank.Score]
    cosines: dict[str, float] = field(default_factory=dict)
    bridges: dict[str, list[graph_model.Bridge]] = field(default_factory=dict)
    via: dict[str, pack.Via] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def score(self, chunk_id: str) -> rank.Score:
        """The score of a chunk, which may be met for the first time."""
        found = self.scores.get(chunk_id)
        if found is None:
            found = self.scores[chunk_id] = rank.Score()
        return found


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
        [*_, last] = [event async for event in self.stream(request, urgency)]
        assert last.reply is not None
        return last.reply

    async def stream(
        self, request: wire.RetrieveRequest, urgency: priority.Priority
    ) -> AsyncIterator[wire.RetrieveEvent]:
        """The same in steps: how much each stage found, as soon as it is known, and the reply at the end."""
        chosen = request.selection()
        limit = max(self._breadth.hits, 3 * request.max_results)
        vector = await self.embed(request.query, urgency)
        found = await self.direct(request.scope, request.query, vector, chosen, limit=limit)
        yield wire.RetrieveEvent(stage="search", found=len(found.fused))
        trail = _Trail({chunk_id: rank.Score(fused=fused) for chunk_id, fused in found.fused.items()})
        if self._breadth.hops:
            with self._stage("hops"):
                await self._name(request, chosen, trail)
                await self._hops(request.scope, chosen, vector, trail)
                rank.lead(trail.scores, self._weights)
            yield wire.RetrieveEvent(stage="graph", found=len(trail.scores.keys() - found.fused.keys()))
        with self._stage("pack"):
            reply = await self._pack(request, found, trail)
        yield wire.RetrieveEvent(stage="reply", found=len(reply.items), reply=reply)

    async def embed(self, query: str, urgency: priority.Priority) -> model.Vector:
        """The question's vector."""
        with self._stage("embed"):
            [vector] = await self._embedder.embed([query], urgency)
        return vector

    async def direct(
        self,
        viewer: scope.Scope,
        query: str,
        vector: model.Vector,
        chosen: Selection,
        *,
        limit: int,
        alpha: float | None = None,
    ) -> Found:
        """Chunks by meaning and by letter, as far as the graph has committed them, and their fused scores."""
        with self._stage("search"):
            dense, lexical = await asyncio.gather(
                self._vectors.dense(viewer, vector, limit=limit, chosen=chosen),
                self._vectors.lexical(viewer, query, limit=limit, chosen=chosen),
            )
            hits = {hit.chunk_id for hit in (*dense, *lexical)}
            committed = await self._graph.committed(viewer, hits, chosen)
        by_meaning = {hit.chunk_id: hit.score for hit in dense if hit.chunk_id in committed}
        by_letter = {hit.chunk_id: hit.score for hit in lexical if hit.chunk_id in committed}
        share = self._weights.alpha if alpha is None else alpha
        return Found(by_meaning, by_letter, rank.fuse(by_meaning, by_letter, share))

    async def _name(self, request: wire.RetrieveRequest, chosen: Selection, trail: _Trail) -> None:
        """Score the chunks that are about what the question names."""
        spans = naming.spans(request.query)
        known = await self._graph.named(request.scope, {span.name for span in spans})
        trail.named = {key for name in naming.longest(spans, known) for key in known[name]}
        leads = await self._graph.leads(request.scope, trail.named, chosen, per_node=self._breadth.per_node)
        for lead in leads:
            worth = self._weights.named * rank.about(lead.salience)
            if worth > 0:
                score = trail.score(lead.chunk_id)
                score.named = max(score.named, worth)

    async def _hops(self, viewer: scope.Scope, chosen: Selection, vector: model.Vector, trail: _Trail) -> None:
        """Score every chunk that the graph leads to, from the best of those known."""
        first = rank.order(trail.scores)[: self._breadth.own]
        await self._judge(viewer, vector, first, trail)
        for chunk_id in first:
            cosines = [trail.cosines.get(bridge.sentence_id, 0.0) for bridge in trail.bridges[chunk_id]]
            trail.scores[chunk_id].own = self._weights.own * max(cosines, default=0.0)
        left: set[str] = set()
        for hop in range(1, self._breadth.hops + 1):
            seeds = [one for one in rank.order(trail.scores) if one not in left][: self._breadth.seeds]
            if not seeds:
                break
            left.update(seeds)
            await self._judge(viewer, vector, seeds, trail)
            await self._hop(viewer, chosen, seeds, hop, trail)

    async def _hop(
        self, viewer: scope.Scope, chosen: Selection, seeds: Collection[str], hop: int, trail: _Trail
    ) -> None:
        """Score the chunks to which nodes of the seeds lead; each by its best way."""
        best = max(score.total for score in trail.scores.values()) or 1.0
        totals = {seed: trail.scores[seed].total for seed in seeds}
        # By node: the bridge, the score of the chunk that is left, and what of the way's worth that says.
        bridges: dict[str, list[tuple[graph_model.Bridge, float, float]]] = {}
        for seed in seeds:
            left = totals[seed]
            for bridge in trail.bridges[seed]:
                cosine = trail.cosines.get(bridge.sentence_id, 0.0)
                # A sentence whose vector is not there (yet) proves a hop, but cannot rank it. What the question names
                # is known already and leads nowhere new.
                if bridge.node_key not in trail.named and cosine > 0:
                    begun = rank.start(cosine, left / best, hop, self._weights)
                    bridges.setdefault(bridge.node_key, []).append((bridge, left, begun))
        # Thousands of pairs for one question: what the inner loop needs is at hand.
        gain_of, bend = rank.gain, self._weights.bend
        for lead in await self._graph.leads(viewer, bridges, chosen, per_node=self._breadth.per_node):
            aim, score = self._aim(lead), trail.scores.get(lead.chunk_id)
            direct = score.direct if score is not None else 0.0
            for bridge, left, begun in bridges[lead.node_key]:
                if bridge.chunk_id == lead.chunk_id:
                    continue
                if score is None:
                    score = trail.score(lead.chunk_id)
                gain = gain_of(direct, begun * aim, left, bend)
                if gain > score.hop:
                    score.hop = gain
                    way = rank.Way(trail.cosines[bridge.sentence_id], left / best, hop, aim)
                    trail.via[lead.chunk_id] = pack.Via(way, bridge, lead)

    def _aim(self, lead: graph_model.Lead) -> float:
        return rank.aim(lead.salience, lead.crowd, self._breadth.per_node)

    async def _judge(
        self, viewer: scope.Scope, vector: model.Vector, chunk_ids: Collection[str], trail: _Trail
    ) -> None:
        """Put the bridges of the chunks, and the cosines of their sentences, into the trail."""
        unknown = [chunk_id for chunk_id in chunk_ids if chunk_id not in trail.bridges]
        if not unknown:
            return
        trail.bridges |= {chunk_id: [] for chunk_id in unknown}
        for bridge in await self._graph.bridges(viewer, unknown):
            trail.bridges[bridge.chunk_id].append(bridge)
        sentences = {bridge.sentence_id for chunk_id in unknown for bridge in trail.bridges[chunk_id]}
        if sentences:
            trail.cosines |= await self._vectors.cosines(viewer, vector, sentences)

    async def _pack(self, request: wire.RetrieveRequest, found: Found, trail: _Trail) -> wire.RetrieveReply:
        best = rank.order(trail.scores)[: request.max_results]
        left = {trail.via[chunk_id].bridge.chunk_id for chunk_id in best if chunk_id in trail.via}
        chunks, said = await asyncio.gather(
            self._vectors.chunks(request.scope, best),
            self._graph.mentioned(request.scope, {*best, *(left if request.explain else ())}),
        )
        packed = pack.Pack(found.dense, found.lexical, trail.scores, trail.via, trail.named, trail.cosines, said)
        # The text of a chunk that was deleted between the two stores' answers is gone, and so is the chunk.
        items = [
            packed.item(chunks[chunk_id], self._weights, explain=request.explain)
            for chunk_id in best
            if chunk_id in chunks
        ]
        direct = sum(item.source == "RAG" for item in items)
        nodes = {item.provenance.node_key for item in items if item.provenance.node_key}
        return wire.RetrieveReply(
            items=items, summary=f"Found {direct} RAG results and {len(nodes)} related graph nodes."
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self._meters.stages.labels(name).time():
            yield
