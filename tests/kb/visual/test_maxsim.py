"""Pooling and MaxSim against definitions that are written out here."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from kb.visual import embedder, maxsim, model


def vectors(count: int, dimension: int = 16, seed: int = 1) -> model.Array:
    return maxsim.unit(np.random.default_rng(seed).normal(size=(count, dimension)))


def ward(points: model.Array, wanted: int) -> set[frozenset[int]]:
    """Ward's method as it is defined: always the merge that adds least to the squares within clusters."""
    clusters = [[at] for at in range(len(points))]

    def cost(one: list[int], other: list[int]) -> float:
        apart = points[one].astype(float).mean(axis=0) - points[other].astype(float).mean(axis=0)
        return len(one) * len(other) / (len(one) + len(other)) * float(apart @ apart)

    while len(clusters) > wanted:
        one, other = min(itertools.combinations(range(len(clusters)), 2), key=lambda p: cost(*(clusters[i] for i in p)))
        clusters[one] += clusters.pop(other)
    return {frozenset(one) for one in clusters}


@pytest.mark.parametrize("count", [2, 3, 7, 30, 61])
def test_pooling_is_ward_s_method(count: int) -> None:
    points = vectors(count)
    wanted = max(count // 3, 1)
    means = [points[sorted(one)].mean(axis=0) for one in sorted(ward(points, wanted), key=min)]
    pooled = maxsim.pool(points, 3)
    assert pooled.shape == (wanted, 16)
    np.testing.assert_allclose(pooled, maxsim.unit(np.stack(means)), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(pooled, axis=1), 1, atol=1e-5)


def test_equal_tokens_become_one_and_a_page_of_one_vector_stays() -> None:
    twice = np.repeat(vectors(4), 3, axis=0)
    np.testing.assert_allclose(maxsim.pool(twice, 3), vectors(4), atol=1e-5)
    assert maxsim.pool(np.repeat(vectors(1), 9, axis=0), 3).shape == (3, 16)
    one = vectors(1)
    assert maxsim.pool(one, 3) is one
    assert maxsim.pool(vectors(9), 1).shape == (9, 16)


def test_maxsim_is_the_sum_of_each_token_s_best_cosine() -> None:
    question, page = vectors(5, seed=2), vectors(40, seed=3)
    wanted = sum(max(float(one @ other) for other in page) for one in question)
    assert maxsim.score(question, page) == pytest.approx(wanted, abs=1e-4)
    assert maxsim.score(question, np.zeros((0, 0), np.float32)) == 0


def test_packed_vectors_keep_their_scores() -> None:
    page, question = vectors(700, 128), vectors(12, 128, seed=5)
    packed = maxsim.pack(page)
    assert len(packed) == 8 + 700 * (128 + 4)
    assert maxsim.score(question, maxsim.unpack(packed)) == pytest.approx(maxsim.score(question, page), abs=0.05)
    np.testing.assert_allclose(maxsim.unpack(packed), page, atol=float(np.abs(page).max()) / 254 + 1e-6)
    assert maxsim.pack(np.zeros((0, 0), np.float32)) == b""
    assert maxsim.unpack(b"").shape == (0, 0)
    assert maxsim.unpack(maxsim.pack(np.zeros((2, 4), np.float32))).tolist() == [[0.0] * 4] * 2


def test_patches_of_a_token_are_those_that_are_most_like_it() -> None:
    page = np.eye(8, dtype=np.float32)
    question = maxsim.unit(np.array([page[3] * 2 + page[6], page[7]]))
    found = maxsim.patches(question, page, model.Grid(2, 3, first=1), most=2)
    assert [[(row, column) for row, column, _ in one] for one in found] == [[(0, 2), (1, 2)], [(0, 0), (0, 1)]]
    assert found[0][0][2] == pytest.approx(2 / 5**0.5)
    assert maxsim.patches(question, page, model.Grid(3, 3), most=2) == []


def test_a_long_question_has_so_many_vectors_at_most_and_its_end_counts() -> None:
    alike = np.repeat(vectors(100), 3, axis=0)
    words = tuple(f"w{at // 3}" for at in range(300))
    asked = model.Query(alike, words)
    assert embedder.bounded(asked, 300) is asked
    bound = embedder.bounded(asked, 100)
    np.testing.assert_allclose(bound.vectors, vectors(100), atol=1e-5)
    assert bound.tokens == tuple(f"w{at}" for at in range(100)), "each by what it stands for, once"
    page = vectors(400, seed=9)
    page[7] = alike[-1]
    assert float((bound.vectors @ page.T).max()) == pytest.approx(1, abs=1e-5), "the last word is found"
    assert embedder.bounded(asked, 8).vectors.shape == (8, 16)
    assert len(embedder.bounded(asked, 8).tokens) == 8
    # Names that do not fit the vectors name none; what is far behind is not read.
    assert embedder.bounded(model.Query(alike, ("a",)), 100).tokens == ()
    assert embedder.bounded(model.Query(vectors(2500), tuple("x" for _ in range(2500))), 128).vectors.shape == (128, 16)
