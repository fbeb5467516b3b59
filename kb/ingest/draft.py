"""A document taken apart: anchor, heading, chunks with their ids and sentences. Pure.

The heading (title, speaker, time) goes before every chunk when it is embedded: a chunk of a chat or a ticket says
little without it (kb page, trap 11). It is part of a chunk's id, so the time stands in it in UTC, and only where it was
said by a person at that time: a page or a file that is saved again unchanged keeps its chunks.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from kb import api, identity, selection
from kb.ingest import anchor, chunk, given, sentence

# Where senders put who speaks.
_SPEAKERS = ("speaker", "author", "from", "reporter", "sender")
# Kinds of documents that are said at a time, by the letters of their names.
_SAID = frozenset(
    {"email", "mail", "chat", "message", "conversation", "meeting", "transcript", "call", "comment"}
    | {"issue", "ticket", "jira", "bugtracker", "slack", "teams", "sms"}
)


@dataclass(frozen=True)
class ChunkDraft:
    """A chunk with its id and its sentences."""

    id: str
    chunk: chunk.Chunk
    sentences: tuple[sentence.Sentence, ...]


@dataclass(frozen=True)
class Draft:
    """Everything about a document that needs no model; `given` are the facts that its caller gave."""

    document_id: str
    anchor: anchor.Anchor
    heading: str
    pieces: tuple[ChunkDraft, ...]
    given: given.Given = field(default_factory=given.Given)


def make(request: api.IngestRequest, text: str, *, size: int, overlap: int) -> Draft:
    """Take `text`, the content of `request`, apart. Raises `kb.errors.Invalid` for a given fact without a key."""
    document_id = identity.document(request.scope, request.source_urn)
    heading = _heading(request)
    seen: Counter[str] = Counter()
    pieces: list[ChunkDraft] = []
    for cut in chunk.split(text, size=size, overlap=overlap):
        digest = identity.digest(f"{heading}\n{cut.text}")
        chunk_id = identity.chunk(document_id, digest, seen[digest])
        seen[digest] += 1
        pieces.append(ChunkDraft(chunk_id, cut, tuple(sentence.split(cut.text))))
    own = anchor.derive(request.source_urn, request.kind, request.scope)
    facts = given.read(request.nodes, request.relationships, anchor=own.key, where=request.scope)
    return Draft(document_id, own, heading, tuple(pieces), facts)


def _heading(request: api.IngestRequest) -> str:
    given = (request.metadata.get(name) for name in _SPEAKERS)
    speaker = next((one for one in given if isinstance(one, str)), "")
    timed = bool(speaker) or re.sub(r"[^a-z]", "", request.kind.casefold()).removesuffix("processing") in _SAID
    when = selection.utc(request.observed_at) if request.observed_at and timed else None
    parts = (request.title, speaker, when.isoformat(" ", "minutes")[:16] if when else "")
    return " | ".join(part.strip() for part in parts if part)
