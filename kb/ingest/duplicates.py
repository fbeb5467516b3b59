"""A document that says nearly the same as an earlier one: it is connected with it, and the answer names it.

Nothing is left out because of it. Candidates come from keyword search over what the scope sees, and what decides is the
text itself (`kb.extract.likeness`), so no model is asked. Only an earlier document counts: both have a time, and the
same two are connected in one direction, whichever is read again.
"""

from __future__ import annotations

from dataclasses import dataclass

from kb import api, selection
from kb.extract import caller_facts, document_node, draft, likeness, mail
from kb.graph import store as graph
from kb.vectors import model
from kb.vectors import store as vectors

DUPLICATE_OF = "duplicate_of"
_CANDIDATES = 20


@dataclass(frozen=True)
class Found:
    """The earlier document, and how much of its words both have."""

    chunk: model.Chunk
    share: float

    def reply(self) -> api.Duplicate:
        """For the caller."""
        uid = self.chunk.said().get("taskUid")
        return api.Duplicate(
            source_urn=self.chunk.source_urn,
            task_uid=uid if isinstance(uid, str) else "",
            title=self.chunk.title,
            share=round(self.share, 2),
        )


async def find(
    graphs: graph.Store, chunks: vectors.Store, request: api.IngestRequest, text: str, made: draft.Draft
) -> Found | None:
    """The earlier document that the text is most like. Raises `kb.errors.Away`."""
    own = likeness.of(text) if request.observed_at is not None else None
    if own is None or request.observed_at is None:
        return None
    before = (selection.millis(request.observed_at), made.document_id)
    hits = await chunks.lexical(request.scope, own.query(), limit=_CANDIDATES)
    committed = await graphs.committed(request.scope, {one.chunk_id for one in hits})
    known = await chunks.chunks(request.scope, committed)
    listed = [known[one.chunk_id] for one in hits if one.chunk_id in known]
    earlier = [one for one in listed if one.ordinal == 0 and _precedes(one, before)]
    best = likeness.best(own, [one.text for one in earlier])
    return Found(earlier[best[0]], best[1]) if best is not None else None


def linked(made: draft.Draft, found: Found | None, request: api.IngestRequest) -> draft.Draft:
    """The draft with the relationship of its base node to that of the earlier document."""
    if found is None:
        return made
    key = _key(found.chunk, request)
    if key == made.anchor.key:
        return made
    fact = caller_facts.Fact(DUPLICATE_OF, key, "", found.chunk.source_urn[:1024])
    return draft.given_to(made, caller_facts.also(made.given, fact, made.anchor.key, made.anchor.type, request.scope))


def _precedes(chunk: model.Chunk, before: tuple[int, str]) -> bool:
    """Of two with one time the id decides. Files that came with a document are no documents to compare with."""
    at = selection.moment(chunk.observed_at)
    other = chunk.document_id != before[1] and api.attached_to(chunk.source_urn) is None
    return other and at is not None and (at, chunk.document_id) < before


def _key(chunk: model.Chunk, request: api.IngestRequest) -> str:
    derived = document_node.derive(chunk.source_urn, chunk.kind, request.scope)
    headers = mail.read(chunk.text)
    if derived.type == "email" or headers is None or not headers.message_id or chunk.kind != "email":
        return derived.key
    return f"email::{headers.message_id}"
