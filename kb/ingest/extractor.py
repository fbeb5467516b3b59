"""What the models say of a document: the judgement that hints are made from, and the extractions of its chunks.

No chunk is asked about twice: finished answers are kept (`kb.extract.answers`), and what is kept can be had alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from crds import errors as root
from crds import priority
from kb import api, errors
from kb.extract import answers, draft, entity_types, extraction, prompt
from kb.extract.qualifier import phases
from kb.rules import overrides

_Said = TypeVar("_Said")
_HALVED_CHARS = 400


@dataclass(frozen=True)
class ExtractionResult:
    """Extractions by chunk id; `problems` are the passages without an extraction, in words.

    `missing` counts the chunks that were not asked about yet.
    """

    extractions: Mapping[str, extraction.Extraction]
    problems: list[str] = field(default_factory=list)
    missing: int = 0


class Extractor:
    """Asks about at most `parallel` chunks of a document at once, with the entity types that hold for its owner."""

    def __init__(
        self,
        asked: answers.Answers,
        types: entity_types.Registry,
        qualifier: phases.Qualifier,
        *,
        parallel: int,
    ) -> None:
        self._answers = asked
        self._types = types
        self._qualifier = qualifier
        self._parallel = parallel

    async def both(
        self,
        request: api.IngestRequest,
        text: str,
        made: draft.Draft,
        urgency: priority.Priority,
        prompt_rules: Sequence[str] = (),
        overrides: overrides.Overrides = overrides.NONE,
        earlier: str = "",
    ) -> phases.Qualified[ExtractionResult]:
        """The judgement and the extractions, or in their places the errors that `Answers.ask` raises; with the draft
        that is to be committed, and what the qualifier understood. `prompt_rules`, `overrides` and `earlier` as in
        `Qualifier.run`."""

        async def read(drafted: draft.Draft, spent: answers.Spent) -> ExtractionResult:
            return await self.extract(request, drafted, urgency, spent=spent)

        return await self._qualifier.run(request, text, made, urgency, read, prompt_rules, overrides, earlier)

    async def judge(
        self,
        request: api.IngestRequest,
        text: str,
        made: draft.Draft,
        urgency: priority.Priority,
        prompt_rules: Sequence[str] = (),
        overrides: overrides.Overrides = overrides.NONE,
        earlier: str = "",
    ) -> phases.Qualified[ExtractionResult]:
        """As `both`, for a document that is not to be stored: nothing is asked about its chunks."""

        async def read(drafted: draft.Draft, spent: answers.Spent) -> ExtractionResult:
            return ExtractionResult({})

        return await self._qualifier.run(request, text, made, urgency, read, prompt_rules, overrides, earlier)

    async def extract(
        self,
        request: api.IngestRequest,
        made: draft.Draft,
        urgency: priority.Priority,
        *,
        earlier: bool = False,
        spent: answers.Spent | None = None,
    ) -> ExtractionResult:
        """What is said in each chunk. Raises an `Operational` error; what is unusable is a problem of the result.

        `earlier`: an answer that was given before the owner's entity types were changed is good enough.
        """
        if request.kind in api.STRUCTURED:
            return ExtractionResult({})
        slots = asyncio.Semaphore(self._parallel)
        sets = entity_types.sets(await self._types.holding(request.scope))

        async def ask(piece: draft.ChunkDraft) -> extraction.Extraction:
            async with slots:
                for types in sets if earlier else ():
                    question = _question(request, piece, types)
                    kept = await self._answers.kept(question, extraction.Extraction, request.scope)
                    if kept is not None:
                        return kept
                question = _question(request, piece, sets[0])
                return await self._answers.ask(
                    question,
                    extraction.Extraction,
                    urgency,
                    request.scope,
                    spent,
                    smaller=_smaller(request, piece, sets[0]),
                )

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        found = await asyncio.gather(*(ask(piece) for piece in made.pieces), return_exceptions=True)
        extractions: dict[str, extraction.Extraction] = {}
        problems: list[str] = []
        for piece, result in zip(made.pieces, found, strict=True):
            if isinstance(result, extraction.Extraction):
                extractions[piece.id] = result
            elif isinstance(result, errors.Unusable):
                problems.append(f"characters {piece.chunk.start}-{piece.chunk.end}: {result.message}")
            elif isinstance(result, BaseException):
                raise result
        return ExtractionResult(extractions, problems)

    async def kept(self, request: api.IngestRequest, made: draft.Draft) -> ExtractionResult:
        """What was said about these chunks before; asks no model."""
        if request.kind in api.STRUCTURED:
            return ExtractionResult({})
        types = entity_types.sets(await self._types.holding(request.scope))[0]
        found = {
            piece.id: said
            for piece in made.pieces
            if (
                said := await self._answers.kept(_question(request, piece, types), extraction.Extraction, request.scope)
            )
            is not None
        }
        return ExtractionResult(found, missing=len(made.pieces) - len(found))


def _question(request: api.IngestRequest, piece: draft.ChunkDraft, types: entity_types.Types) -> prompt.Prompt:
    return prompt.extract(piece.chunk.text, title=request.title, kind=request.kind, types=types)


def _smaller(request: api.IngestRequest, piece: draft.ChunkDraft, types: entity_types.Types) -> prompt.Prompt | None:
    """The question about the first half of the chunk; None for a chunk that is short."""
    if len(text := piece.chunk.text) < _HALVED_CHARS:
        return None
    half = text[: len(text) // 2]
    # Up to where a word ends. The blank of a title before a text without blanks would be the end of all of it.
    end = half.rfind(" ", len(half) * 3 // 4)
    return prompt.extract(half[:end] if end > 0 else half, title=request.title, kind=request.kind, types=types)


async def tried(models: Awaitable[_Said]) -> _Said | root.JervisError:
    """What models say, or why they do not: it is recorded with the document's turn, for the document as it is then."""
    try:
        return await models
    except root.JervisError as error:
        return error
