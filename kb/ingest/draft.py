"""A document taken apart: anchor, heading, chunks with their ids and sentences. Pure.

The heading (title, speaker, time) goes before every chunk when it is embedded: a chunk of a chat or a ticket says
little without it (kb page, trap 11).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kb import identity, wire
from kb.ingest import anchor, chunk, sentence

# Where senders put who speaks.
_SPEAKERS = ("speaker", "author", "from", "reporter", "sender")


@dataclass(frozen=True)
class Piece:
    """A chunk with its id and its sentences."""

    id: str
    chunk: chunk.Chunk
    sentences: tuple[sentence.Sentence, ...]


@dataclass(frozen=True)
class Draft:
    """Everything about a document that needs no model."""

    document_id: str
    anchor: anchor.Anchor
    heading: str
    pieces: tuple[Piece, ...]


def make(request: wire.IngestRequest, text: str, *, size: int, overlap: int) -> Draft:
    """Take `text`, the content of `request`, apart."""
    document_id = identity.document(request.scope, request.source_urn)
    heading = _heading(request)
    seen: Counter[str] = Counter()
    pieces: list[Piece] = []
    for cut in chunk.split(text, size=size, overlap=overlap):
        digest = identity.digest(f"{heading}\n{cut.text}")
        chunk_id = identity.chunk(document_id, digest, seen[digest])
        seen[digest] += 1
        pieces.append(Piece(chunk_id, cut, tuple(sentence.split(cut.text))))
    return Draft(document_id, anchor.derive(request.source_urn, request.kind, request.scope), heading, tuple(pieces))


def _heading(request: wire.IngestRequest) -> str:
    speaker = next((request.metadata[name] for name in _SPEAKERS if isinstance(request.metadata.get(name), str)), None)
    when = request.observed_at.strftime("%Y-%m-%d %H:%M") if request.observed_at else None
    return " | ".join(str(part).strip() for part in (request.title, speaker, when) if part)
