"""Scores into one order. Pure.

The measured table of the kb page decided the shape: score fusion with alpha 0.6-0.7 beats rank fusion, and a hop is
worth what the cosine between the question and the sentence that was crossed says, not that it exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """`alpha`: share of the dense score in the fusion. `hop`: what a sentence is worth beside the fused score.

    `decay`: what remains of a sentence's worth per further hop.
    """

    alpha: float = 0.65
    hop: float = 1.0
    decay: float = 0.9


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Weaviate's relativeScoreFusion: each list scaled to 0..1 by its own range, then weighted; absent counts as 0."""
    scaled_dense, scaled_lexical = _scale(dense), _scale(lexical)
    return {
        key: alpha * scaled_dense.get(key, 0.0) + (1 - alpha) * scaled_lexical.get(key, 0.0)
        for key in scaled_dense.keys() | scaled_lexical.keys()
    }


def combine(
    fused: Mapping[str, float], sentences: Mapping[str, tuple[float, int]], weights: Weights
) -> dict[str, float]:
    """Final score of every chunk: its fused score and its best sentence.

    `sentences` maps a chunk to (cosine of its best sentence, hops it took to get there; 0 for a chunk that was found
    directly).
    """
    return {
        key: fused.get(key, 0.0) + weights.hop * _worth(sentences.get(key), weights)
        for key in fused.keys() | sentences.keys()
    }


def confidence(scores: Mapping[str, float], weights: Weights) -> dict[str, float]:
    """Scores as numbers between 0 and 1 that keep their order; 1 is the best that a chunk could have had."""
    best = 1.0 + weights.hop
    return {key: min(max(score / best, 0.0), 1.0) for key, score in scores.items()}


def _worth(found: tuple[float, int] | None, weights: Weights) -> float:
    if found is None:
        return 0.0
    cosine, hops = found
    return max(cosine, 0.0) * weights.decay**hops


def _scale(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}
