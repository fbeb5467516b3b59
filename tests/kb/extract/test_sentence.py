"""Chunks and sentences are verbatim, cover everything, and end where a reader would pause or their language says."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.extract import chunk, sentence

# Two sentences each, in scripts with and without capital letters, spaces and the Latin full stop.
_SCRIPTS = {
    "Czech": ("Řešení je hotové.", "Šéf souhlasí."),
    "German": ("Über den Umbau wird geredet.", "Änderungen folgen."),
    "Russian": ("Решение готово.", "Ждём согласия."),
    "Greek": ("Η λύση είναι έτοιμη.", "Περιμένουμε."),
    "Polish": ("Łódź czeka.", "Żądanie złożono."),
    "Turkish": ("İş bitti.", "Şimdi bekliyoruz."),
    "Chinese": ("项目完成了。", "等待批准。"),
    "Japanese": ("計画は終わりました！", "承認を待っています。"),
    "Korean": ("계획이 끝났습니다.", "승인을 기다립니다."),
    "Hindi": ("काम पूरा हुआ।", "हम रुके हैं।"),
    "Arabic": ("انتهى العمل.", "هل ننتظر؟"),
    "Armenian": ("Աշխատանքն ավարտված է։", "Սպասում ենք։"),
}
_LETTERS = st.characters(exclude_categories=["Cs"])


def texts(chunk: str) -> list[str]:
    return [found.text for found in sentence.split(chunk)]


def test_sentences_lines_and_abbreviations() -> None:
    assert texts("Dr. Novak came. He left! Why? e.g. Because of J. Smith.\n- item one\n\n- item two") == [
        "Dr. Novak came.",
        "He left!",
        "Why?",
        "e.g. Because of J. Smith.",
        "- item one",
        "- item two",
    ]
    assert texts("See UserService.kt and v1.2.3 for more.") == ["See UserService.kt and v1.2.3 for more."]


@pytest.mark.parametrize("language", _SCRIPTS)
def test_sentences_of_a_script(language: str) -> None:
    one, other = _SCRIPTS[language]
    between = "" if language in ("Chinese", "Japanese") else " "
    assert texts(between.join((one, other, one))) == [one, other, one]


def test_a_czech_text_of_five_sentences() -> None:
    text = "Jana vede tým. Řešení je hotové. Čeká se na schválení. Šéf souhlasí. Žádost byla podána."
    assert len(texts(text)) == 5


@pytest.mark.parametrize(
    "whole",
    [
        "Např. Dr. Novák přišel 3. května.",
        "Am 3. Mai kam z.B. Dr. Müller.",
        "А. С. Пушкин жил в г. Москве.",
        "Verze 4.2 je z 1. 2. 2027.",
    ],
)
def test_what_is_abbreviated_ends_no_sentence(whole: str) -> None:
    assert texts(whole) == [whole]


@given(
    st.text(alphabet=st.sampled_from("aB. \n!?"), max_size=300)
    | st.text(alphabet=st.sampled_from("aŘ. \n!?。！か\u3099नि।\u0301\U0001f600"), max_size=300)
    | st.text(alphabet=_LETTERS, max_size=300)
    | st.lists(st.sampled_from([part for pair in _SCRIPTS.values() for part in pair]), max_size=30).map("".join)
    | st.just("x" * 2000)
    | st.just("word " * 400)
    | st.just("字" * 2000)
    | st.just("नि" * 1000)
)
def test_sentences_are_slices_that_cover_every_visible_character(chunk: str) -> None:
    covered: set[int] = set()
    for found in sentence.split(chunk):
        assert found.text == chunk[found.start : found.end]
        assert found.text.strip() == found.text
        assert 0 < len(found.text) <= sentence.MAX_CHARS
        covered |= set(range(found.start, found.end))
    assert {place for place, letter in enumerate(chunk) if not letter.isspace()} <= covered


def test_a_long_run_is_not_cut_between_a_letter_and_its_mark() -> None:
    assert all(found.text.startswith("न") for found in sentence.split("नि" * 1000))
    assert len(sentence.split("x" + "नि" * 1000)) > 3
    assert all(not found.text.startswith("ि") for found in sentence.split("x" + "नि" * 1000))


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
