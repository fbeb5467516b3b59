"""The wire models of the read endpoints beside `/retrieve`: hybrid search, chunks, the graph, consistency.

Same rules as `kb.api`: requests refuse unknown fields, replies ignore them. Every list has a limit, and a reply says
by `truncated` that there was more.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints

from contracts.api import message
from crds import access as accesses
from crds import scope
from kb.api import retrieve

NodeKey = Annotated[str, StringConstraints(min_length=1, max_length=1024)]
EdgeType = Annotated[str, StringConstraints(min_length=1, max_length=120)]


class HybridRequest(retrieve.Narrowed):
    """Words to search by vectors and keywords. `alpha` is the share of the vectors; None leaves it to the service."""

    query: str = Field(min_length=1, max_length=8000)
    limit: int = Field(default=10, ge=1, le=100)
    alpha: float | None = Field(default=None, ge=0, le=1)


class ByKindRequest(retrieve.Narrowed):
    """Chunks of documents of the given kinds, newest first; no model is asked."""

    kinds: list[message.Kind] = Field(min_length=1, max_length=100)
    limit: int = Field(default=50, ge=1, le=1000)


class Chunk(message.Reply):
    """A verbatim slice of a document: characters `start` to `end` of it. `graphRefs` are the nodes that it mentions.

    `validUntil`: when a newer version of the document took the place of this one. `access`: who may see it at its
    source; null where that was never said.
    """

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
    valid_until: AwareDatetime | None = None
    graph_refs: list[str]
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    access: accesses.Access | None = None


class Hit(message.Reply):
    """A chunk found. `score` is between 0 and 1 within one reply; `cosine` and `bm25` are what it was made from."""

    chunk: Chunk
    score: float
    cosine: float | None = None
    bm25: float | None = None


class HybridReply(message.Reply):
    """The chunks, best first."""

    hits: list[Hit]


class ChunksReply(message.Reply):
    """Chunks in the order that the endpoint names."""

    chunks: list[Chunk]
    truncated: bool = False


class Mention(message.Reply):
    """A sentence that names a node, or proves a relationship of it.

    `places`: where it stands in the source, for a relationship that the caller gave (a field's name, file@commit:line).
    `validUntil`: when a newer version of the document took the place of this one.
    """

    chunk_id: str
    source_urn: str
    title: str
    kind: str
    observed_at: AwareDatetime | None = None
    valid_until: AwareDatetime | None = None
    sentence: str
    places: list[str] = Field(default_factory=list)


class Statement(message.Reply):
    """`nodeKey` is named by `sentence`; where that proves a relationship, `edge` is it.

    `places`: where a fact that the caller gave stands in the source (a field's name, file@commit:line).
    """

    node_key: str
    edge: retrieve.EdgeRef | None = None
    sentence: str
    places: list[str] = Field(default_factory=list)


class ChunkReply(message.Reply):
    """A chunk, and what its sentences say: each with the node that it names or the relationship that it proves."""

    chunk: Chunk
    said: list[Statement]


class Node(message.Reply):
    """An entity or a document, as the viewer's sources show it. `ragChunks` mention it, at most 100.

    `properties` were given at ingest; of one that several documents give, the value of the latest is shown.
    """

    key: str
    type: str
    names: list[str]
    descriptions: list[str]
    rag_chunks: list[str]
    mentions: int
    properties: dict[str, JsonValue] = Field(default_factory=dict)


class NodesReply(message.Reply):
    """Nodes, the most mentioned first."""

    nodes: list[Node]
    truncated: bool = False


class TraverseRequest(message.Request):
    """A walk over relationships in both directions, breadth first. `fanOut` bounds the edges followed at one node."""

    scope: scope.Scope
    start: list[NodeKey] = Field(min_length=1, max_length=100)
    hops: int = Field(default=2, ge=0, le=4)
    edge_types: list[EdgeType] | None = Field(default=None, max_length=100)
    fan_out: int = Field(default=50, ge=1, le=1000)
    limit: int = Field(default=200, ge=1, le=2000)
    as_of: AwareDatetime | None = None


class Visit(message.Reply):
    """A node met `hops` edges away, over `edge` (none at the start)."""

    key: str
    hops: int
    edge: retrieve.EdgeRef | None = None


class Related(message.Reply):
    """A relationship; its proofs are at `/graph/relationship`, and its `confidence` is as there.

    `retiredAt` is when a newer fact about the same subject took its place, `supersededBy` the target of that one (see
    docs/knowledge-base-reading.md).
    """

    source: str
    type: str
    target: str
    retired_at: AwareDatetime | None = None
    superseded_by: str | None = None
    confidence: float = Field(default=0.0, ge=0, le=1)


class TraverseReply(message.Reply):
    """The nodes met, nearest first, and the relationships among them."""

    nodes: list[Visit]
    edges: list[Related]
    truncated: bool = False


class Relationship(message.Reply):
    """A relationship and the sentences that prove it, newest first.

    `confidence` (0 to 1) grows with each shown proof of another document in other words.
    """

    source: str
    type: str
    target: str
    retired_at: AwareDatetime | None = None
    superseded_by: str | None = None
    confidence: float = Field(default=0.0, ge=0, le=1)
    properties: dict[str, JsonValue] = Field(default_factory=dict)
    evidence: list[Mention]


class RelationshipsReply(message.Reply):
    """The relationships between two nodes, or of one type."""

    relationships: list[Relationship]
    truncated: bool = False


FindingKind = Literal[
    "ChunkNotInGraph",
    "ChunkTextMissing",
    "GraphRefsDiffer",
    "OwnerDiffers",
    "SentenceVectorsMissing",
    "StraySentence",
]


class Finding(message.Reply):
    """One place where the stores disagree: `subject` is the chunk or sentence, `detail` says what is wrong with it."""

    kind: FindingKind
    source_urn: str
    subject: str
    detail: str


PassKind = Literal["Full", "Changed"]


class Pass(message.Reply):
    """The last time that the stores of all clients were compared and repaired in the background.

    Full     everything was looked at
    Changed  the documents that were changed since they were last compared, or could not be repaired then

    `endedAt` is null while it runs, and when it broke off: then it goes on at the next interval.
    """

    kind: PassKind
    begun_at: AwareDatetime
    ended_at: AwareDatetime | None = None


class ConsistencyReply(message.Reply):
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
    passes: list[Pass] = Field(default_factory=list)
