"""The values that go in and out of a graph store."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from crds import scope

_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*$")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Document:
    """Where mentions and evidence come from; `id` is `kb.identity.document`, `observed_ms` as in `kb.selection`."""

    id: str
    source_urn: str
    kind: str
    title: str
    observed_ms: int | None = None


@dataclass(frozen=True, order=True)
class Mention:
    """A sentence that names a node. `name` is how the sentence calls it; `description` what was said about it there.

    Names and descriptions live on the mention and not on the node: a node is shared by all projects of a client, what
    was said about it is not (kb page, trap 2). `salience` is how much the chunk is about the node (see `salience`).
    """

    node_key: str
    chunk_id: str
    sentence_id: str
    sentence: str
    node_type: str
    name: str
    description: str = ""
    salience: float = 0.0


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
class Said:
    """A sentence with where it stands: it names `node_key`, or, with `edge`, proves a relationship of that node."""

    chunk_id: str
    document: Document
    node_key: str
    edge: Edge | None
    sentence_id: str
    sentence: str


class Bridge(NamedTuple):
    """A sentence through which a node can be left for other chunks. A question meets thousands: a tuple is cheap."""

    node_key: str
    chunk_id: str
    sentence_id: str


class Lead(NamedTuple):
    """A chunk that mentions a node. `crowd`: how many chunks do, as far as the store counted (at most `per_node`)."""

    node_key: str
    chunk_id: str
    salience: float
    crowd: int


@dataclass(frozen=True)
class Node:
    """A node as the viewer's documents show it: what they call it and say about it, and the chunks that mention it."""

    key: str
    type: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    mentions: int


@dataclass(frozen=True)
class Visit:
    """A node met by a traversal, `hops` edges away; `edge` is the one that led there (None at the start)."""

    node_key: str
    hops: int
    edge: Edge | None


@dataclass(frozen=True)
class Walk:
    """A traversal: the nodes met, nearest first, the edges among them, and whether a limit cut it short."""

    visits: tuple[Visit, ...]
    edges: tuple[Edge, ...]
    truncated: bool


@dataclass(frozen=True)
class Steps:
    """How a traversal walks: at most `fan_out` edges at one node, over `edge_types` only (None: all)."""

    hops: int = 2
    limit: int = 500
    fan_out: int = 1000
    edge_types: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Proven:
    """An edge with the chunks that prove it."""

    edge: Edge
    evidence_chunk_ids: tuple[str, ...]


@dataclass(frozen=True)
class Committed:
    """What the graph holds of one chunk, for whoever compares the stores."""

    chunk_id: str
    owner: scope.Scope
    document: Document
    node_keys: tuple[str, ...]
    sentence_ids: tuple[str, ...]


@dataclass(frozen=True)
class Counts:
    """How much a viewer can see."""

    documents: int
    chunks: int
    nodes: int
    edges: int
    mentions: int


def name_of(node_key: str) -> str:
    """The name in a key (`person:jana novak`, `jira::JERV-1`) in lower case: by it a question finds nodes."""
    return node_key.partition(":")[2].removeprefix(":").casefold()


def salience(title: str, name: str) -> float:
    """How much a document of this title is about what is called so: the share of the title's words that the name has.

    1.0 for the name itself, also where the title adds a note in parentheses; 0.0 where the title does not contain it.
    """
    said, words = _words(_PARENTHESIS.sub("", title)) or _words(title), _words(name)
    if not words or not any(said[at : at + len(words)] == words for at in range(len(said))):
        return 0.0
    return len(words) / len(said)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())
