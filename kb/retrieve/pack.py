"""What was found, as the items of an evidence pack: text, provenance and, where asked for, the arithmetic. Pure."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kb import api
from kb.graph import model as graph_model
from kb.graph import temporal
from kb.retrieve import rank, view
from kb.vectors import model


@dataclass(frozen=True)
class Via:
    """The best hop to a chunk: the way, the bridge that it crosses and where the node of that leads."""

    way: rank.Way
    bridge: graph_model.Bridge
    lead: graph_model.Lead


@dataclass(frozen=True)
class Pack:
    """Everything that a search learnt, by chunk id; `cosines` by sentence id, `said` of the chunks that are shown."""

    dense: Mapping[str, float]
    lexical: Mapping[str, float]
    scores: Mapping[str, rank.Score]
    via: Mapping[str, Via]
    named: Collection[str]
    cosines: Mapping[str, float]
    said: Sequence[graph_model.Statement]
    retired: Mapping[graph_model.Edge, temporal.Retired] = field(default_factory=dict)

    def item(self, chunk: model.Chunk, weights: rank.Weights, *, explain: bool) -> api.EvidenceItem:
        """A chunk with where it comes from."""
        shown = self.shown(chunk.id)
        edge = shown.edge if shown else None
        end = self.retired.get(edge) if edge else None
        return api.EvidenceItem(
            source="RAG" if self._found(chunk.id) else "Graph",
            content=chunk.text,
            confidence=rank.confidence(self.scores[chunk.id], weights),
            provenance=api.Provenance(
                source_urn=chunk.source_urn,
                kind=chunk.kind,
                title=chunk.title,
                observed_at=chunk.observed_at or None,
                chunk_id=chunk.id,
                node_key=shown.node_key if shown else None,
                edge=api.EdgeRef(source=edge.source, type=edge.type, target=edge.target) if edge else None,
                sentence=shown.sentence if shown else None,
                metadata=chunk.said(),
                pages=[api.PageStart(offset=offset, page=page or None) for offset, page in chunk.pages()],
                places=list(shown.places) if shown else [],
                valid_until=view.moment(chunk.until_ms),
                retired_at=view.moment(end.at_ms) if end else None,
                superseded_by=end.by.target if end else None,
                access=chunk.access(),
            ),
            explanation=self._explain(chunk.id) if explain else None,
        )

    @functools.cached_property
    def _by_chunk(self) -> Mapping[str, Sequence[graph_model.Statement]]:
        found: dict[str, list[graph_model.Statement]] = {}
        for said in self.said:
            found.setdefault(said.chunk_id, []).append(said)
        return found

    def _found(self, chunk_id: str) -> bool:
        return chunk_id in self.dense or chunk_id in self.lexical

    def successors(self, chunk_ids: Collection[str]) -> dict[str, set[str]]:
        """For each of the chunks that is shown for a retired fact those that state what took its place."""
        stating: dict[graph_model.Edge, set[str]] = {}
        for said in self.said:
            if said.edge is not None:
                stating.setdefault(said.edge, set()).add(said.chunk_id)
        found: dict[str, set[str]] = {}
        for chunk_id in chunk_ids:
            shown = self.shown(chunk_id)
            end = self.retired.get(shown.edge) if shown is not None and shown.edge is not None else None
            if end is not None:
                found[chunk_id] = stating.get(end.by, set())
        return found

    def shown(self, chunk_id: str) -> graph_model.Statement | None:
        """The sentence that says most about why the chunk is here.

        Of a chunk that the graph led to, one that names the node over which it did; else the nearest to the question.
        """
        own = self._by_chunk.get(chunk_id, [])
        if not self._found(chunk_id):
            via = self.via.get(chunk_id)
            over = {via.bridge.node_key, via.lead.node_key} if via else self.named
            own = [said for said in own if said.node_key in over] or own
        return min(own, key=lambda said: (-self.cosines.get(said.sentence_id, -1.0), _telling(said)), default=None)

    def _explain(self, chunk_id: str) -> api.Explanation:
        score, via = self.scores[chunk_id], self.via.get(chunk_id)
        return api.Explanation(
            cosine=self.dense.get(chunk_id),
            bm25=self.lexical.get(chunk_id),
            fused=score.fused,
            own=score.own,
            named=score.named,
            hop=score.hop,
            lead=score.lead,
            rerank=score.rerank,
            relevance=score.relevance,
            via=self._crossed(via) if via else None,
        )

    def _crossed(self, via: Via) -> api.Crossed:
        bridge = via.bridge
        text = next((said.sentence for said in self.said if said.sentence_id == bridge.sentence_id), "")
        return api.Crossed(
            hops=via.way.hops,
            chunk_id=bridge.chunk_id,
            node_key=bridge.node_key,
            sentence=text,
            cosine=via.way.cosine,
            standing=via.way.standing,
            crowd=via.lead.crowd,
            salience=via.lead.salience,
        )


def _telling(said: graph_model.Statement) -> tuple[int, str]:
    """Of two ways to read one sentence the one that says more is shown: a relationship, then a node."""
    if said.edge is None:
        return 1, said.node_key
    return (2 if said.edge.type == "mentions" else 0), f"{said.node_key} {said.edge.type} {said.edge.target}"
