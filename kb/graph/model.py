"""The values that go in and out of a graph store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import JsonValue

from contracts import repository_keys
from crds import scope
from kb import selection
from text import words

HUB = 50_000
"""Rows that a question reads at one node that it does not name, of whatever owner; of a node with more the most salient
ones, where the store has an order. Without it a viewer who sees none of a hub's rows would have all of them read."""
DESCRIBED = 500
"""Mentions from which a node's names, descriptions, properties and chunks are shown."""
_SHORTEST_STEM = 3
# Letters of a name that are enough to know a thing by, whatever its type.
_SHORTEST_SHARED = 2
_PARENTHESIS = re.compile(r"\s*\([^()]*\)\s*$")


@dataclass(frozen=True)
class Document:
    """Where mentions and evidence come from; `id` is `kb.identity.document`, `observed_ms` as in `kb.selection`.

    `since_ms`: when this version began, where that is not when it was observed. `until_ms`: when the next one began;
    None for the version of the present.
    """

    id: str
    source_urn: str
    kind: str
    title: str
    observed_ms: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def start_ms(self) -> int | None:
        """When this version began; None, as `selection.ALWAYS`, is at no known moment."""
        begun = self.observed_ms if self.since_ms is None else self.since_ms
        return None if begun == selection.ALWAYS else begun


@dataclass(frozen=True, order=True)
class Mention:
    """A sentence that names a node. `name` is how the sentence calls it; `description` what was said about it there.

    Names and descriptions live on the mention and not on the node: a node is shared by all projects of a client, what
    was said about it is not (kb page, trap 2). `salience` is how much the chunk is about the node (see `salience`).
    `properties`: those that the document's caller gave to the node, a JSON object as text, or ""; `places` as of
    evidence.
    """

    node_key: str
    chunk_id: str
    sentence_id: str
    sentence: str
    node_type: str
    name: str
    description: str = ""
    salience: float = 0.0
    properties: str = ""
    places: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class Evidence:
    """A sentence that proves an edge.

    `places`: where a fact that the document's caller gave stands (a field's name, file@commit:line); empty for
    one that the text itself states. `properties` as of a mention.
    """

    source: str
    type: str
    target: str
    chunk_id: str
    sentence_id: str
    sentence: str
    places: tuple[str, ...] = ()
    properties: str = ""


@dataclass(frozen=True)
class Version:
    """A version of a document; `id` is the document's, or `kb.identity.version` once it was replaced.

    `given`: the nodes and relationships that its caller gave, as text (`kb.extract.caller_facts`). `labels` as in
    `Patch`.
    """

    id: str
    document: Document
    revision: str
    chunk_ids: tuple[str, ...]
    given: str = ""
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Keep:
    """That the version in the present is kept, as version `id` which ends at `until_ms`."""

    id: str
    until_ms: int


@dataclass(frozen=True)
class Patch:
    """Everything that one document says; it replaces everything that the document said before.

    `revision` and `given` as in `Version`. With `keep` the version that is replaced goes into the history. `labels` are
    those of the sender's metadata (`kb.selection.labels`), None where they are not known.
    """

    document: Document
    chunk_ids: tuple[str, ...]
    mentions: tuple[Mention, ...]
    evidence: tuple[Evidence, ...]
    revision: str = ""
    given: str = ""
    keep: Keep | None = None
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, order=True)
class Edge:
    """A relationship by the keys of its ends."""

    source: str
    type: str
    target: str


@dataclass(frozen=True)
class Statement:
    """A sentence with where it stands: it names `node_key`, or, with `edge`, proves a relationship of that node."""

    chunk_id: str
    document: Document
    node_key: str
    edge: Edge | None
    sentence_id: str
    sentence: str
    places: tuple[str, ...] = ()
    properties: str = ""

    @property
    def observed_ms(self) -> int | None:
        """When the document was observed."""
        return self.document.observed_ms


class Observed(NamedTuple):
    """That a document observed then states the edge."""

    edge: Edge
    observed_ms: int | None


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
    """A node as the viewer's documents show it: what they call it and say about it, and the chunks that mention it.

    `properties`: of those that several documents give, the value of the latest one.
    """

    key: str
    type: str
    names: tuple[str, ...]
    descriptions: tuple[str, ...]
    chunk_ids: tuple[str, ...]
    mentions: int
    properties: Mapping[str, JsonValue] = field(default_factory=dict)


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
    """What the graph holds of one chunk, for the comparison of the stores."""

    chunk_id: str
    owner: scope.Scope
    document: Document
    node_keys: tuple[str, ...]
    sentence_ids: tuple[str, ...]


@dataclass(frozen=True)
class Listed:
    """A document as a list shows it: whose it is, and how many chunks it has."""

    document: Document
    owner: scope.Scope
    chunks: int


@dataclass(frozen=True)
class Counts:
    """How much a viewer can see."""

    documents: int
    chunks: int
    nodes: int
    edges: int
    mentions: int


def by_place(one: Statement) -> tuple[str, ...]:
    """Sorts by node and place."""
    proven = (one.edge.type, one.edge.target) if one.edge else ("", "")
    return one.node_key, one.chunk_id, one.sentence_id, *proven


def by_age(one: Statement) -> tuple[Edge, bool, int, str, str]:
    """Sorts proofs of relationships by edge, and those of one newest first."""
    observed = one.document.observed_ms
    edge = one.edge or Edge("", "", "")
    return edge, observed is None, -(observed or 0), one.chunk_id, one.sentence_id


def name_of(node_key: str) -> str:
    """The name in a key (`person:jana novak`, `jira::JERV-1`) in lower case: by it a question finds nodes."""
    return (repository_keys.name(node_key) or node_key.partition(":")[2].removeprefix(":")).casefold()


def shared_name(node_key: str) -> str:
    """What a node has in common with those of other types that may be the same thing: its name.

    One extraction calls a film `film:metropolis`, another `movie:metropolis`. A number or an id (one word with a digit,
    `C-1042`) is something else under another type, and one letter is any number of things; these have the key itself.
    """
    name = name_of(node_key)
    numbered = " " not in name and any(character.isdigit() for character in name)
    if (
        "::" in node_key
        or repository_keys.kind(node_key)
        or numbered
        or sum(character.isalpha() for character in name) < _SHORTEST_SHARED
    ):
        return node_key
    return name


def stem_of(node_key: str) -> str:
    """The name in a key without its inflection; "" where that leaves too little to know it by."""
    stem = " ".join(words.stems(name_of(node_key)))
    return stem if len(stem) >= _SHORTEST_STEM else ""


def salience(title: str, name: str) -> float:
    """How much a document of this title is about what is called so: the share of the title's words that the name has.

    1.0 for the name itself, also where the title adds a note in parentheses; 0.0 where the title does not contain it.
    """
    said = words.units(_PARENTHESIS.sub("", title)) or words.units(title)
    called = words.units(name)
    if called and (_within(called, said) or _within(words.stems(name), [words.stem(word) for word in said])):
        return len(called) / len(said)
    return 0.0


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    return any(list(whole[at : at + len(part)]) == list(part) for at in range(len(whole)))
