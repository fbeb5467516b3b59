"""The values that go in and out of a graph store."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Document:
    """Where mentions and evidence come from; `id` is `kb.identity.document`."""

    id: str
    source_urn: str
    kind: str
    title: str


@dataclass(frozen=True, order=True)
class Mention:
    """A sentence that names a node. `name` is how the sentence calls it; `description` what was said about it there.

    Names and descriptions live on the mention and not on the node: a node is shared by all projects of a client, what
    was said about it is not (kb page, trap 2).
    """

    node_key: str
    chunk_id: str
    sentence_id: str
    sentence: str
    node_type: str
    name: str
    description: str = ""


@dataclass(frozen=True, order=True)
class Evidence:
    """A sentence that proves an edge."""

    source: str
    type: str
    target: str
    chunk_id: str
    sentence_id: str
    sentence: str


@dataclass(frozen=True)
class Patch:
    """Everything that one document says; it replaces everything that the document said before."""

    document: Document
    chunk_ids: tuple[str, ...]
    mentions: tuple[Mention, ...]
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, order=True)
class Edge:
    """A relationship by the keys of its ends."""

    source: str
    type: str
    target: str


@dataclass(frozen=True)
class Reach:
    """A chunk that the graph leads to: through `node_key`, over `edge` where one was crossed, by this sentence."""

    chunk_id: str
    document: Document
    node_key: str
    edge: Edge | None
    sentence_id: str
    sentence: str


@dataclass(frozen=True)
class Visit:
    """A node met by a traversal, `hops` edges away; `edge` is the one that led there (None at the start)."""

    node_key: str
    hops: int
    edge: Edge | None


@dataclass(frozen=True)
class Proven:
    """An edge with the chunks that prove it."""

    edge: Edge
    evidence_chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """How much a viewer can see."""

    documents: int
    chunks: int
    nodes: int
    edges: int
    mentions: int
