"""Chunks are verbatim, cover everything, and end where a reader would pause."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.reading import chunk

_TEXT = st.text(alphabet=st.sampled_from("ab. \n\té日"), max_size=400)


@given(text=_TEXT, size=st.integers(4, 60), overlap=st.integers(0, 20))
def test_chunks_are_slices_that_cover_every_visible_character(text: str, size: int, overlap: int) -> None:
    overlap = min(overlap, max(size // 2 - 1, 0))
    covered: set[int] = set()
    last = -1
    for cut in chunk.split(text, size=size, overlap=overlap):
        assert cut.text == text[cut.start : cut.end]
        assert 0 < len(cut.text) <= size
        assert cut.text == cut.text.strip()
        assert cut.start > last
        last = cut.start
        covered |= set(range(cut.start, cut.end))
    assert {place for place, letter in enumerate(text) if not letter.isspace()} <= covered


def test_a_short_document_is_one_chunk() -> None:
    assert chunk.split("  hello\nworld \n") == [chunk.Chunk("hello\nworld", 2, 13)]
    assert chunk.split(" \n ") == []


def test_paragraphs_come_before_lines_and_lines_before_sentences() -> None:
    first, second = "a" * 60 + "\n" + "b" * 10, "c. d" + "e" * 70
    assert [cut.text for cut in chunk.split(f"{first}\n\n{second}", size=100, overlap=0)] == [first, second]
    lines = "a" * 60 + ". x\n" + "b" * 70
    assert [cut.text[0] for cut in chunk.split(lines, size=100, overlap=0)] == ["a", "b"]


def test_neighbours_overlap_from_the_beginning_of_a_word() -> None:
    words = " ".join(f"word{number}" for number in range(100))
    cuts = chunk.split(words, size=200, overlap=40)
    assert len(cuts) > 3
    for before, after in itertools.pairwise(cuts):
        assert 0 < before.end - after.start <= 40
        assert after.text.startswith("word")


def test_an_overlap_of_half_the_size_is_refused() -> None:
    with pytest.raises(ValueError, match="overlap"):
        chunk.split("text", size=10, overlap=5)


def test_a_text_without_spaces_is_cut_after_a_sentence() -> None:
    document = "項目完成了，等待批准。" * 60
    chunks = chunk.split(document, size=200, overlap=20)
    assert all(one.text.endswith("。") for one in chunks)
    assert "".join(one.text for one in chunks) == document
