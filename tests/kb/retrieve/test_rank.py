"""Fusion and hop weights."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.retrieve import rank

_SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1, 30, allow_nan=False), max_size=6)


def test_relative_score_fusion() -> None:
    fused = rank.fuse({"a": 0.9, "b": 0.5, "c": 0.1}, {"b": 12.0, "d": 2.0}, 0.65)
    assert fused == pytest.approx({"a": 0.65, "b": 0.65 * 0.5 + 0.35, "c": 0.0, "d": 0.0})
    assert rank.fuse({"a": 0.3}, {}, 0.65) == {"a": 0.65}
    assert rank.fuse({}, {}, 0.65) == {}


def test_a_hop_is_worth_the_sentence_it_leaves() -> None:
    weights = rank.Weights(own=0.5, hop=1.0, decay=0.5)
    ways = {
        "direct": [rank.Way(0.2), rank.Way(0.4)],
        "near": [rank.Way(0.6, hops=1), rank.Way(0.1, hops=1)],
        "far": [rank.Way(0.6, hops=2)],
        "hub": [rank.Way(0.6, crowd=1000, hops=1)],
        "against": [rank.Way(-0.4, hops=1)],
    }
    scores = rank.combine({"direct": 0.6}, ways, weights)
    assert 0 < scores.pop("hub") < 0.2
    assert scores == pytest.approx({"direct": 0.8, "near": 0.6, "far": 0.3, "against": 0.0})


@given(dense=_SCORES, lexical=_SCORES, alpha=st.floats(0, 1))
def test_confidence_is_a_share_that_keeps_the_order(
    dense: dict[str, float], lexical: dict[str, float], alpha: float
) -> None:
    weights = rank.Weights()
    fused = rank.fuse(dense, lexical, alpha)
    assert fused.keys() == dense.keys() | lexical.keys()
    scores = rank.combine(fused, {key: [rank.Way(0.5, hops=1)] for key in list(fused)[:2]}, weights)
    shares = rank.confidence(scores, weights)
    assert all(0 <= share <= 1 for share in shares.values())
    ordered = sorted(scores, key=scores.__getitem__)
    assert all(shares[low] <= shares[high] for low, high in itertools.pairwise(ordered))
