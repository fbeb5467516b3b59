"""Words of any script: what search counts, and what the forms of a name have in common."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from text import words

_TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80)


@pytest.mark.parametrize(
    "forms",
    [
        "jana jany janě janu janou",
        "nováková novákové novákovou",
        "novák nováka novákovi novákem",
        "vaněk vaňka vaňkovi vaňkem",
        "karel karla karlovi karlem",
        "praha prahy praze prahu prahou",
        "olomouc olomouci",
        "volavka volavky volavce volavkou",
        "warszawa warszawy warszawie",
        "reiher reihers reihern",
        "falke falken",
        "haus hauses häuser",
        "орлов орлова орлову орловым",
        "анна анны анне анной",
        "цапля цапли цапле цаплю цаплей",
        "казань казани",
        "company companies",
        "invoice invoices invoicing",
    ],
)
def test_the_forms_of_a_word_have_one_stem(forms: str) -> None:
    assert len({words.stem(form) for form in forms.split()}) == 1


def test_words_that_are_not_forms_of_one_have_not() -> None:
    different = ["jana", "petr", "praha", "brno", "sokol", "server", "service", "report", "falke", "reiher", "орлов"]
    assert len({words.stem(word) for word in different}) == len(different)


def test_terms_are_words_and_their_stems() -> None:
    assert words.terms("S Janou v Praze") == ["s", "janou", "jan", "v", "praze", "prah"]
    assert words.terms("Résumé, résumé") == words.terms("resume RESUME")


def test_what_is_asked_as_written_and_as_a_stem_counts_for_both() -> None:
    assert words.asked("Kde je Novák a Jana") == ["kde", "je", "novak", "novak", "jana", "jan"]
    assert words.asked("Where is the report of Ann?") == ["where", "whr", "report", "report", "ann"]
    assert set(words.asked("a the of")) == set()


def test_diacritics_stay_where_they_are_asked_for() -> None:
    assert "résumé" in words.terms("Résumé", folded=False)
    assert set(words.terms("Résumé", folded=False)).isdisjoint(words.terms("resume", folded=False))


def test_scripts_without_spaces_are_searched_by_pairs() -> None:
    assert words.terms("請求書はPDFです") == ["請求", "求書", "書は", "pdf", "です"]
    assert words.terms("가격표") == ["가격", "격표"]
    assert words.terms("書") == ["書"]


def test_marks_that_tell_words_apart_stay() -> None:
    assert words.terms("かき") != words.terms("かぎ")
    assert words.split("हिन्दी भाषा") == ["हिन्दी", "भाषा"]


@given(_TEXT)
def test_terms_are_the_same_in_either_form_of_unicode_and_case(text: str) -> None:
    assert words.terms(unicodedata.normalize("NFD", text)) == words.terms(unicodedata.normalize("NFC", text))
    assert all(term and not any(letter.isspace() for letter in term) for term in words.terms(text))


@given(_TEXT)
def test_every_letter_and_number_is_in_some_term(text: str) -> None:
    found = "".join(words.terms(text, folded=False))
    said = unicodedata.normalize("NFKC", text).casefold()
    left_out = "".join(word for word in words.split(text) if word.isascii())
    assert all(letter in found + left_out for letter in said if unicodedata.category(letter)[0] in "LN")


@given(_TEXT)
def test_places_are_in_order_and_leave_only_white_space_out(text: str) -> None:
    places = words.places(text)
    assert all(end > start for start, end in places)
    assert [place for pair in places for place in pair] == sorted(place for pair in places for place in pair)
    covered = {at for start, end in places for at in range(start, end)}
    assert all(at in covered for at, letter in enumerate(text) if not letter.isspace())
