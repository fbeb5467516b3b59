"""A second look at the best candidates: a cross-encoder reads the question and each passage together.

Off unless a model is named. It is asked through the router by `POST /v1/rerank`, as llama.cpp's server and vLLM have
it; Ollama has none. A question does not depend on it: what is late or fails leaves the order as it was (decision 0069).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

from crds import errors, priority
from kb import metrics
from router import client

log = structlog.get_logger(__name__)


class Outcome(StrEnum):
    """What became of the second look; `Off` where none is asked for."""

    OFF = "Off"
    DONE = "Done"
    LATE = "Late"
    FAILED = "Failed"


@dataclass(frozen=True)
class Judged:
    """`relevance` of each passage in the order that they were given; none unless `outcome` is Done."""

    outcome: Outcome
    relevance: Sequence[float] = ()


class Reranker(Protocol):
    """Says how well passages answer a question."""

    @property
    def candidates(self) -> int:
        """How many of the best are judged; 0 is none."""
        ...

    async def judge(self, question: str, passages: Sequence[str], urgency: priority.Priority) -> Judged:
        """Never raises because of the model, the router or the time."""
        ...


class Nothing:
    """The order stays as it is."""

    candidates = 0

    async def judge(self, question: str, passages: Sequence[str], urgency: priority.Priority) -> Judged:
        return Judged(Outcome.OFF)


_CANDIDATES = 20
"""The best candidates of a question, which are judged; each is one more text for the model."""


class CrossEncoder:
    """Implements `Reranker`: one call for a question, of the first `chars` characters of each passage.

    `seconds` bound the whole wait, the router's queue included.
    """

    def __init__(
        self,
        router: client.Client,
        model: str,
        meters: metrics.Metrics,
        *,
        candidates: int = _CANDIDATES,
        seconds: float,
        chars: int,
    ) -> None:
        self._router = router
        self._model = model
        self._meters = meters
        self._seconds = seconds
        self._chars = chars
        self.candidates = candidates

    async def judge(self, question: str, passages: Sequence[str], urgency: priority.Priority) -> Judged:
        try:
            async with asyncio.timeout(self._seconds):
                shown = [passage[: self._chars] for passage in passages]
                found = Judged(Outcome.DONE, await self._router.rerank(self._model, question, shown, urgency))
        except TimeoutError:
            log.warning("a question was answered without reranking", reason=f"no answer in {self._seconds:g} s")
            found = Judged(Outcome.LATE)
        except errors.JervisError as error:
            log.warning("a question was answered without reranking", reason=error.message)
            found = Judged(Outcome.FAILED)
        self._meters.reranked.labels(found.outcome.value.lower()).inc()
        return found
