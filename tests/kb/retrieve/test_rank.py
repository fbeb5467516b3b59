"""Fusion, hops and what a score is made of: the names in a question, and cosines of any model."""

from __future__ import annotations

import asyncio
import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds.priority import Priority
from kb import metrics
from kb.graph import model
from kb.retrieve import calibration, naming, rank
from kb.vectors import embedding
from router import client as router_client
from tests.fakes.ollama import process

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


def named(question: str, *known: str) -> list[str]:
    return naming.longest(naming.spans(question), known)


def test_a_name_is_found_whatever_its_case_and_punctuation() -> None:
    assert named("who wrote GATEWAY.KT?", "gateway.kt") == ["gateway.kt"]
    assert named("When did Lothair Ii's mother die?", "lothair ii") == ["lothair ii"]
    assert named("What of Love, Honor And Oh-Baby!", "love_ honor and oh-baby") == ["love_ honor and oh-baby"]
    assert named("Is JERV-123 done?", "jerv-123") == ["jerv-123"]


def test_of_names_within_names_the_longest_counts() -> None:
    question = "Which film is older, Romance on the Run or Run?"
    assert named(question, "run", "romance on the run") == ["romance on the run", "run"]
    assert named("Romance on the Run", "run", "romance", "romance on the run") == ["romance on the run"]


def forms(question: str, known: tuple[str, ...], *names: str) -> list[str]:
    stems = [model.stem_of(f":{name}") for name in names]
    return naming.inflected(naming.spans(question), known, stems)


def test_an_inflected_name_is_known_by_its_stem() -> None:
    assert forms("Kde pracuje manžel Jany Novákové?", (), "jana nováková", "nováková") == ["jan novak"]
    assert forms("Was ist mit dem Vertrag Müllers?", (), "müller") == [model.stem_of(":müller")]
    assert forms("Что с договором Орлова?", (), "орлов") == [model.stem_of(":орлов")]


def test_what_is_called_so_exactly_has_no_other_form() -> None:
    assert forms("Where is Petra?", ("petra",), "petr") == []
    assert forms("Where is Petra now?", ("jana",), "petr") == ["petr"]


def test_a_word_without_a_capital_is_no_inflected_name() -> None:
    assert forms("which services are there?", (), "service") == []


def test_a_name_within_a_question_without_spaces() -> None:
    assert named("佐藤さくらさんはどのチームのリーダーですか。", "佐藤さくら", "佐藤", "チーム") == [
        "佐藤さくら",
        "チーム",
    ]
    assert named("金葉の連絡先", "金葉", "の") == ["金葉"]
    assert named("PostgreSQLに移す", "postgresql") == ["postgresql"]


def test_words_that_name_nothing_name_nothing() -> None:
    assert named("What is it?", "is") == []
    assert named("", "run") == []


def test_a_long_question_is_looked_through_at_its_beginning_only() -> None:
    assert len(naming.spans("word " * 10_000)) < 3000


_AXES = [[1.0 if at == axis else 0.0 for at in range(6)] for axis in range(6)]


def shifted(vector: list[float], by: float) -> list[float]:
    """The vector of a model whose cosines are all larger: it has a part that all texts have in common."""
    return [*vector, by * math.hypot(*vector)]


def cosine(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@given(st.floats(0, 3), st.lists(st.floats(0.1, 1), min_size=6, max_size=6))
def test_what_all_texts_have_in_common_does_not_count(by: float, text: list[float]) -> None:
    floor = calibration.floor_of([shifted(axis, by) for axis in _AXES])
    raised = cosine(shifted(text, by), shifted(_AXES[0], by))
    assert calibration.scaled(raised, floor) == pytest.approx(cosine(text, _AXES[0]), abs=1e-6)


def test_a_floor_is_never_below_nothing_and_one_stays_one() -> None:
    assert calibration.floor_of([[1.0, 0.0], [-1.0, 0.0]]) == 0.0
    assert calibration.scaled(1.0, 0.4) == 1.0
    assert calibration.scaled(0.4, 0.4) == 0.0


async def test_a_model_is_measured_once(
    router: router_client.Client, fake: process.Fake, meters: metrics.Metrics
) -> None:
    measured = calibration.Calibration(embedding.Embedder(router, "qwen3-embedding:8b", meters))
    floors = await asyncio.gather(*(measured.floor(Priority.P0) for _ in range(3)))
    assert len(set(floors)) == 1
    assert 0.0 <= floors[0] < 0.15
    embedded = meters.embedded._value.get()
    await measured.floor(Priority.P0)
    assert meters.embedded._value.get() == embedded == 10
