"""What the stores hold, as the wire shows it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kb import reading, wire
from kb.graph import model as graph
from kb.vectors import model as vectors

# Chunk ids shown of one node or edge; all of them would be the whole knowledge base for a hub.
_CHUNKS = 100
_WORDS = 50


def chunk(one: vectors.Chunk) -> reading.Chunk:
    """A chunk whole."""
    return reading.Chunk(
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
        graph_refs=list(one.graph_refs),
    )


def statement(said: graph.Said) -> reading.Statement:
    """A sentence of a chunk with what it names or proves."""
    return reading.Statement(node_key=said.node_key, edge=edge(said.edge), sentence=said.sentence)


def node(one: graph.Node) -> reading.Node:
    """A node with the beginnings of its lists."""
    return reading.Node(
        key=one.key,
        type=one.type,
        names=list(one.names[:_WORDS]),
        descriptions=list(one.descriptions[:_WORDS]),
        rag_chunks=list(one.chunk_ids[:_CHUNKS]),
        mentions=one.mentions,
    )


def visit(one: graph.Visit) -> reading.Visit:
    """A node of a walk."""
    return reading.Visit(key=one.node_key, hops=one.hops, edge=edge(one.edge))


def edge(one: graph.Edge | None) -> wire.EdgeRef | None:
    """An edge by its ends."""
    return None if one is None else wire.EdgeRef(source=one.source, type=one.type, target=one.target)


def relationships(said: Sequence[graph.Said], retired: Mapping[graph.Edge, int]) -> list[reading.Relationship]:
    """Proofs gathered by their edge, in the order in which they come."""
    gathered: dict[graph.Edge, list[reading.Mention]] = {}
    for one in said:
        if one.edge is not None:
            gathered.setdefault(one.edge, []).append(_mention(one))
    return [
        reading.Relationship(
            source=of.source, type=of.type, target=of.target, retired_at=moment(retired.get(of)), evidence=evidence
        )
        for of, evidence in gathered.items()
    ]


def moment(millis: int | None) -> datetime | None:
    """The time of `kb.selection.millis`."""
    return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)


def _mention(said: graph.Said) -> reading.Mention:
    return reading.Mention(
        chunk_id=said.chunk_id,
        source_urn=said.document.source_urn,
        title=said.document.title,
        kind=said.document.kind,
        observed_at=moment(said.document.observed_ms),
        sentence=said.sentence,
    )
