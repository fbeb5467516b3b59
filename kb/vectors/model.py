"""The values that go in and out of a vector store."""

from __future__ import annotations

import json
from dataclasses import dataclass

from crds import scope
from kb import identity

Vector = list[float]


@dataclass(frozen=True)
class Chunk:
    """A verbatim slice of a document. `heading` is put before it when it is embedded and searched by word.

    `observed_at` is RFC 3339 or ""; `graph_refs` are the keys of the nodes that the chunk mentions.
    """

    id: str
    document_id: str
    source_urn: str
    kind: str
    title: str
    heading: str
    text: str
    ordinal: int
    start: int
    end: int
    observed_at: str
    graph_refs: tuple[str, ...]

    def embedded_text(self) -> str:
        """What the embedding is of."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text

    def revision(self, owner: scope.Scope) -> str:
        """Changes when something changes that the id does not cover and that needs no new embedding."""
        facts = [owner.group_id, self.kind, self.title, self.observed_at, self.ordinal, self.start, *self.graph_refs]
        return identity.digest(json.dumps(facts))[:16]


@dataclass(frozen=True)
class Sentence:
    """A sentence of a chunk whose embedding ranks the hops that go through it."""

    id: str
    chunk_id: str
    document_id: str
    text: str


@dataclass(frozen=True)
class Hit:
    """A chunk found; `score` is a cosine (dense) or a BM25 score (lexical), higher is better."""

    chunk_id: str
    score: float


@dataclass(frozen=True)
class Stored:
    """What the store holds of one chunk, for whoever compares the stores."""

    chunk_id: str
    owner: scope.Scope
    document_id: str
    source_urn: str
    graph_refs: tuple[str, ...]


@dataclass(frozen=True)
class StoredSentence:
    """What the store holds of one sentence."""

    sentence_id: str
    owner: scope.Scope
    document_id: str
    chunk_id: str
