"""Sentences are verbatim, of a length that a person reads, and end where their language says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.reading import sentence

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
