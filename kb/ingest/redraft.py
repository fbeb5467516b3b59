"""A document's draft, made again from its stored chunks, without its request. Pure.

Chunks are verbatim slices with their offsets, and everything else that building asks for (URN, kind, title, heading) is
stored with them, so the result is the draft that ingest made. Only the hints need more, and the graph has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from crds import scope
from kb import api
from kb.extract import caller_facts, chunk, document_node, draft, sentence
from kb.vectors import model


def rebuild_draft(
    owner: scope.Scope, document_id: str, stored: Sequence[model.Chunk], given_text: str
) -> tuple[api.IngestRequest, draft.Draft]:
    """The request, as far as weaving reads it, and the draft of the document whose chunks (at least one) are given.

    `given_text` is `kb.graph.model.Version.given`.
    """
    ordered = sorted(stored, key=lambda one: one.ordinal)
    first = ordered[0]
    request = api.IngestRequest(
        scope=owner,
        source_urn=first.source_urn,
        kind=first.kind,
        title=first.title,
        content=first.text,
        observed_at=datetime.fromisoformat(first.observed_at) if first.observed_at else None,
        metadata=first.said(),
        access=first.access(),
    )
    pieces = tuple(
        draft.ChunkDraft(
            one.id, chunk.Chunk(one.text, one.start, one.end, one.pages()), tuple(sentence.split(one.text))
        )
        for one in ordered
    )
    own = document_node.derive(first.source_urn, first.kind, owner)
    facts = caller_facts.recorded(given_text, anchor=own.key, where=owner)
    made = draft.Draft(document_id, own, first.heading, pieces)
    return request, draft.given_to(made, facts)
