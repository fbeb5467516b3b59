"""Extractions made before, put where the pipeline keeps answers: a benchmark then asks no language model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date

from kb import api
from kb.extract import answers, draft, extraction, prompt
from kb.extract import typed as qualified

# What a model may call one and the same thing.
_TYPES = ("entity", "thing", "subject", "topic")
MOST_TYPES = len(_TYPES)

Typing = Callable[[str], str]
"""A name -> the type that the model says it has."""


def typing(text: str, types: int) -> Typing:
    """How a model types the names of a chunk that does not agree with itself from one chunk to the next.

    One of the first `types` types, by a hash of the chunk's text and the name.
    """
    return lambda name: _TYPES[hashlib.sha256(f"{text}\0{name.casefold()}".encode()).digest()[0] % types]


def from_triples(entities: Sequence[str], triples: Iterable[Sequence[str]], typed: Typing) -> extraction.Extraction:
    """An extraction from OpenIE output: phrases and [subject, predicate, object]."""
    known = [triple for triple in triples if len(triple) == 3 and all(part.strip() for part in triple)]
    names = dict.fromkeys([*entities, *(end for triple in known for end in (triple[0], triple[2]))])
    return extraction.Extraction(
        entities=[extraction.Entity(name=name[:300], type=typed(name)) for name in names if name.strip()][:200],
        relationships=[extraction.Relationship(source=s[:300], type=p[:120], target=o[:300]) for s, p, o in known][
            :400
        ],
    )


def from_names(names: Sequence[str], typed: Typing) -> extraction.Extraction:
    """An extraction of names alone."""
    kept = [extraction.Entity(name=name[:300], type=typed(name)) for name in names[:200]]
    return extraction.Extraction(entities=kept, relationships=[])


async def keep(
    shelf: answers.Shelf,
    model: str,
    request: api.IngestRequest,
    extractions: Mapping[int, extraction.Extraction],
    today: date,
    *,
    size: int,
    overlap: int,
) -> None:
    """Answer every question that the pipeline will ask about `request`; `extractions` by the ordinal of the chunk."""
    text = request.content or ""
    made = draft.make(request, text, size=size, overlap=overlap)
    judged = qualified.Detection(
        content_type="GENERIC",
        has_actionable_content=False,
        is_assigned_to_me=False,
        has_future_deadline=False,
        urgency="low",
        summary="",
        reason="replayed",
    )
    question = qualified.question("detect/v2", request, text, "", today=today, num_ctx=None)
    await shelf.keep_answer(
        answers.key(model, question, qualified.Detection),
        question.name,
        judged.model_dump_json(by_alias=True),
        request.scope,
    )
    for ordinal, piece in enumerate(made.pieces):
        asked = prompt.extract(piece.chunk.text, title=request.title, kind=request.kind)
        answer = extractions[ordinal].model_dump_json(by_alias=True)
        await shelf.keep_answer(answers.key(model, asked, extraction.Extraction), asked.name, answer, request.scope)
