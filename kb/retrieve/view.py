"""What the stores hold, as the wire shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from kb import api
from kb.graph import codec, temporal
from kb.graph import model as graph
from kb.retrieve import facts
from kb.vectors import model as vectors

# Chunk ids shown of one node or edge; all of them would be the whole knowledge base for a hub.
_CHUNKS = 100
_WORDS = 50


def chunk(one: vectors.Chunk) -> api.Chunk:
    """A chunk whole."""
    return api.Chunk(
        chunk_id=one.id,
        source_urn=one.source_urn,
        kind=one.kind,
        title=one.title,
        heading=one.heading,
        text=one.text,
        ordinal=one.ordinal,
        start=one.start,
        end=one.end,
        observed_at=datetime.fromisoformat(one.observed_at) if one.observed_at else None,
        valid_until=moment(one.until_ms),
        graph_refs=list(one.graph_refs),
        metadata=one.said(),
        access=one.access(),
    )


def statement(said: graph.Statement) -> api.Statement:
    """A sentence of a chunk with what it names or proves."""
    return api.Statement(node_key=said.node_key, edge=edge(said.edge), sentence=said.sentence, places=list(said.places))


def node(one: graph.Node) -> api.Node:
    """A node with the beginnings of its lists."""
    return api.Node(
        key=one.key,
        type=one.type,
        names=list(one.names[:_WORDS]),
        descriptions=list(one.descriptions[:_WORDS]),
        rag_chunks=list(one.chunk_ids[:_CHUNKS]),
        mentions=one.mentions,
        properties=dict(one.properties),
    )


def visit(one: graph.Visit) -> api.Visit:
    """A node of a walk."""
    return api.Visit(key=one.node_key, hops=one.hops, edge=edge(one.edge))


def edge(one: graph.Edge | None) -> api.EdgeRef | None:
    """An edge by its ends."""
    return None if one is None else api.EdgeRef(source=one.source, type=one.type, target=one.target)


def related(edge: graph.Edge, end: temporal.Retired | None, proofs: Sequence[graph.Statement]) -> api.Related:
    """A relationship of a walk."""
    ends = {"source": edge.source, "type": edge.type, "target": edge.target}
    return api.Related(**ends, **_end(end), confidence=facts.confidence(proofs))


def relationships(
    said: Sequence[graph.Statement], retired: Mapping[graph.Edge, temporal.Retired]
) -> list[api.Relationship]:
    """Proofs gathered by their edge, in the order in which they come."""
    gathered: dict[graph.Edge, list[graph.Statement]] = {}
    for one in said:
        if one.edge is not None:
            gathered.setdefault(one.edge, []).append(one)
    return [
        api.Relationship(
            source=of.source,
            type=of.type,
            target=of.target,
            **_end(retired.get(of)),
            confidence=facts.confidence(proofs),
            properties=codec.properties((one.observed_ms, one.document.source_urn, one.properties) for one in proofs),
            evidence=[_mention(one) for one in proofs],
        )
        for of, proofs in gathered.items()
    ]


def _end(end: temporal.Retired | None) -> dict[str, Any]:
    return {} if end is None else {"retired_at": moment(end.at_ms), "superseded_by": end.by.target}


def moment(millis: int | None) -> datetime | None:
    """The time of `kb.selection.millis`."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _mention(said: graph.Statement) -> api.Mention:
    return api.Mention(
        chunk_id=said.chunk_id,
        source_urn=said.document.source_urn,
        title=said.document.title,
        kind=said.document.kind,
        observed_at=moment(said.document.observed_ms),
        valid_until=moment(said.document.until_ms),
        sentence=said.sentence,
        places=list(said.places),
    )
