"""`job.respond/v1` and the real embeddings under it."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from contracts.rules import enforce_lines
from orchestrator_job.answer import model_answer
from router.client import reading
from tests.fakes.ollama.embedding import minilm, session
from tests.fakes.ollama.rules import fitting, generic, prompt, respond


def parsed(
    text: str, evidence_ids: Collection[int], held: enforce_lines.Provisions | None = None
) -> model_answer.Answer:
    """The answer in a model's text."""
    draft = reading.read(text, model_answer.Draft).value
    return model_answer.judged(draft, evidence_ids, held or enforce_lines.Provisions())


EVIDENCE = {
    1: "Infrastructure weekly. Petra Svobodova took the GPU node gpu-3 into service on Tuesday. It has two cards.",
    2: "The nightly backup of the document store was moved to 03:30, because it collided with the index rebuild.",
    3: "Please send the GPU capacity plan of your project to Controlling by 5 January 2027. Kind regards, Marta.",
}


@pytest.fixture(scope="module")
def embedder() -> minilm.Embedder:
    return minilm.Embedder()


def reply(embedder: minilm.Embedder, question: str, evidence: dict[int, str]) -> dict[str, Any]:
    blocks = "\n".join(f'<evidence id="{i}" source="urn:{i}">{text}</evidence>' for i, text in evidence.items())
    turns = [("system", "[prompt:job.respond/v1]"), ("user", f"{blocks}\n<question>{question}</question>")]
    return respond.answer(prompt.parse(turns), embedder.embed)


@pytest.mark.parametrize(
    ("question", "cited", "words"),
    [
        ("Who took the GPU node gpu-3 into service?", 1, "Petra Svobodova"),
        ("Why was the backup moved?", 2, "collided with the index rebuild"),
        ("When is the capacity plan due?", 3, "5 January 2027"),
    ],
)
def test_the_answer_is_quoted_from_the_nearest_evidence(
    embedder: minilm.Embedder, question: str, cited: int, words: str
) -> None:
    said = reply(embedder, question, EVIDENCE)
    assert words in said["answer"]
    assert f"[{cited}]" in said["answer"]
    assert said["citations"][0] == cited
    assert not said["needsInput"]
    assert respond.KNOWN <= said["confidence"] <= 1


def test_what_the_evidence_does_not_say_is_asked_of_the_user(embedder: minilm.Embedder) -> None:
    said = reply(embedder, "What is the capital of Mongolia?", EVIDENCE)
    assert said["needsInput"]
    assert "Mongolia" in said["questions"][0]


def test_of_the_two_shapes_of_an_answer_the_one_that_fits_is_written(embedder: minilm.Embedder) -> None:
    wire = model_answer.wire(list(EVIDENCE))
    asking = fitting.fit(wire, reply(embedder, "What is the capital of Mongolia?", EVIDENCE), generic.facts("", None))
    assert parsed(json.dumps(asking), list(EVIDENCE)).needs_input
    given = fitting.fit(wire, reply(embedder, "Why was the backup moved?", EVIDENCE), generic.facts("", None))
    read = parsed(json.dumps(given), list(EVIDENCE))
    assert (read.needs_input, read.citations[0]) == (False, 2)


def test_no_evidence_at_all(embedder: minilm.Embedder) -> None:
    said = reply(embedder, "Who took the node into service?", {})
    assert said["needsInput"]
    assert said["questions"]


def test_what_is_asked_of_us_is_the_request_not_the_news(embedder: minilm.Embedder) -> None:
    said = reply(embedder, 'What does "GPU capacity plan" ask of us, and what has to be done by when?', EVIDENCE)
    assert said["answer"].startswith("Please send the GPU capacity plan")


def test_vectors_are_384_numbers_of_unit_length(embedder: minilm.Embedder) -> None:
    vectors, tokens = embedder.embed(["short", "a much longer text than the other one, for a padded batch", ""])
    assert vectors.shape == (3, minilm.DIMENSIONS)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert tokens == 3 + 15 + 2  # [CLS] and [SEP] included, an empty text is those two


def test_a_text_means_the_same_in_any_batch(embedder: minilm.Embedder) -> None:
    texts = [f"text number {count} " + "with more words " * count for count in range(12)]
    together, _ = embedder.embed(texts)
    for place in (0, 7, 11):
        alone, _ = embedder.embed([texts[place]])
        np.testing.assert_allclose(together[place], alone[0], atol=1e-5)


def test_longer_texts_are_cut_at_256_tokens(embedder: minilm.Embedder) -> None:
    _, tokens = embedder.embed(["word " * 1000])
    assert tokens == minilm.MAX_TOKENS


def test_meaning_orders_the_cosines(embedder: minilm.Embedder) -> None:
    texts = [
        "A cat sits on the mat.",
        "A kitten rests on a rug.",
        "The database index was rebuilt.",
        "They reindexed the data store.",
    ]
    vectors, _ = embedder.embed(texts)
    near = vectors @ vectors.T
    assert near[0, 1] > 0.5 > 0.3 > near[0, 2]
    assert near[2, 3] > 0.5 > 0.3 > near[1, 3]


# The session: a text goes through the model once while it is remembered, and its vector is its own.

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
