"""Whether the embedding models give vectors as long as those that are stored, asked when a process starts.

A model that was made anew under its old name, or another one behind the same alias, would be noticed by the first
write and by every question; it is said at the start, in the log and by /readyz.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import structlog

from crds import errors as root
from crds import priority
from kb import errors
from kb.vectors import embedding, store

log = structlog.get_logger(__name__)
_PROBE = "How long is a vector?"


class Dimensions:
    """Compares each store with the embedder of its texts. An empty store is not compared, and its model not asked."""

    def __init__(
        self,
        indexes: Sequence[tuple[store.Store, embedding.Port]],
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._indexes = indexes
        self._sleep = sleep
        self._fault: errors.Unconfigured | None = None

    async def ready(self) -> None:
        """Raises `kb.errors.Unconfigured` while vectors of another length are stored, as far as that is known."""
        if self._fault is not None:
            raise self._fault

    async def compare(self) -> None:
        """Ask once. Raises what the stores and the models raise, and what `ready` raises from now on."""
        for index, embedder in self._indexes:
            stored = await index.dimension()
            if stored is None:
                continue
            [vector] = await embedder.embed([_PROBE], priority.Priority.P3)
            if len(vector) != stored:
                self._fault = unlike(embedder.name, len(vector), stored)
                raise self._fault
        self._fault = None

    async def run(self, *, interval: float) -> None:
        """Ask until all are alike, every `interval` seconds."""
        said = ""
        while True:
            try:
                await self.compare()
            except (root.Operational, root.Permanent) as error:
                if error.message != said:
                    said = error.message
                    log.warning("the length of vectors is not as it should be, or not known yet", reason=said)
            else:
                return
            await self._sleep(interval)


def unlike(name: str, given: int, stored: int) -> errors.Unconfigured:
    """The error of a model whose vectors have another length than those of its index."""
    remedy = (
        "Set JERVIS_KB_EMBED_MODEL (chart: models.embedding) to the model that made the index, or to another name for "
        "this one and JERVIS_KB_EMBED_MODEL_BEFORE (chart: models.embeddingBefore) to the one before."
    )
    return errors.Unconfigured(
        f"model {name!r} gives vectors of {given} numbers, and its index holds vectors of {stored}. {remedy}",
        field="embedModel",
        remedy=remedy,
    )
