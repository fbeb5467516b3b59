"""What a cosine of an embedding model means: how far it is above that of two texts that have nothing in common.

The ranking multiplies cosines of sentences by weights. Unrelated texts have a cosine near 0 in one model and of 0.4 in
another, whose every sentence would count for something. So the mean cosine of unrelated texts is measured once per
process and model, and is 0 afterwards; 1 stays 1.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import statistics
from collections.abc import Sequence

from crds import priority
from kb.vectors import embedding, model

_UNRELATED = (
    "The invoice is due at the end of the month.",
    "Glaciers move a few metres a year.",
    "She tuned the violin before the concert.",
    "A null pointer crashes the parser.",
    "Sourdough needs warm water and patience.",
    "The goalkeeper was sent off in the second half.",
    "Copper conducts electricity better than iron.",
    "The lighthouse was built in 1874.",
    "Vaccines train the immune system.",
    "The tenant has to paint the walls.",
)


class Calibration:
    """Measured by the first question. Raises what the embedder raises; the next question measures again then."""

    def __init__(self, embedder: embedding.Port) -> None:
        self._embedder = embedder
        self._measuring = asyncio.Lock()
        self._floors: dict[str, float] = {}

    async def floor(self, urgency: priority.Priority) -> float:
        """The cosine of texts that have nothing in common, from 0 to below 1."""
        name = self._embedder.name
        async with self._measuring:
            if name not in self._floors:
                self._floors[name] = floor_of(await self._embedder.embed(_UNRELATED, urgency))
            return self._floors[name]


def floor_of(vectors: Sequence[model.Vector]) -> float:
    """The mean cosine of each two of the vectors, or 0 where that is less."""
    lengths = [math.hypot(*vector) or 1.0 for vector in vectors]
    pairs = itertools.combinations(zip(vectors, lengths, strict=True), 2)
    cosines = [sum(a * b for a, b in zip(one, other, strict=True)) / (own * its) for (one, own), (other, its) in pairs]
    return min(max(statistics.fmean(cosines), 0.0), 0.99)


def scaled(cosine: float, floor: float) -> float:
    """A cosine as a share of what is above the floor; less than 0 for what is below it."""
    return (cosine - floor) / (1.0 - floor)
