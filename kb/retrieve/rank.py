"""Scores into one order. Pure.

The measured table of docs/decisions/0014 decided the shape: score fusion beats rank fusion, and a hop is worth what
the cosine between the question and the sentence that was crossed says, not that it exists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """`alpha`: share of the dense score in the fusion. The others say what a cosine is worth beside the fused score.

    `own`: the best sentence of a chunk that was found directly. `named`: that the question names a node which the
    chunk is about. `hop`: the sentence, in a chunk already found, that mentions the node over which a hop leads away.
    `trust`: how much of that depends on how good the chunk is that is left. `decay`: what remains of it per further
    hop. `bend`: up to which share of the score of the chunk that is left a hop counts fully (see `gain`). `first_own`
    and `first_named`: the shares of `own` and `named` that count for the first place (see `lead`).
    """

    alpha: float = 0.4
    own: float = 1.0
    named: float = 1.5
    hop: float = 4.0
    trust: float = 1.0
    decay: float = 1.0
    bend: float = 0.7
    first_own: float = 0.7
    first_named: float = 0.15


@dataclass(frozen=True)
class Way:
    """How the graph leads to a chunk, after `hops` hops. `aim`: see the function of that name.

    `cosine`: of the question with the sentence that is left. `standing`: the score of the chunk that is left, as a
    share of the best one.
    """

    cosine: float
    standing: float
    hops: int
    aim: float

    def worth(self, weights: Weights) -> float:
        """What the way adds to the chunk's score."""
        return start(self.cosine, self.standing, self.hops, weights) * self.aim


def start(cosine: float, standing: float, hops: int, weights: Weights) -> float:
    """The part of a way's worth that is known before it is known where it leads; see `Way`."""
    trusted = 1.0 - weights.trust * (1.0 - standing)
    return float(weights.hop * max(cosine, 0.0) * trusted * weights.decay ** (hops - 1))


def about(salience: float) -> float:
    """What a salience is worth: one word of three of a title says far less than a third of what the whole says."""
    return salience * salience


def aim(salience: float, crowd: int, cap: int) -> float:
    """How well a node leads to one of the `crowd` chunks that mention it: fully, where the chunk is about the node.

    Elsewhere less, the more there are; not at all from a hub, of which no more than `cap` were looked at.
    """
    specific = 0.0 if crowd >= cap else 1.0 / (1.0 + 1.75 * math.log(max(crowd, 1)))
    return max(about(salience), specific)


def gain(direct: float, worth: float, left: float, bend: float) -> float:
    """What a way of this worth adds to a chunk of score `direct`, where `left` is the score of the chunk that is left.

    A chunk that is reached never comes before the one without which it would not have been found. Up to `bend` of that
    one's score all of the worth counts, beyond it ever less, so that of two chunks reached the better stays before.
    """
    reached, full = direct + worth, bend * left
    if reached <= full:
        return worth
    room, beyond = left - full, reached - full
    return max(full + room * beyond / (room + beyond) - direct, 0.0)


@dataclass
class Score:
    """The parts of a chunk's score; their sum is what it is ordered by."""

    fused: float = 0.0
    own: float = 0.0
    named: float = 0.0
    hop: float = 0.0
    lead: float = 0.0

    @property
    def direct(self) -> float:
        """What the chunk has without any hop."""
        return self.fused + self.own + self.named

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return self.fused + self.own + self.named + self.hop + self.lead


def fuse(dense: Mapping[str, float], lexical: Mapping[str, float], alpha: float) -> dict[str, float]:
    """Weaviate's relativeScoreFusion: each list scaled to 0..1 by its own range, then weighted; absent counts as 0."""
    scaled_dense, scaled_lexical = _scale(dense), _scale(lexical)
    return {
        key: alpha * scaled_dense.get(key, 0.0) + (1 - alpha) * scaled_lexical.get(key, 0.0)
        for key in scaled_dense.keys() | scaled_lexical.keys()
    }


def confidence(score: Score, weights: Weights) -> float:
    """A score as a number between 0 and 1 that keeps the order; 1 is the best that a chunk could have had."""
    share = score.total / (1.0 + weights.own + weights.named + weights.hop)
    # Two sums of the same value may differ in the last bit.
    return round(min(max(share, 0.0), 1.0), 9)


def lead(scores: Mapping[str, Score], weights: Weights) -> None:
    """Raise the chunk whose own words fit the question best to the score of the best one, before which `order` puts it.

    That a page is about a thing which the question names, or is led to from there, says that it belongs to the answer,
    and seldom that the answer begins with it; for the first place a name counts little and a hop not at all.
    """
    if not scores:
        return

    def words(key: str) -> tuple[float, str]:
        score = scores[key]
        return -(score.fused + weights.first_own * score.own + weights.first_named * score.named), key

    first = scores[min(scores, key=words)]
    first.lead = max(score.total for score in scores.values()) - first.total


def order(scores: Mapping[str, Score]) -> list[str]:
    """The keys, best first: what was raised (see `lead`), then by score; equals by key, so that one question has one
    answer."""
    return [key for _, _, key in sorted([(one.lead == 0.0, -one.total, key) for key, one in scores.items()])]


def _scale(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}
