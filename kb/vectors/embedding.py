"""Text to vectors, through the router."""

from __future__ import annotations

from collections.abc import Sequence

from crds import priority
from kb import errors, metrics
from kb.vectors import model
from router import client

# One request holds a model slot; small batches let a more urgent request in between.
BATCH = 32


class Embedder:
    """Embeds with one model. Raises `router.client.Unavailable` or `router.client.Rejected` (unknown model)."""

    def __init__(self, router: client.Client, name: str, meters: metrics.Metrics) -> None:
        self._router = router
        self._model = name
        self._meters = meters

    async def embed(self, texts: Sequence[str], urgency: priority.Priority) -> list[model.Vector]:
        """One vector per text, in order."""
        vectors: list[model.Vector] = []
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]
            vectors += await self._router.embed(self._model, batch, urgency)
            self._meters.embedded.inc(len(batch))
        dimensions = {len(vector) for vector in vectors}
        if len(dimensions) > 1 or 0 in dimensions:
            raise errors.Unusable(
                f"model {self._model!r} answers with vectors of {sorted(dimensions)} dimensions",
                field="embedModel",
                remedy="Set JERVIS_KB_EMBED_MODEL to an embedding model.",
            )
        return vectors
