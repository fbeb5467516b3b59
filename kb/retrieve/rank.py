"""Scores into one order. Pure.

The measured table of docs/decisions/0014 decided the shape: score fusion beats rank fusion, and a hop is worth what
the cosine between the question and the sentence that was crossed says, not that it exists.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Weights:
    """Every number of the ranking. The others than `alpha` say what something is worth beside the fused score.

    They were chosen on all public questions of the five sets of docs/benchmarks.md (decision 0014), but for those that
    name another source; the decisions list what lost.
    """

    alpha: float = 0.4
    """Share of the dense score in the fusion: a compromise between pages (0.6) and chats (0.3)."""
    own: float = 1.0
    """The cosine of the best sentence of a chunk that was found directly."""
    named: float = 1.5
    """That the question names a node which the chunk is about (2wiki gains most; it has titles)."""
    inflected: float = 0.8
    """The share of `named` where only the stems of the names agree. Chosen on the notes of tests/kb/languages."""
    mention: float = 0.5
    """The share of `named` for a chunk that mentions the node alone among chunks. Chosen on the notes of
    tests/kb/languages, between 0 and 1; on musique_openie it adds 8 points of R@5 on the half of the
    questions that it was chosen on, and 1 on the other."""
    hop: float = 4.0
    """The cosine of the sentence, in a chunk already found, that mentions the node over which a hop leads away."""
    trust: float = 1.0
    """How much of a hop depends on how good the chunk is that is left."""
    decay: float = 1.0
    """What remains of a hop's worth per further hop."""
    bend: float = 0.7
    """Up to which share of the score of the chunk that is left a hop counts fully (see `gain`)."""
    crowd: float = 1.75
    """How fast a node says less about each chunk, the more chunks mention it (see `specific`)."""
    first_own: float = 0.7
    """The share of `own` that counts for the first place (see `lead`); chats want less, pages all."""
    first_named: float = 0.15
    """The share of `named` that counts for the first place."""


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


def aim(salience: float, crowd: int, cap: int, weights: Weights) -> float:
    """How well a node leads to one of the `crowd` chunks that mention it: fully, where the chunk is about the node.

    Elsewhere less, the more there are; not at all from a hub, of which no more than `cap` were looked at.
    """
    return max(about(salience), specific(crowd, cap, weights))


def specific(crowd: int, cap: int, weights: Weights) -> float:
    """How much a node says about each of the `crowd` chunks that mention it: all where it is one chunk's alone."""
    return 0.0 if crowd >= cap else 1.0 / (1.0 + weights.crowd * math.log(max(crowd, 1)))


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
    """The parts of a chunk's score; their sum is what it is ordered by.

    `relevance` is what a reranker says of it, and `place` the one that it has then (see `rerank`).
    """

    fused: float = 0.0
    own: float = 0.0
    named: float = 0.0
    hop: float = 0.0
    lead: float = 0.0
    rerank: float = 0.0
    relevance: float | None = None
    place: int | None = None

    @property
    def direct(self) -> float:
        """What the chunk has without any hop."""
        return self.fused + self.own + self.named

    @property
    def total(self) -> float:
        """The sum of the parts."""
        return self.fused + self.own + self.named + self.hop + self.lead + self.rerank


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
    """The keys, best first: as reranked, then what was raised (see `lead`), then by score; equals by key, so that one
    question has one answer."""
    last = len(scores)
    return [
        key
        for *_, key in sorted(
            (last if one.place is None else one.place, one.lead == 0.0, -one.total, key) for key, one in scores.items()
        )
    ]


def rerank(scores: Mapping[str, Score], first: Sequence[str], relevance: Mapping[str, float]) -> None:
    """Let `order` have those of `first`, the first keys of the order, by their `relevance`, the greatest before.

    What a cross-encoder says is no share of anything here. So the keys swap their scores: each gets that of its place,
    and the confidence stays the order's. A key without a relevance stays where it is.
    """
    places = [at for at, key in enumerate(first) if key in relevance]
    totals = sorted((scores[first[at]].total for at in places), reverse=True)
    # Equals stay as they were: sorting is stable.
    judged = sorted((first[at] for at in places), key=lambda key: -relevance[key])
    made = list(first)
    for at, key, total in zip(places, judged, totals, strict=True):
        made[at] = key
        scores[key].rerank = total - scores[key].total
        scores[key].relevance = relevance[key]
    for at, key in enumerate(made):
        scores[key].place = at


def behind(ordered: Sequence[str], successors: Mapping[str, Collection[str]]) -> list[str]:
    """`ordered`, but each key of `successors` comes after one of its own, where one of them is in the order at all."""
    placed: list[str] = []
    waiting = list(ordered)
    while waiting:
        for key in waiting:
            later = set(successors.get(key, ())) - {key}
            if later.isdisjoint(waiting) or not later.isdisjoint(placed):
                break
        else:
            key = waiting[0]  # each waits for another
        waiting.remove(key)
        placed.append(key)
    return placed


def _scale(scores: Mapping[str, float]) -> dict[str, float]:
    if not scores:
        return {}
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 1.0)
    return {key: (score - low) / (high - low) for key, score in scores.items()}
