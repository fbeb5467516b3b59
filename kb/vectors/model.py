"""The values that go in and out of a vector store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crds import access as accesses
from crds import scope
from kb import identity, paging, selection, visibility

Vector = list[float]


class Made(list[float]):
    """A vector that says which model made it, and what other models made of the same text, by their names.

    Where two indexes are there (`kb.reindex`), a vector must not meet that of another model.
    """

    def __init__(self, vector: Vector, model: str, others: Mapping[str, Vector] | None = None) -> None:
        super().__init__(vector)
        self.model = model
        self.by_model: Mapping[str, Vector] = {**(others or {}), model: vector}


def makers(vector: Vector) -> frozenset[str]:
    """The models that made vectors of the same text, as far as it says so."""
    return frozenset(vector.by_model) if isinstance(vector, Made) else frozenset()


@dataclass(frozen=True)
class Chunk:
    """A verbatim slice of a document. `heading` is put before it when it is embedded and searched by word.

    `metadata` is the sender's with the access (`kb.visibility.ACCESS`) and the pages (`kb.paging.METADATA`), a JSON
    object or "". `observed_at` is RFC 3339
    or ""; `graph_refs` are the keys of the nodes that the chunk mentions. `since_ms`: when its version began, where
    that is not when it was observed; `until_ms`: when that was replaced, None in the present. `taken`:
    `kb.ingest.document_locks.Turn.taken` of the turn in which it was stored or confirmed.
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
    metadata: str = ""
    since_ms: int | None = None
    until_ms: int | None = None
    taken: int = 0

    def said(self) -> dict[str, Any]:
        """The sender's metadata."""
        return visibility.without(self._document())

    def pages(self) -> paging.Starts:
        """Where in `text` the pages of its file begin."""
        return paging.of(self._all().get(paging.METADATA, ()))

    def access(self) -> accesses.Access | None:
        """Who may see its document; None where that was never said."""
        found = self._all()
        return visibility.read(found[visibility.ACCESS]) if visibility.ACCESS in found else None

    def labels(self) -> tuple[str, ...]:
        """What its document can be chosen by."""
        return selection.labels(self._document())

    def _document(self) -> dict[str, Any]:
        """What all chunks of its document have."""
        return {name: value for name, value in self._all().items() if name != paging.METADATA}

    def _all(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(self.metadata) if self.metadata else {}
        return said

    def embedded_text(self) -> str:
        """What the embedding is of."""
        return f"{self.heading}\n{self.text}" if self.heading else self.text

    def revision(self, owner: scope.Scope) -> str:
        """Changes when something changes that the id does not cover and that needs no new embedding."""
        facts: list[object] = [
            owner.group_id,
            self.kind,
            self.title,
            self.observed_at,
            self.ordinal,
            self.start,
            *self.graph_refs,
        ]
        if self.metadata:
            facts.append({"metadata": self.metadata})
            if selection.escapes(self._document()):
                facts.append("labels of 2026-11")
        if self.since_ms is not None:
            facts.append(self.since_ms)
        made = identity.digest(json.dumps(facts))[:16]
        return f"{made}:{self.taken}" if self.taken else made


def taken(revision: str) -> int:
    """The `taken` of the chunk that has this revision."""
    return int(revision.partition(":")[2] or 0)


@dataclass(frozen=True)
class Sentence:
    """A sentence of a chunk whose embedding ranks the hops that go through it. `until_ms` as of its chunk."""

    id: str
    chunk_id: str
    document_id: str
    text: str
    until_ms: int | None = None


@dataclass(frozen=True)
class Hit:
    """A chunk found; `score` is a cosine (dense) or a BM25 score (lexical), higher is better."""

    chunk_id: str
    score: float


@dataclass(frozen=True)
class Stored:
    """What the store holds of one chunk, for a comparison of the stores. `revision` is that of `Chunk`."""

    chunk_id: str
    owner: scope.Scope
    document_id: str
    source_urn: str
    graph_refs: tuple[str, ...]
    revision: str = ""


@dataclass(frozen=True)
class StoredSentence:
    """What the store holds of one sentence."""

    sentence_id: str
    owner: scope.Scope
    document_id: str
    chunk_id: str
