"""Text to vectors, through the router, in batches (`kb.batching`).

An urgent caller never waits for a slot, so that a question is not kept by bulk indexing.

No text is cut without a word. One that is longer than the model's window is embedded in pieces, and its vector is their
mean (decision 0172). What a server refuses as too long all the same is halved until it fits.

A text of which the model computes no numbers, or that is refused, fails its own caller alone: texts of several clients
travel together.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import structlog

from crds import priority
from kb import batching, errors, metrics
from kb.vectors import model, window
from router import client

log = structlog.get_logger(__name__)
# One request holds a model slot; small batches let a more urgent request in between.
BATCH = 32
SLICE = 128
"""Chunks and sentences that are embedded, and then stored, before their writer looks at its turn again."""
_SHARE = 16
"""One in so many tokens of a window is left free: the count of them is an estimate."""
_REFUSABLE = 32
"""Characters of a text that every embedding model takes."""
_Answer: TypeAlias = model.Vector | client.Rejected
"""What a request comes to for one of its texts."""


@dataclass(frozen=True)
class Model:
    """An embedding model, and what makes its vectors others than those of the same model without it.

    `passage_prefix` goes before each stored text that is embedded. `window`: tokens that it reads; 0: as its server
    says, or `kb.vectors.window.UNKNOWN`.
    """

    name: str
    passage_prefix: str = ""
    window: int = 0

    @property
    def identity(self) -> str:
        """The name of its index. Vectors with another prefix do not compare; those with another window do."""
        return f"{self.name} after {self.passage_prefix!r}" if self.passage_prefix else self.name


class Port(Protocol):
    """What makes vectors; `Embedder` here, and the two of `kb.reindex.indexes` while there are two indexes."""

    @property
    def name(self) -> str:
        """The identity of the model whose vectors are compared with now."""
        ...

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        ...


class Embedder:
    """Embeds with one model, at most `parallel` requests of the background at once.

    `prefixed`: the model's prefix of passages goes before each piece of a text; questions have none.

    Raises `router.client.Unavailable` or `router.client.Rejected`, and `kb.errors.Unconfigured` (unknown model, vectors
    of several lengths).
    """

    def __init__(
        self,
        router: client.Client,
        embed_model: Model | str,
        meters: metrics.Metrics,
        *,
        parallel: int = 4,
        prefixed: bool = True,
    ) -> None:
        self._router = router
        self._model = Model(embed_model) if isinstance(embed_model, str) else embed_model
        self._prefix = self._model.passage_prefix if prefixed else ""
        self._meters = meters
        self._window = self._model.window
        self._batcher = batching.Batcher(self._send, most=BATCH, parallel=parallel, lane=_lane)

    @property
    def name(self) -> str:
        """The model's identity."""
        return self._model.identity

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        if not texts:
            return []
        try:
            limit = await self._limit(urgency)
            cut: list[list[str]] = []
            for text in texts:
                cut.append(window.pieces(text, limit))
                # A long text takes a while, and the process answers questions meanwhile.
                await asyncio.sleep(0)
            pieces = [self._prefix + piece for part in cut for piece in part]
            found = _numbers(await self._batcher.ask(urgency, pieces))
        except (client.UnknownModel, client.Unauthorized) as error:
            raise errors.Unconfigured(
                error.message, field="embedModel", remedy=error.remedy or "Check the router's token of this service."
            ) from error
        self._meters.embedded_in_pieces.labels("window").inc(sum(len(part) > 1 for part in cut))
        self._compare(found)
        flat = iter(found)
        return [_joined(list(itertools.islice(flat, len(part)))) for part in cut]

    async def _limit(self, urgency: priority.Priority) -> int:
        """Tokens that a piece may have, without the prefix. The server is asked for the window once."""
        if not self._window:
            try:
                self._window = await self._router.window(self._model.name, urgency) or window.UNKNOWN
            except (client.UnknownModel, client.Unauthorized):
                # A server that has no such question; or the model is not there yet, or the token is not known yet, and
                # embedding says so.
                return self._room(window.UNKNOWN)
            except client.Rejected:
                self._window = window.UNKNOWN
            log.info("the window of the embedding model", model=self._model.name, tokens=self._window)
        return self._room(self._window)

    def _room(self, size: int) -> int:
        return max(size - size // _SHARE - window.tokens(self._prefix), window.LEAST)

    def _compare(self, vectors: Sequence[model.Vector]) -> None:
        dimensions = {len(vector) for vector in vectors}
        if len(dimensions) > 1 or 0 in dimensions:
            raise errors.Unconfigured(
                f"model {self._model.name!r} answers with vectors of {sorted(dimensions)} dimensions",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model.",
            )

    async def _send(self, urgency: priority.Priority, texts: Sequence[str]) -> Sequence[_Answer]:
        try:
            vectors = await self._router.embed(self._model.name, list(texts), urgency)
        except (client.TooLong, client.NoNumber) as error:
            return await self._smaller(urgency, texts, error)
        except (client.UnknownModel, client.Unauthorized, client.OtherApi):
            raise
        except client.Rejected as error:
            # Singly, and not by halves: a text that ends the model's runner ends it each time it is sent.
            return [error] if len(texts) == 1 else [(await self._send(urgency, [text]))[0] for text in texts]
        self._meters.embedded.inc(len(texts))
        return vectors

    async def _smaller(
        self, urgency: priority.Priority, texts: Sequence[str], refused: client.TooLong | client.NoNumber
    ) -> Sequence[_Answer]:
        """The same in smaller requests; of a text that is refused alone the error, or, as too long, its halves.

        It ends: each request has fewer texts, or a shorter one, and one of `_REFUSABLE` characters is not cut.
        """
        if len(texts) > 1:
            middle = len(texts) // 2
            return [*await self._send(urgency, texts[:middle]), *await self._send(urgency, texts[middle:])]
        if isinstance(refused, client.NoNumber):
            return [refused]
        [text] = texts
        body = text.removeprefix(self._prefix).strip()
        if len(body) <= _REFUSABLE:
            raise errors.Unconfigured(
                f"model {self._model.name!r} takes no text of {len(text)} characters: {refused.message}",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model, and its num_ctx to its context.",
            ) from refused
        log.info("a text is longer than the embedding model's window", model=self._model.name, characters=len(text))
        self._meters.embedded_in_pieces.labels("server").inc()
        # One after the other: both would take a slot each.
        halves = [(await self._send(urgency, [self._prefix + half]))[0] for half in window.halves(body)]
        try:
            vectors = _numbers(halves)
        except client.Rejected as error:
            return [error]
        self._compare(vectors)
        return [window.mean(vectors)]


def _numbers(answers: Sequence[_Answer]) -> list[model.Vector]:
    """The vectors. Raises the first error that is among them."""
    vectors: list[model.Vector] = []
    for answer in answers:
        if isinstance(answer, client.Rejected):
            raise answer
        vectors.append(answer)
    return vectors


def slices(items: Sequence[model.Chunk | model.Sentence]) -> Iterator[Sequence[model.Chunk | model.Sentence]]:
    """The same in their order, `SLICE` at a time."""
    return (items[start : start + SLICE] for start in range(0, len(items), SLICE))


def _joined(vectors: Sequence[model.Vector]) -> model.Vector:
    """The vector of a text from those of its pieces; of one piece it is as the model gave it."""
    return vectors[0] if len(vectors) == 1 else window.mean(vectors)


def _lane(urgency: priority.Priority) -> str | None:
    return None if urgency <= priority.URGENT else "background"
