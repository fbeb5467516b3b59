"""The wire models of the read endpoints beside `/retrieve`: hybrid search, chunks, the graph, consistency.

Same rules as `kb.wire`: requests refuse unknown fields, replies ignore them. Every list has a limit, and a reply says
by `truncated` that there was more.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from crds import scope
from kb import wire

NodeKey = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
EdgeType = Annotated[str, StringConstraints(min_length=1, max_length=120)]


class HybridRequest(wire.Narrowed):
    """Words to search by meaning and by letter. `alpha` is the share of meaning; None leaves it to the service."""

    query: str = Field(min_length=1, max_length=8000)
    limit: int = Field(default=10, ge=1, le=100)
    alpha: float | None = Field(default=None, ge=0, le=1)


class ByKindRequest(wire.Narrowed):
    """Chunks of documents of the given kinds, newest first; no model is asked."""

    kinds: list[wire.Kind] = Field(min_length=1, max_length=100)
    limit: int = Field(default=50, ge=1, le=1000)


class Chunk(wire.Reply):
    """A verbatim slice of a document: characters `start` to `end` of it. `graphRefs` are the nodes that it mentions."""

    chunk_id: str
    source_urn: str
    kind: str
    title: str
    heading: str
    text: str
    ordinal: int
    start: int
    end: int
    observed_at: AwareDatetime | None = None
    graph_refs: list[str]


class Hit(wire.Reply):
    """A chunk found. `score` is between 0 and 1 within one reply; `cosine` and `bm25` are what it was made from."""

    chunk: Chunk
    score: float
    cosine: float | None = None
    bm25: float | None = None


class HybridReply(wire.Reply):
    """The chunks, best first."""

    hits: list[Hit]


class ChunksReply(wire.Reply):
    """Chunks in the order that the endpoint names."""

    chunks: list[Chunk]
    truncated: bool = False


class Mention(wire.Reply):
    """A sentence that names a node, or proves a relationship of it."""

    chunk_id: str
    source_urn: str
    title: str
    kind: str
    observed_at: AwareDatetime | None = None
    sentence: str


class Statement(wire.Reply):
    """`nodeKey` is named by `sentence`; where that proves a relationship, `edge` is it."""

    node_key: str
    edge: wire.EdgeRef | None = None
    sentence: str


class ChunkReply(wire.Reply):
    """A chunk, and what its sentences say: each with the node that it names or the relationship that it proves."""

    chunk: Chunk
    said: list[Statement]


class Node(wire.Reply):
    """An entity or a document, as the viewer's sources show it. `ragChunks` mention it, at most 100."""

    key: str
    type: str
    names: list[str]
    descriptions: list[str]
    rag_chunks: list[str]
    mentions: int


class NodesReply(wire.Reply):
    """Nodes, the most mentioned first."""

    nodes: list[Node]
    truncated: bool = False


class TraverseRequest(wire.Request):
    """A walk over relationships in both directions, breadth first. `fanOut` bounds the edges followed at one node."""

    scope: scope.Scope
    start: list[NodeKey] = Field(min_length=1, max_length=100)
    hops: int = Field(default=2, ge=0, le=4)
    edge_types: list[EdgeType] | None = Field(default=None, max_length=100)
    fan_out: int = Field(default=50, ge=1, le=1000)
    limit: int = Field(default=200, ge=1, le=2000)
    as_of: AwareDatetime | None = None


class Visit(wire.Reply):
    """A node met `hops` edges away, over `edge` (none at the start)."""

    key: str
    hops: int
    edge: wire.EdgeRef | None = None


class Related(wire.Reply):
    """A relationship; its proofs are at `/graph/relationship`.

    `retiredAt` is when a newer fact about the same subject took its place (see docs/knowledge-base-reading.md).
    """

    source: str
    type: str
    target: str
    retired_at: AwareDatetime | None = None


class TraverseReply(wire.Reply):
    """The nodes met, nearest first, and the relationships among them."""

    nodes: list[Visit]
    edges: list[Related]
    truncated: bool = False


class Relationship(wire.Reply):
    """A relationship and the sentences that prove it, newest first."""

    source: str
    type: str
    target: str
    retired_at: AwareDatetime | None = None
    evidence: list[Mention]


class RelationshipsReply(wire.Reply):
    """The relationships between two nodes, or of one type."""

    relationships: list[Relationship]
    truncated: bool = False


Kind = Literal["ChunkNotInGraph", "ChunkTextMissing", "GraphRefsDiffer", "OwnerDiffers", "StraySentence"]


class Finding(wire.Reply):
    """One place where the stores disagree: `subject` is the chunk or sentence, `detail` says what is wrong with it."""

    kind: Literal[
        "ChunkNotInGraph", "ChunkTextMissing", "GraphRefsDiffer", "OwnerDiffers", "EdgeWithoutNode", "StraySentence"
    ]
    source_urn: str
    subject: str
    detail: str


class ConsistencyReply(wire.Reply):
    """What a check found in the scope.

    `state` is Consistent (everything was looked at and agrees), Partial (some documents are still being ingested or
    failed, or `next` says that not everything was looked at) or Inconsistent (`findings` are not empty).
    """

    state: Literal["Consistent", "Partial", "Inconsistent"]
    documents: int
    chunks: int
    unfinished: int
    failed: int
    findings: list[Finding]
    next: str | None = None
