"""The search: question -> evidence pack.

    embed -> dense + lexical -> only what the graph has committed -> fuse -> what the question names
          -> two hops from the best -> rank -> rerank, where a reranker is set -> pack

Seed 001 "RAG-first Search", "Graph Expansion", "Evidence Pack Assembly".
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from crds import priority, scope
from kb import api, errors, metrics
from kb.aliases import registry
from kb.graph import model as graph_model
from kb.graph import store as graph
from kb.retrieve import calibration, facts, naming, pack, rank, rerank, sufficiency
from kb.selection import Selection
from kb.vectors import embedding, model
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)
# An indexed query takes about a millisecond; a question does not wait for a database that is away.
_ALIAS_SECONDS = 0.25
# Chunks beyond those asked for among which the successor of a retired fact is looked for.
_BEYOND = 10


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
    """What is known while a search runs, by chunk id; `cosines` of the question with sentences, by sentence id, above
    the `floor` of the model (see `kb.retrieve.calibration`).

    `bridges` leave a chunk, `via` is the best hop to one; `named` are the nodes that the question itself names;
    `history`: versions that were replaced may be among the chunks.
    """

    scores: dict[str, rank.Score]
    floor: float
    cosines: dict[str, float] = field(default_factory=dict)
    bridges: dict[str, list[graph_model.Bridge]] = field(default_factory=dict)
    via: dict[str, pack.Via] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    history: bool = False

    def score(self, chunk_id: str) -> rank.Score:
        """The score of a chunk, which may be met for the first time."""
        found = self.scores.get(chunk_id)
        if found is None:
            found = self.scores[chunk_id] = rank.Score()
        return found


class Search:
    """Answers questions from both stores. Raises what the stores and the router raise.

    `instruction` goes before each question that is embedded, and before no document; it is asked for each time where
    it goes with a model that may change. Evidence that covers less than `threshold` of a question's words is called
    insufficient (`kb.retrieve.sufficiency`).
    """

    def __init__(
        self,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        embedder: embedding.Port,
        meters: metrics.Metrics,
        weights: rank.Weights,
        breadth: Breadth,
        aliases: registry.Registry | None = None,
        *,
        instruction: str | Callable[[], str] = "",
        reranker: rerank.Reranker | None = None,
        threshold: float = 0.0,
    ) -> None:
        self._graph = graph_store
        self._vectors = vector_store
        self._embedder = embedder
        self._meters = meters
        self._weights = weights
        self._breadth = breadth
        self._aliases = aliases or registry.Nothing()
        self._instruction = instruction
        self._reranker = reranker or rerank.Nothing()
        self._threshold = threshold
        self._calibration = calibration.Calibration(embedder)

    async def retrieve(self, request: api.RetrieveRequest, urgency: priority.Priority) -> api.RetrieveReply:
        """The evidence pack for a question, best first, each chunk once."""
        [*_, last] = [event async for event in self.stream(request, urgency)]
        assert last.reply is not None
        return last.reply

    async def stream(
        self, request: api.RetrieveRequest, urgency: priority.Priority
    ) -> AsyncIterator[api.RetrieveEvent]:
        """The same in steps: how much each stage found, as soon as it is known, and the reply at the end."""
        chosen = request.selection()
        limit = max(self._breadth.hits, 3 * request.max_results)
        vector, floor = await asyncio.gather(self.embed(request.query, urgency), self._calibration.floor(urgency))
        found = await self.direct(request.scope, request.query, vector, chosen, limit=limit)
        yield api.RetrieveEvent(stage="search", found=len(found.fused))
        scores = {chunk_id: rank.Score(fused=fused) for chunk_id, fused in found.fused.items()}
        trail = _Trail(scores, floor, history=chosen.as_of is not None)
        if self._breadth.hops:
            with self._stage("hops"):
                await self._name(request, chosen, trail)
                await self._hops(request.scope, chosen, vector, trail)
                rank.lead(trail.scores, self._weights)
            yield api.RetrieveEvent(stage="graph", found=len(trail.scores.keys() - found.fused.keys()))
        reranked = await self._rerank(request, trail, urgency)
        with self._stage("pack"):
            reply = await self._pack(request, found, trail)
        reply.rerank = reranked.value
        yield api.RetrieveEvent(stage="reply", found=len(reply.items), reply=reply)

    async def embed(self, query: str, urgency: priority.Priority) -> model.Vector:
        """The question's vector; of a model that is tuned to instructions, of the question after its instruction."""
        with self._stage("embed"):
            before = self._instruction if isinstance(self._instruction, str) else self._instruction()
            [vector] = await self._embedder.embed([before + query], urgency)
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
        """Chunks by vectors and by keywords, as far as the graph has committed them, and their fused scores."""
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

    async def _name(self, request: api.RetrieveRequest, chosen: Selection, trail: _Trail) -> None:
        """Score the chunks that are about what the question names, and less those that mention it."""
        spans = naming.spans(request.query)
        names = {span.name for span in spans}
        stems = {span.stem for span in spans if span.stem}
        known, aliases, alike = await asyncio.gather(
            self._graph.named(request.scope, names, as_of=chosen.as_of),
            self._called(request.scope, names),
            self._graph.alike(request.scope, stems, as_of=chosen.as_of),
        )
        there = {name: {*known.get(name, ()), *aliases.get(name, ())} for name in {*known, *aliases}}
        exact = {key for name in naming.longest(spans, there) for key in there[name]}
        inflected = {key for stem in naming.inflected(spans, there, alike) for key in alike[stem]}
        trail.named = exact | inflected
        for lead in by_name(await self._leads(request.scope, trail.named, chosen), self._breadth.per_node):
            specific = rank.specific(lead.crowd, self._breadth.per_node, self._weights)
            worth = self._weights.named * max(rank.about(lead.salience), self._weights.mention * specific)
            if lead.node_key not in exact:
                worth *= self._weights.inflected
            if worth > 0:
                score = trail.score(lead.chunk_id)
                score.named = max(score.named, worth)

    async def _called(self, viewer: scope.Scope, names: Collection[str]) -> Mapping[str, Sequence[str]]:
        """The nodes that an alias of such a name means. Without them a question is answered all the same."""
        try:
            async with asyncio.timeout(_ALIAS_SECONDS):
                return await self._aliases.named(viewer, names)
        except (errors.Away, TimeoutError) as error:
            log.warning("a question was answered without aliases", reason=str(error) or "no answer in time")
            return {}

    async def _hops(self, viewer: scope.Scope, chosen: Selection, vector: model.Vector, trail: _Trail) -> None:
        """Score every chunk that the graph leads to, from the best of those known."""
        first = rank.order(trail.scores)[: self._breadth.own]
        await self._judge(viewer, vector, first, trail)
        for chunk_id in first:
            cosines = [trail.cosines.get(bridge.sentence_id, 0.0) for bridge in trail.bridges[chunk_id]]
            trail.scores[chunk_id].own = self._weights.own * max([0.0, *cosines])
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
        # By name and by the chunk that is left, of the bridges there the one that is worth most: the others add less.
        bridges: dict[str, dict[str, tuple[float, graph_model.Bridge]]] = {}
        nodes: set[str] = set()
        names: dict[str, str] = {}
        for seed in seeds:
            for bridge in trail.bridges[seed]:
                cosine = trail.cosines.get(bridge.sentence_id, 0.0)
                # A sentence whose vector is not there (yet) proves a hop, but cannot rank it. What the question names
                # is known already and leads nowhere new.
                if cosine > 0 and bridge.node_key not in trail.named:
                    nodes.add(bridge.node_key)
                    name = names.get(bridge.node_key)
                    if name is None:
                        name = names[bridge.node_key] = graph_model.shared_name(bridge.node_key)
                    known = bridges.setdefault(name, {})
                    if seed not in known or cosine > known[seed][0]:
                        known[seed] = cosine, bridge
        ways = {
            name: [
                (bridge, totals[seed], rank.start(cosine, totals[seed] / best, hop, self._weights))
                for seed, (cosine, bridge) in known.items()
            ]
            for name, known in bridges.items()
        }
        # What one extraction calls a film another calls a movie: the name is what they share (decision 0064).
        called = await self._graph.named(viewer, bridges.keys() - nodes, as_of=chosen.as_of)
        nodes.update(key for keys in called.values() for key in keys if graph_model.shared_name(key) in bridges)
        # Thousands of pairs for one question: what the inner loop needs is at hand.
        gain_of, bend = rank.gain, self._weights.bend
        aims: dict[tuple[float, int], float] = {}
        for lead in by_name(await self._leads(viewer, nodes, chosen), self._breadth.per_node):
            mentioned = lead.salience, lead.crowd
            aim = aims.get(mentioned)
            if aim is None:
                aim = aims[mentioned] = self._aim(lead)
            score = trail.scores.get(lead.chunk_id)
            direct, reached = (score.direct, score.hop) if score is not None else (0.0, 0.0)
            name = names.get(lead.node_key) or graph_model.shared_name(lead.node_key)
            for bridge, left, begun in ways[name]:
                if bridge.chunk_id == lead.chunk_id:
                    continue
                if score is None:
                    score = trail.score(lead.chunk_id)
                worth = begun * aim
                # A way adds no more than it is worth.
                if worth <= reached:
                    continue
                gain = gain_of(direct, worth, left, bend)
                if gain > reached:
                    score.hop = reached = gain
                    way = rank.Way(trail.cosines[bridge.sentence_id], left / best, hop, aim)
                    trail.via[lead.chunk_id] = pack.Via(way, bridge, lead)

    async def _leads(
        self, viewer: scope.Scope, node_keys: Collection[str], chosen: Selection
    ) -> list[graph_model.Lead]:
        """Where the nodes lead; what the graph does not know of the choice, the vectors do."""
        leads = await self._graph.leads(viewer, node_keys, chosen, per_node=self._breadth.per_node)
        if not chosen.labels or not leads:
            return leads
        admitted = await self._vectors.chosen(viewer, {lead.chunk_id for lead in leads}, chosen)
        return [lead for lead in leads if lead.chunk_id in admitted]

    def _aim(self, lead: graph_model.Lead) -> float:
        return rank.aim(lead.salience, lead.crowd, self._breadth.per_node, self._weights)

    async def _judge(
        self, viewer: scope.Scope, vector: model.Vector, chunk_ids: Collection[str], trail: _Trail
    ) -> None:
        """Put the bridges of the chunks, and the cosines of their sentences, into the trail."""
        unknown = [chunk_id for chunk_id in chunk_ids if chunk_id not in trail.bridges]
        if not unknown:
            return
        trail.bridges |= {chunk_id: [] for chunk_id in unknown}
        for bridge in await self._graph.bridges(viewer, unknown, history=trail.history):
            trail.bridges[bridge.chunk_id].append(bridge)
        sentences = {bridge.sentence_id for chunk_id in unknown for bridge in trail.bridges[chunk_id]}
        if sentences:
            found = await self._vectors.cosines(viewer, vector, sentences, history=trail.history)
            trail.cosines |= {key: calibration.scaled(cosine, trail.floor) for key, cosine in found.items()}

    async def _rerank(self, request: api.RetrieveRequest, trail: _Trail, urgency: priority.Priority) -> rerank.Outcome:
        """Let the reranker order the first candidates; what became of that."""
        if not self._reranker.candidates:
            return rerank.Outcome.OFF
        with self._stage("rerank"):
            first = rank.order(trail.scores)[: self._reranker.candidates]
            chunks = await self._vectors.chunks(request.scope, first, history=trail.history)
            there = [key for key in first if key in chunks]
            passages = ["\n".join([chunks[key].title, chunks[key].text]) for key in there]
            judged = await self._reranker.judge(request.query, passages, urgency)
        if judged.outcome is rerank.Outcome.DONE:
            rank.rerank(trail.scores, first, dict(zip(there, judged.relevance, strict=True)))
        return judged.outcome

    async def _pack(self, request: api.RetrieveRequest, found: Found, trail: _Trail) -> api.RetrieveReply:
        best = rank.order(trail.scores)[: request.max_results + _BEYOND]
        first = best[: request.max_results]
        chunks, packed = await self._packed(request, first, found, trail)
        # The text of a chunk that was deleted between the two stores' answers is gone, and so is the chunk.
        there = [chunk_id for chunk_id in first if chunk_id in chunks]
        successors = packed.successors(there)
        if len(there) < len(first) or successors:
            # Only then those beyond count: they take the places of what is gone, or hold what took a fact's place.
            chunks, packed = await self._packed(request, best, found, trail)
            there = [chunk_id for chunk_id in best if chunk_id in chunks]
            successors = packed.successors(there) if packed.retired else {}
        items = [
            packed.item(chunks[chunk_id], self._weights, explain=request.explain)
            for chunk_id in rank.behind(there, successors)[: request.max_results]
        ]
        # What comes behind its successor is no surer than that.
        for before, item in itertools.pairwise(items):
            item.confidence = min(item.confidence, before.confidence)
        direct = sum(item.source == "RAG" for item in items)
        nodes = {item.provenance.node_key for item in items if item.provenance.node_key}
        covered = sufficiency.coverage(
            request.query, [f"{item.provenance.title}\n{item.content}" for item in items[: sufficiency.BEST]]
        )
        sufficient = bool(items) and covered >= self._threshold
        if not sufficient:
            self._meters.insufficient.inc()
        summary = f"Found {direct} RAG results and {len(nodes)} related graph nodes."
        if items and not sufficient:
            summary += " They may not answer the question: much of it is in none of the best."
        return api.RetrieveReply(items=items, summary=summary, coverage=covered, sufficient=sufficient)

    async def _packed(
        self, request: api.RetrieveRequest, chunk_ids: Collection[str], found: Found, trail: _Trail
    ) -> tuple[Mapping[str, model.Chunk], pack.Pack]:
        """The chunks themselves, and what is known of them."""
        left = {trail.via[chunk_id].bridge.chunk_id for chunk_id in chunk_ids if chunk_id in trail.via}
        chunks, said = await asyncio.gather(
            self._vectors.chunks(request.scope, chunk_ids, history=trail.history),
            self._graph.mentioned(
                request.scope, {*chunk_ids, *(left if request.explain else ())}, history=trail.history
            ),
        )
        edges = {one.edge for one in said if one.edge}
        retired = await facts.retired(self._graph, request.scope, edges, as_of=request.as_of)
        return chunks, pack.Pack(
            found.dense,
            found.lexical,
            trail.scores,
            trail.via,
            trail.named,
            trail.cosines,
            said,
            retired,
        )

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        with self._meters.stages.labels(name).time():
            yield


def by_name(leads: Sequence[graph_model.Lead], most: int) -> list[graph_model.Lead]:
    """Nodes of one name as one: each chunk once, by its most salient mention; together they are the crowd.

    `most`: what was taken at one node at most, and is taken at one name.
    """
    found: dict[str, dict[str, graph_model.Lead]] = {}
    keys: dict[str, str] = {}
    for lead in leads:
        name = keys.get(lead.node_key) or keys.setdefault(lead.node_key, graph_model.shared_name(lead.node_key))
        best = found.setdefault(name, {})
        if lead.chunk_id not in best or lead.salience > best[lead.chunk_id].salience:
            best[lead.chunk_id] = lead
    return [
        lead._replace(crowd=min(max(len(best), lead.crowd), most))
        for best in found.values()
        for lead in sorted(best.values(), key=lambda lead: (-lead.salience, lead.chunk_id))[:most]
    ]
