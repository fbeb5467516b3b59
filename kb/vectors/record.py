"""Chunks and sentences as Weaviate objects: property names, tenants, and back. Pure.

The schema's types stand with the driver in `kb.vectors.weaviate.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds import scope
from kb import selection
from kb.vectors import model
from text import words

# Weaviate's inverted index knows no empty string; no identifier can be this.
NONE = "-"
# Nor does it know an absent number; this is before anything was ever observed.
UNDATED = selection.ALWAYS
_GLOBAL = "global"


def tenant(client_id: str, *, history: bool = False) -> str:
    """The native tenant of a client, or that of its replaced versions.

    Every client's starts with "c" or "h", so none is called like the global ones: "global", and "h" for its history.
    """
    if history:
        return f"h{client_id}"
    return f"c{client_id}" if client_id else _GLOBAL


def of_chunk(
    owner: scope.Scope, chunk: model.Chunk, embed_model: str, dimension: int, *, folded: bool
) -> dict[str, Any]:
    """The properties of a chunk."""
    return {
        **_common(owner, embed_model, dimension),
        "documentId": chunk.document_id,
        "sourceUrn": chunk.source_urn,
        "kind": chunk.kind,
        "title": chunk.title,
        "heading": chunk.heading,
        "text": chunk.text,
        **derived(chunk.heading, chunk.text, chunk.observed_at, folded=folded),
        "ordinal": chunk.ordinal,
        "startChar": chunk.start,
        "endChar": chunk.end,
        "observedAt": chunk.observed_at,
        "graphRefs": list(chunk.graph_refs),
        "metadata": chunk.metadata,
        "labels": list(chunk.labels()),
        "revision": chunk.revision(owner),
        "sinceMs": chunk.since_ms,
        "untilMs": chunk.until_ms,
    }


def derived(heading: str, text: str, observed_at: str, *, folded: bool) -> dict[str, Any]:
    """What searches need beside what is stored: the time as a number, and the words that keyword search counts."""
    return {
        "observedMs": observed_ms(observed_at),
        "headingTerms": " ".join(words.terms(heading, folded=folded)),
        "textTerms": " ".join(words.terms(text, folded=folded)),
    }


def of_sentence(owner: scope.Scope, sentence: model.Sentence, embed_model: str, dimension: int) -> dict[str, Any]:
    """The properties of a sentence; its text stands in the graph."""
    return {
        **_common(owner, embed_model, dimension),
        "documentId": sentence.document_id,
        "chunkId": sentence.chunk_id,
        "untilMs": sentence.until_ms,
    }


def chunk(uuid: str, properties: Mapping[str, Any]) -> model.Chunk:
    """A chunk from its properties."""
    return model.Chunk(
        id=uuid,
        document_id=properties["documentId"],
        source_urn=properties["sourceUrn"],
        kind=properties["kind"],
        title=properties["title"] or "",
        heading=properties["heading"] or "",
        text=properties["text"],
        ordinal=properties["ordinal"],
        start=properties["startChar"],
        end=properties["endChar"],
        observed_at=properties["observedAt"] or "",
        graph_refs=tuple(properties["graphRefs"] or ()),
        metadata=properties["metadata"] or "",
        since_ms=properties.get("sinceMs"),
        until_ms=properties.get("untilMs"),
        taken=model.taken(properties.get("revision") or ""),
    )


def observed_ms(observed_at: str) -> int:
    """The time of a chunk as a number."""
    found = selection.moment(observed_at)
    return UNDATED if found is None else found


def stored(client_id: str, uuid: str, properties: Mapping[str, Any]) -> model.Stored:
    """A chunk as the comparison of the stores sees it."""
    return model.Stored(
        uuid,
        owner(client_id, properties),
        properties["documentId"],
        properties["sourceUrn"],
        tuple(properties["graphRefs"] or ()),
        properties["revision"] or "",
    )


def owner(client_id: str, properties: Mapping[str, Any]) -> scope.Scope:
    """Whose an object is, from its tenant's client and its properties."""
    project, group = ("" if properties[name] == NONE else properties[name] for name in ("projectId", "groupId"))
    return scope.Scope(client_id=client_id, project_id=project, group_id=group)


def _common(owner: scope.Scope, embed_model: str, dimension: int) -> dict[str, Any]:
    return {
        "projectId": owner.project_id or NONE,
        "groupId": owner.group_id or NONE,
        "model": embed_model,
        "dimension": dimension,
    }
