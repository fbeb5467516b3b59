"""What the models say of a document: the judgement that hints are made from, and the extractions of its chunks.

No chunk is asked about twice: finished answers are kept (`kb.ingest.answers`), and what is kept can be had alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from crds import priority
from kb import errors, wire
from kb.ingest import answers, draft, extraction, hints, prompt


@dataclass(frozen=True)
class Heard:
    """Extractions by chunk id; `problems` are the passages that nobody could extract from, in words.

    `missing` counts the chunks that were not asked about yet.
    """

    extractions: Mapping[str, extraction.Extraction]
    problems: list[str] = field(default_factory=list)
    missing: int = 0


class Hearing:
    """Asks about at most `parallel` chunks of a document at once. `clock` gives the current time in UTC."""

    def __init__(self, asked: answers.Answers, clock: Callable[[], datetime], *, parallel: int) -> None:
        self._answers = asked
        self._clock = clock
        self._parallel = parallel

    async def both(
        self, request: wire.IngestRequest, text: str, made: draft.Draft, urgency: priority.Priority
    ) -> tuple[hints.Judgement, Heard]:
        """The judgement and the extractions. Raises what `Answers.ask` raises."""
        # Both are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        judged, heard = await asyncio.gather(
            self._judge(request, text, urgency), self.extract(request, made, urgency), return_exceptions=True
        )
        for result in (heard, judged):
            if isinstance(result, BaseException):
                raise result
        assert isinstance(judged, hints.Judgement)
        assert isinstance(heard, Heard)
        return judged, heard

    async def extract(self, request: wire.IngestRequest, made: draft.Draft, urgency: priority.Priority) -> Heard:
        """What is said in each chunk. Raises an `Operational` error; what is unusable is a problem of the result."""
        slots = asyncio.Semaphore(self._parallel)

        async def ask(piece: draft.Piece) -> extraction.Extraction:
            async with slots:
                return await self._answers.ask(_question(request, piece), extraction.Extraction, urgency)

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
        return Heard(extractions, problems)

    async def kept(self, request: wire.IngestRequest, made: draft.Draft) -> Heard:
        """What was said about these chunks before; asks nobody."""
        found = {
            piece.id: said
            for piece in made.pieces
            if (said := await self._answers.kept(_question(request, piece), extraction.Extraction)) is not None
        }
        return Heard(found, missing=len(made.pieces) - len(found))

    async def _judge(self, request: wire.IngestRequest, text: str, urgency: priority.Priority) -> hints.Judgement:
        today = self._clock().astimezone(UTC).date()
        question = prompt.hints(
            hints.excerpt(text), title=request.title, kind=request.kind, today=today, team=request.team
        )
        return await self._answers.ask(question, hints.Judgement, urgency)


def _question(request: wire.IngestRequest, piece: draft.Piece) -> prompt.Prompt:
    return prompt.extract(piece.chunk.text, title=request.title, kind=request.kind)
