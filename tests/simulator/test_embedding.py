"""The embedding session: a text goes through the model once while it is remembered, and its vector is its own."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fakes.ollama.embedding import minilm, session

TEXTS = ["The backup runs at night.", "Petra mends the printer.", "The backup runs at night."]


@pytest.fixture(scope="module")
def opened() -> session.Session:
    return session.Session(1, minilm.MAX_TOKENS)


def test_a_text_is_computed_once_and_gets_the_same_vector(opened: session.Session) -> None:
    first, tokens = opened.embed(TEXTS)
    assert opened.computed == 2
    assert np.array_equal(first[0], first[2])
    again, counted = opened.embed(TEXTS[::-1])
    assert opened.computed == 2
    assert counted == tokens
    assert np.array_equal(again, first[::-1])
    alone, _ = session.Session(1, minilm.MAX_TOKENS).embed([TEXTS[1]])
    assert alone[0] == pytest.approx(first[1], abs=1e-5)


def test_what_was_not_asked_for_longest_is_forgotten() -> None:
    small = session.Session(1, minilm.MAX_TOKENS, remembered=3)
    for text in ("kept", "old", "kept", "new", "newer"):
        small.embed([text])
    assert small.computed == 4
    small.embed(["kept", "newer"])
    assert small.computed == 4
    small.embed(["old"])
    assert small.computed == 5


def test_nothing_asked_is_nothing_answered(opened: session.Session) -> None:
    vectors, tokens = opened.embed([])
    assert vectors.shape == (0, 384)
    assert tokens == 0
