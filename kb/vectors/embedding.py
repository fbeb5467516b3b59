"""Text to vectors, through the router, in batches (`kb.batching`).

An urgent caller never waits for a slot, so that a question is not kept by bulk indexing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from crds import priority
from kb import batching, errors, metrics
from kb.vectors import model
from router import client

# One request holds a model slot; small batches let a more urgent request in between.
BATCH = 32


class Port(Protocol):
    """What makes vectors; `Embedder` here, and the two of `kb.reindex.indexes` while there are two indexes."""

    @property
    def name(self) -> str:
        """The model whose vectors are compared with now."""
        ...

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        ...


class Embedder:
    """Embeds with one model, at most `parallel` requests of the background at once.

    Raises `router.client.Unavailable` or `router.client.Rejected` (unknown model).
    """

    def __init__(self, router: client.Client, name: str, meters: metrics.Metrics, *, parallel: int = 4) -> None:
        self._router = router
        self._model = name
        self._meters = meters
        self._batcher = batching.Batcher(self._send, most=BATCH, parallel=parallel, lane=_lane)

    @property
    def name(self) -> str:
        """The model."""
        return self._model

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        try:
            vectors = await self._batcher.ask(urgency, texts)
        except (client.UnknownModel, client.Unauthorized) as error:
            raise errors.Unconfigured(
                error.message, field="embedModel", remedy=error.remedy or "Check the router's token of this service."
            ) from error
        dimensions = {len(vector) for vector in vectors}
        if len(dimensions) > 1 or 0 in dimensions:
            raise errors.Unconfigured(
                f"model {self._model!r} answers with vectors of {sorted(dimensions)} dimensions",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model.",
            )
        return vectors

    async def _send(self, urgency: priority.Priority, texts: Sequence[str]) -> list[model.Vector]:
        vectors = await self._router.embed(self._model, list(texts), urgency)
        self._meters.embedded.inc(len(texts))
        return vectors


def _lane(urgency: priority.Priority) -> str | None:
    return None if urgency <= priority.URGENT else "background"
