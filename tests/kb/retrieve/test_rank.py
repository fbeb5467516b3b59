"""Fusion, hops and what a score is made of."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.retrieve import rank

_SCORES = st.dictionaries(st.sampled_from("abcdef"), st.floats(-1, 30, allow_nan=False), max_size=6)
_PART = st.floats(0, 1)
_WEIGHTS = rank.Weights()


def test_relative_score_fusion() -> None:
    fused = rank.fuse({"a": 0.9, "b": 0.5, "c": 0.1}, {"b": 12.0, "d": 2.0}, 0.65)
    assert fused == pytest.approx({"a": 0.65, "b": 0.65 * 0.5 + 0.35, "c": 0.0, "d": 0.0})
    assert rank.fuse({"a": 0.3}, {}, 0.65) == {"a": 0.65}
    assert rank.fuse({}, {}, 0.65) == {}


def test_a_hop_is_worth_the_sentence_it_leaves_and_the_chunk_that_it_stands_in() -> None:
    weights = rank.Weights(hop=1.0, trust=0.5, decay=0.5)
    assert rank.Way(0.6, 1.0, 1, 1.0).worth(weights) == pytest.approx(0.6)
    assert rank.Way(0.6, 0.5, 1, 1.0).worth(weights) == pytest.approx(0.45)
    assert rank.Way(0.6, 1.0, 2, 1.0).worth(weights) == pytest.approx(0.3)
    assert rank.Way(-0.4, 1.0, 1, 1.0).worth(weights) == 0.0


def test_a_node_leads_to_what_is_about_it_and_a_hub_nowhere_else() -> None:
    assert rank.aim(1.0, 1000, 50, _WEIGHTS) == 1.0
    assert rank.aim(0.0, 1, 50, _WEIGHTS) == 1.0
    assert 0.0 < rank.aim(0.0, 20, 50, _WEIGHTS) < rank.aim(0.0, 2, 50, _WEIGHTS) < 0.5
    assert rank.aim(0.0, 50, 50, _WEIGHTS) == 0.0


def test_a_third_of_a_title_says_less_than_a_third_of_it() -> None:
    assert rank.about(1.0) == 1.0
    assert rank.about(1 / 3) < 1 / 3 / 2
    assert rank.about(0.0) == 0.0


@given(direct=_PART, worth=st.floats(0, 4), left=st.floats(0, 4), bend=_PART)
def test_what_is_reached_never_comes_before_what_was_left(
    direct: float, worth: float, left: float, bend: float
) -> None:
    gain = rank.gain(direct, worth, left, bend)
    assert 0 <= gain <= worth + 1e-9
    assert direct + gain <= max(left, direct) + 1e-9
    if direct + worth <= bend * left:
        assert gain == worth


@given(direct=_PART, one=st.floats(0, 4), more=st.floats(0.01, 4), left=st.floats(0.1, 4))
def test_of_two_reached_from_one_the_better_stays_before(direct: float, one: float, more: float, left: float) -> None:
    assert rank.gain(direct, one, left, 0.7) <= rank.gain(direct, one + more, left, 0.7)


def test_the_best_comes_first_and_equals_in_the_order_of_their_keys() -> None:
    scores = {"b": rank.Score(fused=0.5), "a": rank.Score(own=0.5), "c": rank.Score(fused=0.2, hop=0.6)}
    assert rank.order(scores) == ["c", "a", "b"]


def test_the_first_place_is_for_the_words_of_the_question() -> None:
    scores = {
        "a": rank.Score(fused=0.4, own=0.6),
        "b": rank.Score(fused=0.3, own=0.5, named=1.5),
        "c": rank.Score(fused=0.1, own=0.2, named=0.5, hop=2.0),
    }
    rank.lead(scores, rank.Weights(first_own=1.0, first_named=0.1))
    assert rank.order(scores) == ["a", "c", "b"]
    assert scores["a"].total == pytest.approx(scores["c"].total)
    assert [scores[key].lead for key in "bc"] == [0.0, 0.0]


def test_a_name_that_outweighs_the_words_leads() -> None:
    scores = {"a": rank.Score(fused=0.4, own=0.6), "b": rank.Score(fused=0.3, own=0.5, named=1.5)}
    weights = rank.Weights(first_own=1.0, first_named=0.2)
    rank.lead(scores, weights)
    assert rank.order(scores) == ["b", "a"]
    assert all(score.lead == 0.0 for score in scores.values())
    rank.lead({}, weights)


@given(dense=_SCORES, lexical=_SCORES, alpha=st.floats(0, 1))
def test_fused_scores_are_shares(dense: dict[str, float], lexical: dict[str, float], alpha: float) -> None:
    fused = rank.fuse(dense, lexical, alpha)
    assert fused.keys() == dense.keys() | lexical.keys()
    assert all(0 <= score <= 1 for score in fused.values())


@given(st.lists(st.tuples(_PART, _PART, _PART, _PART), max_size=6))
def test_confidence_is_a_share_that_keeps_the_order(parts: list[tuple[float, float, float, float]]) -> None:
    weights = rank.Weights()
    scores = {
        str(number): rank.Score(fused, own * weights.own, named * weights.named, hop * weights.hop)
        for number, (fused, own, named, hop) in enumerate(parts)
    }
    rank.lead(scores, weights)
    shares = [rank.confidence(scores[key], weights) for key in rank.order(scores)]
    assert all(0 <= share <= 1 for share in shares)
    assert all(high >= low for high, low in itertools.pairwise(shares))


@pytest.mark.parametrize(
    ("successors", "expected"),
    [
        ({}, "abcd"),
        ({"a": {"c"}}, "bcad"),
        ({"a": {"c"}, "c": {"d"}}, "bdca"),
        ({"c": {"a"}}, "abcd"),
        ({"a": {"x"}}, "abcd"),
        ({"a": {"c", "d"}}, "bcad"),
        ({"a": {"b"}, "b": {"a"}}, "cdab"),
        ({"a": {"a"}}, "abcd"),
    ],
)
def test_a_key_comes_behind_its_successor(successors: dict[str, set[str]], expected: str) -> None:
    assert "".join(rank.behind("abcd", successors)) == expected
