"""Sentences are verbatim and of a length that a person reads."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kb.ingest import sentence


def texts(chunk: str) -> list[str]:
    return [found.text for found in sentence.split(chunk)]


def test_sentences_lines_and_abbreviations() -> None:
    assert texts("Dr. Novak came. He left! Why? e.g. Because of J. Smith.\n- item one\n\n- item two") == [
        "Dr. Novak came.",
        "He left!",
        "Why? e.g. Because of J. Smith.",
        "- item one",
        "- item two",
    ]
    assert texts("See UserService.kt and v1.2.3 for more.") == ["See UserService.kt and v1.2.3 for more."]


@given(st.text(alphabet=st.sampled_from("aB. \n!?"), max_size=300) | st.just("x" * 2000) | st.just("word " * 400))
def test_sentences_are_slices_that_cover_every_visible_character(chunk: str) -> None:
    covered: set[int] = set()
    for found in sentence.split(chunk):
        assert found.text == chunk[found.start : found.end]
        assert found.text.strip() == found.text
        assert 0 < len(found.text) <= sentence.MAX_CHARS
        covered |= set(range(found.start, found.end))
    assert {place for place, letter in enumerate(chunk) if not letter.isspace()} <= covered
