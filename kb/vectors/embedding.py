"""Text to vectors, through the router, in batches (`kb.batching`).

An urgent caller never waits for a slot, so that a question is not kept by bulk indexing.

No text is cut without a word. One that is longer than the model's window is embedded in pieces, and its vector is their
mean (decision 0172). What a server refuses as too long all the same is halved until it fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import structlog

from crds import priority
from kb import batching, errors, metrics
from kb.vectors import model, window
from router import client

log = structlog.get_logger(__name__)
# One request holds a model slot; small batches let a more urgent request in between.
BATCH = 32
_SHARE = 16
"""One in so many tokens of a window is left free: the count of them is an estimate."""
_REFUSABLE = 32
"""Characters of a text that every embedding model takes."""


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

    Raises `router.client.Unavailable` or `router.client.Rejected`, and `kb.errors.Unconfigured` (unknown model).
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
            cut = [window.pieces(text, limit) for text in texts]
            pieces = [self._prefix + piece for part in cut for piece in part]
            found = await self._batcher.ask(urgency, pieces)
        except (client.UnknownModel, client.Unauthorized) as error:
            raise errors.Unconfigured(
                error.message, field="embedModel", remedy=error.remedy or "Check the router's token of this service."
            ) from error
        self._meters.embedded_in_pieces.labels("window").inc(sum(len(part) > 1 for part in cut))
        dimensions = {len(vector) for vector in found}
        if len(dimensions) > 1 or 0 in dimensions:
            raise errors.Unconfigured(
                f"model {self._model.name!r} answers with vectors of {sorted(dimensions)} dimensions",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model.",
            )
        flat = iter(found)
        return [_joined(list(itertools.islice(flat, len(part)))) for part in cut]

    async def _limit(self, urgency: priority.Priority) -> int:
        """Tokens that a piece may have, without the prefix. The server is asked for the window once."""
        if not self._window:
            try:
                self._window = await self._router.window(self._model.name, urgency) or window.UNKNOWN
            except client.UnknownModel:
                # A server that has no such question; or the model is not there yet, and embedding says so.
                return self._room(window.UNKNOWN)
            except client.Rejected:
                self._window = window.UNKNOWN
            log.info("the window of the embedding model", model=self._model.name, tokens=self._window)
        return self._room(self._window)

    def _room(self, size: int) -> int:
        return max(size - size // _SHARE - window.tokens(self._prefix), window.LEAST)

    async def _send(self, urgency: priority.Priority, texts: Sequence[str]) -> list[model.Vector]:
        try:
            vectors = await self._router.embed(self._model.name, list(texts), urgency)
        except client.TooLong as error:
            return await self._smaller(urgency, texts, error)
        self._meters.embedded.inc(len(texts))
        return vectors

    async def _smaller(
        self, urgency: priority.Priority, texts: Sequence[str], refused: client.TooLong
    ) -> list[model.Vector]:
        """The same in smaller requests, and a text that is refused alone in halves.

        It ends: each request has fewer texts, or a shorter one, and one of `_REFUSABLE` characters is not cut.
        """
        if len(texts) > 1:
            middle = len(texts) // 2
            return [*await self._send(urgency, texts[:middle]), *await self._send(urgency, texts[middle:])]
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
        return [window.mean([(await self._send(urgency, [self._prefix + half]))[0] for half in window.halves(body)])]


def _joined(vectors: Sequence[model.Vector]) -> model.Vector:
    """The vector of a text from those of its pieces; of one piece it is as the model gave it."""
    return vectors[0] if len(vectors) == 1 else window.mean(vectors)


def _lane(urgency: priority.Priority) -> str | None:
    return None if urgency <= priority.URGENT else "background"
