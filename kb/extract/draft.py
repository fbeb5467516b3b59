"""A document taken apart: anchor, heading, chunks with their ids and sentences. Pure.

The heading (title, speaker, time) goes before every chunk when it is embedded: a chunk of a chat or a ticket says
little without it (kb page, trap 11). It is part of a chunk's id, so the time stands in it in UTC, and only where it was
said by a person at that time: a page or a file that is saved again unchanged keeps its chunks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from kb import api, identity, selection
from kb.extract import base_node, caller_facts, chunk, document_node, sentence

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
    anchor: document_node.DocumentNode
    heading: str
    pieces: tuple[ChunkDraft, ...]
    given: caller_facts.CallerFacts = field(default_factory=caller_facts.CallerFacts)


def make(request: api.IngestRequest, text: str, *, size: int, overlap: int) -> Draft:
    """Take `text`, the content of `request`, apart. Raises `kb.errors.Invalid` for a given fact without a key."""
    document_id = identity.document(request.scope, request.source_urn)
    heading = _heading(request)
    cuts = chunk.split(text, size=size, overlap=overlap)
    # Where an image was taken out of the content the places behind it are others.
    if request.starts and text == request.content:
        cuts = [one.paged(request.starts) for one in cuts]
    pieces = _pieces(document_id, heading, cuts)
    own = document_node.derive(request.source_urn, request.kind, request.scope)
    made = Draft(document_id, own, heading, pieces)
    return given_to(made, facts(request, base_node.parsed(request, text, own), own))


def facts(
    request: api.IngestRequest, node: caller_facts.Base | None, derived: document_node.DocumentNode
) -> caller_facts.CallerFacts:
    """What the caller gave, with the base node. Raises what `caller_facts.read` raises."""
    node = node or base_node.threaded(request, derived)
    key = node.key if node else derived.key
    stated = caller_facts.read(request.nodes, request.relationships, anchor=key, where=request.scope)
    return caller_facts.with_base(stated, node) if node else stated


def of_parts(made: Draft, texts: Sequence[str]) -> Draft:
    """With `texts` as its chunks in the place of those that its own text was cut into; offsets are those of the texts
    one after the other."""
    at, cuts = 0, []
    for text in texts:
        cuts.append(chunk.Chunk(text, at, at + len(text)))
        at += len(text) + 2
    return replace(made, pieces=_pieces(made.document_id, made.heading, cuts))


def given_to(made: Draft, stated: caller_facts.CallerFacts) -> Draft:
    """With other facts; their base node is the document's."""
    own = made.anchor if stated.base is None else document_node.DocumentNode(stated.base.key, stated.base.type)
    return replace(made, anchor=own, given=stated)


def _pieces(document_id: str, heading: str, cuts: Sequence[chunk.Chunk]) -> tuple[ChunkDraft, ...]:
    seen: Counter[str] = Counter()
    pieces: list[ChunkDraft] = []
    for cut in cuts:
        digest = identity.digest(f"{heading}\n{cut.text}")
        chunk_id = identity.chunk(document_id, digest, seen[digest])
        seen[digest] += 1
        pieces.append(ChunkDraft(chunk_id, cut, tuple(sentence.split(cut.text))))
    return tuple(pieces)


def _heading(request: api.IngestRequest) -> str:
    names = (request.metadata.get(name) for name in _SPEAKERS)
    speaker = next((one for one in names if isinstance(one, str)), "")
    timed = bool(speaker) or re.sub(r"[^a-z]", "", request.kind.casefold()).removesuffix("processing") in _SAID
    when = selection.utc(request.observed_at) if request.observed_at and timed else None
    parts = (request.title, speaker, when.isoformat(" ", "minutes")[:16] if when else "")
    return " | ".join(part.strip() for part in parts if part)
