"""Chunks and sentences as Weaviate objects: property names, tenants, and back. Pure.

The schema's types stand with the driver in `kb.vectors.weaviate.schema`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds import scope
from kb import selection
from kb.vectors import model

# Weaviate's inverted index knows no empty string; no identifier can be this.
NONE = "-"
# Nor does it know an absent number; this is before anything was ever observed.
UNDATED = -(1 << 52)
_GLOBAL = "global"


def tenant(client_id: str) -> str:
    """The native tenant of a client; every client's starts with "c", so none is called like the global one."""
    return f"c{client_id}" if client_id else _GLOBAL


def of_chunk(owner: scope.Scope, chunk: model.Chunk, embed_model: str, dimension: int) -> dict[str, Any]:
    """The properties of a chunk."""
    return {
        **_common(owner, embed_model, dimension),
        "documentId": chunk.document_id,
        "sourceUrn": chunk.source_urn,
        "kind": chunk.kind,
        "title": chunk.title,
        "heading": chunk.heading,
        "text": chunk.text,
        "ordinal": chunk.ordinal,
        "startChar": chunk.start,
        "endChar": chunk.end,
        "observedAt": chunk.observed_at,
        "observedMs": observed_ms(chunk.observed_at),
        "graphRefs": list(chunk.graph_refs),
        "revision": chunk.revision(owner),
    }


def of_sentence(owner: scope.Scope, sentence: model.Sentence, embed_model: str, dimension: int) -> dict[str, Any]:
    """The properties of a sentence; its text stands in the graph."""
    return {
        **_common(owner, embed_model, dimension),
        "documentId": sentence.document_id,
        "chunkId": sentence.chunk_id,
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
    )


def observed_ms(observed_at: str) -> int:
    """The time of a chunk as a number."""
    found = selection.moment(observed_at)
    return UNDATED if found is None else found


def stored(client_id: str, uuid: str, properties: Mapping[str, Any]) -> model.Stored:
    """A chunk as whoever compares the stores sees it."""
    return model.Stored(
        uuid,
        owner(client_id, properties),
        properties["documentId"],
        properties["sourceUrn"],
        tuple(properties["graphRefs"] or ()),
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
