"""Scores into one order. Pure.

The measured table of the kb page decided the shape: score fusion with alpha 0.6-0.7 beats rank fusion, and a hop is
worth what the cosine between the question and the sentence that was crossed says, not that it exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """`alpha`: share of the dense score in the fusion. The others say what a cosine is worth beside the fused score.

    `own`: the best sentence of a chunk that was found directly. `hop`: the sentence, in a chunk already found, that
    mentions the node over which a hop leads away. `decay`: what remains of that per further hop. The sentence at the
    far end was measured too and ranks worse than none.
    """

    alpha: float = 0.65
    own: float = 0.25
    hop: float = 0.5
    decay: float = 0.5


@dataclass(frozen=True)
class Way:
    """How the graph leads to a chunk: the cosine of the question with the sentence that is left, and the hops taken.

    A chunk that was found directly has 0 hops, and the sentence is its own. `crowd`: to how many chunks the node leads.
    """

    cosine: float
    crowd: int = 1
    hops: int = 0

    def worth(self, weights: Weights) -> float:
        """What the way adds to the chunk's score."""
        if self.hops == 0:
            return weights.own * max(self.cosine, 0.0)
        return weights.hop * specific(self.cosine, self.crowd) * float(weights.decay ** (self.hops - 1))


def specific(cosine: float, crowd: int) -> float:
    """What a sentence is worth whose node leads to `crowd` chunks: less, the more there are."""
    return max(cosine, 0.0) / (1.0 + 0.5 * math.log(max(crowd, 1)))


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Weaviate's relativeScoreFusion: each list scaled to 0..1 by its own range, then weighted; absent counts as 0."""
    scaled_dense, scaled_lexical = _scale(dense), _scale(lexical)
    return {
        key: alpha * scaled_dense.get(key, 0.0) + (1 - alpha) * scaled_lexical.get(key, 0.0)
        for key in scaled_dense.keys() | scaled_lexical.keys()
    }


def combine(fused: Mapping[str, float], ways: Mapping[str, Sequence[Way]], weights: Weights) -> dict[str, float]:
    """Final score of every chunk: its fused score, its own best sentence, and the best way that hops to it."""
    scores = dict.fromkeys(fused.keys() | ways.keys(), 0.0)
    for key in scores:
        own = max((way.worth(weights) for way in ways.get(key, ()) if way.hops == 0), default=0.0)
        hopped = max((way.worth(weights) for way in ways.get(key, ()) if way.hops > 0), default=0.0)
        scores[key] = fused.get(key, 0.0) + own + hopped
    return scores


def confidence(scores: Mapping[str, float], weights: Weights) -> dict[str, float]:
    """Scores as numbers between 0 and 1 that keep their order; 1 is the best that a chunk could have had."""
    best = 1.0 + weights.own + weights.hop
    return {key: min(max(score / best, 0.0), 1.0) for key, score in scores.items()}


def _scale(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}
