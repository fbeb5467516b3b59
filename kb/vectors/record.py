"""Chunks and sentences as Weaviate objects: property names, tenants, and back. Pure.

The schema's types stand with the driver in `kb.vectors.weaviate`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crds import scope
from kb.vectors import model

# Weaviate's inverted index knows no empty string; no identifier can be this.
NONE = "-"
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


def _common(owner: scope.Scope, embed_model: str, dimension: int) -> dict[str, Any]:
    return {
        "projectId": owner.project_id or NONE,
        "groupId": owner.group_id or NONE,
        "model": embed_model,
        "dimension": dimension,
    }
