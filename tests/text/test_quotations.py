"""Quotations and where the evidence has them."""

# ruff: noqa: RUF001 -- quotation marks of many languages are what is tested

from __future__ import annotations

import sys
from typing import Any
from unittest.mock import ANY

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import effort
from text import quotation_marks, quotations
from text.quotations import Verdict

EVIDENCE = {
    1: {quotations.plain("The operating voltage of the pump\nis 230 volts. Switch it off first.")},
    2: {quotations.plain("Jana Novak maintains the pump in the northern hall."), "another text of the same"},
    3: {quotations.plain("The lease costs 12,500 EUR a year at most. Below -5 degrees it stops at half past 10:15.")},
    4: {quotations.plain("温度は五十度です。温度は五十度で止まります。")},
}


@pytest.mark.parametrize(
    ("sentence", "verdict", "found"),
    [
        ('It says "the operating voltage of the pump is 230 volts" [1].', Verdict.SUPPORTED, 1),
        ('It says "The Operating voltage  of the pump is 230 volts." [1]', Verdict.SUPPORTED, 1),
        ('[1] says "operating voltage of the pump".', Verdict.SUPPORTED, 1),
        ('It says "jana novak maintains the pump".', Verdict.SUPPORTED, 2),
        ('It says "jana novak maintains the pump" [2, 1].', Verdict.SUPPORTED, 2),
        ('It says "jana novak maintains the pump" [1].', Verdict.MISATTRIBUTED, 2),
        ('It says "the operating voltage of the pump in the northern hall" [1].', Verdict.STITCHED, None),
        ('It says "The operating voltage ... Switch it off first" [1].', Verdict.STITCHED, None),
        ('It says "the operating voltage of the pump is 400 volts" [1].', Verdict.ABSENT, None),
        ('It says "the operating voltage of the pump is 23" [1].', Verdict.ABSENT, None),
        ('It says "perating voltage of the pump" [1].', Verdict.ABSENT, None),
        ('It says "The lease costs 12,500 EUR a year" [3].', Verdict.SUPPORTED, 3),
        ('It says "The lease of it costs 12" [3].', Verdict.ABSENT, None),
        ('It says "500 EUR a year at most" [3].', Verdict.ABSENT, None),
        ('It says "12,500 EUR a year at most" [3].', Verdict.SUPPORTED, 3),
        ('It says "below 5 degrees it stops" [3].', Verdict.ABSENT, None),
        ('It says "below -5 degrees it stops" [3].', Verdict.SUPPORTED, 3),
        ('It says "5 degrees it stops at" [3].', Verdict.ABSENT, None),
        ('It says "stops at half past 10" [3].', Verdict.ABSENT, None),
        ('It says "温度は五十度で止まり" [4].', Verdict.SUPPORTED, 4),
        ("Er sagt „Jana Novak maintains the pump“ [2].", Verdict.SUPPORTED, 2),
        ("Il dit «Jana Novak maintains the pump» [1].", Verdict.MISATTRIBUTED, 2),
    ],
)
def test_the_verdict_on_a_quotation(sentence: str, verdict: Verdict, found: int | None) -> None:
    [one] = quotations.find(sentence)
    judged = quotations.judge(one, EVIDENCE)
    assert (judged.verdict, judged.found) == (verdict, found)


@pytest.mark.parametrize("blank", ["\u00a0", "\u2007", "\u2008", "\u2009", "\u202f"], ids=ascii)
def test_a_number_with_blanks_in_it_is_not_cut(blank: str) -> None:
    known = {1: {quotations.plain(f"Napětí  je 10{blank}500 voltů{blank}na vstupu čerpadla.")}}
    for said, verdict in {
        "500 voltů na vstupu čerpadla": Verdict.ABSENT,
        "10 500 voltů na vstupu": Verdict.SUPPORTED,
        f"10{blank}500 voltů na vstupu": Verdict.SUPPORTED,
        "je 10 500 voltů na": Verdict.SUPPORTED,
        "voltů na vstupu čerpadla": Verdict.SUPPORTED,
    }.items():
        assert quotations.judge(quotations.Quotation(said, (1,)), known).verdict is verdict, said
    assert not quotations.within("Napětí je 10", known[1])
    text = f"Napětí je 10{blank}500 voltů"
    assert quotations.place("10 500 voltů", quotations.plain(text)) == len("Napětíje")


@pytest.mark.parametrize(
    ("source", "said", "supported"),
    [
        ("Check the non-return valve of it.", "the non\u2011return valve", True),
        ("The non\u2010return valve of it is open.", "The non-return valve of", True),
        ("The range is 5–10 bar at the inlet.", "range is 5-10 bar at", True),
        ("The range is 5-10 bar at the inlet.", "range is 5\u201110 bar at", True),
        ("It is open—as it should be.", "is open–as it should", True),
        ("The opera\u00adting vol\u00ad\ntage\u200b of the pump", "The operating voltage of", True),
        ("The operating voltage of the pump", "The oper\u00adating\ufeff voltage of", True),
        ("The valve opens auto-\n\nmatically at nine bar.", "valve opens automatically at nine", True),
        ("The valve opens auto-\n\nmatically at nine bar.", "valve opens auto-matically at nine", True),
        ("The valve opens auto-\nmatically at nine bar.", "valve opens auto- matically at nine", True),
        ("The non-\nreturn valve is auto-\nmatic in it.", "non-return valve is automatic", True),
        ("The non-\nreturn valve is auto-\nmatic in it.", "return valve is auto", True),
        ("Norm DIN-\n4711 of the pump is in force.", "Norm DIN-4711 of the pump", True),
        ("Norm DIN-\n4711 of the pump is in force.", "Norm DIN4711 of the pump", False),
        ("They re-cover the valve with cloth.", "They recover the valve", False),
        ("They recover the valve with cloth.", "They re-cover the valve", False),
        ("The valve opens auto-\nmatically at nine bar.", "tically at nine bar", False),
        ("The valve opens auto-\nmatically, never by hand.", "valve opens automatically by hand", False),
        ("Store at –5 °C in all rooms.", "5 °C in all rooms", False),
        ("Store at \u22125 °C in all rooms.", "at -5 °C in all rooms", True),
        ("Add 1/2 litre of oil to it.", "2 litre of oil to", False),
        ("The factor is 10^6 volts per metre.", "6 volts per metre", False),
        ("The factor is 10^-6 volts per metre.", "-6 volts per metre", False),
        ("The factor of it is 10^-6 volts.", "factor of it is 10", False),
        ("The factor is 10^6 volts per metre.", "is 10^6 volts per", True),
    ],
)
def test_typesetting_makes_no_quotation_false_and_cut_numbers_do(source: str, said: str, supported: bool) -> None:
    assert quotations.within(said, [quotations.plain(source)]) is supported


def test_a_place_is_counted_without_blanks_and_hyphens() -> None:
    source = quotations.plain("An auto-\nmatic non-return valve opens auto-\nmatically.")
    assert quotations.place("valve opens automatically", source) == len("Anautomaticnonreturn")
    assert quotations.place("opens auto-\nmatically", source) == len("Anautomaticnonreturnvalve")
    assert quotations.place("valve opens nowhere", source) == -1


def test_a_source_full_of_hyphens_is_read_in_bounded_time() -> None:
    """Words are joined only where a quotation is there without its hyphens."""
    source = [quotations.plain("a- " * 2000)] * 100
    with effort.counted() as spent:
        for _ in range(100):
            assert not quotations.within("an invented quotation of some words", source)
    assert spent.loops < 200


def test_a_name_in_quotation_marks_is_no_quotation() -> None:
    assert quotations.find('The "login page" and the "main menu of it" are broken [1].') == [
        quotations.Quotation("main menu of it", (1,))
    ]
    assert quotations.quoted('"ok" "two words here" "four words are here"') == ["four words are here"]
    assert quotations.quoted("彼は「ポンプの動作電圧は二百三十ボルトです」と言う") == [
        "ポンプの動作電圧は二百三十ボルトです"
    ]


def test_each_quotation_has_the_marks_behind_it() -> None:
    found = quotations.find('"one two three four" [1], but "five six seven eight" [2][3].')
    assert [one.marks for one in found] == [(1,), (2, 3)]


@pytest.mark.parametrize(
    ("sentence", "marked"),
    [
        ('According to [1], "one two three four", while [2] says "five six seven eight".', [(1,), (2,)]),
        ('[1] says "a b c d", [2] says "e f g h" and [3, 4] says "i j k l".', [(1,), (2,), (3, 4)]),
        ('[1] says "a b c d" and "e f g h"; [2] says "i j k l".', [(1,), (1, 2), (2,)]),
        ('"a b c d" is right [1], while "e f g h" is wrong [2].', [(1,), (2,)]),
        ('"a b c d" is right [1], and "e f g h" is [2], "i j k l" too.', [(1,), (2,), (1, 2)]),
        ('Beside that [1], "a b c d" stands in [2].', [(2,)]),
        ('It is so [1], "a b c d" [2] and "e f g h".', [(2,), (1, 2)]),
        ('[1] says "a b c d" [2], [3], and [4] says "e f g h".', [(2, 3, 4), (4,)]),
        ('As [1] says, "a b c d" and "e f g h" [2].', [(1, 2), (2,)]),
    ],
)
def test_marks_before_quotations_are_theirs_where_none_is_behind_the_last(
    sentence: str, marked: list[tuple[int, ...]]
) -> None:
    assert [one.marks for one in quotations.find(sentence)] == marked


@pytest.mark.parametrize(
    ("mark", "numbers"),
    [
        ("[1, page 8]", (1,)),
        ("[1, p. 8]", (1,)),
        ("[1 (page 8)]", (1,)),
        ("[1 | Page 8]", (1,)),
        ("[1: pp. 8–10]", (1,)),
        ("[1, S. 8]", (1,)),
        ("【12; strana 8】", (12,)),
        ("[1; 2]", (1, 2)),
        ("[1, page 8; 2, page 9]", (1, 2)),
        ("[1 p8, 2 p9†L4]", (1, 2)),
        ("[1, pages]", ()),
        ("[1, page 8 of it]", ()),
        ("[1, 8 pages]", ()),
        ("[page 8]", ()),
    ],
)
def test_a_mark_may_name_pages(mark: str, numbers: tuple[int, ...]) -> None:
    assert quotations.marks(f"It is so {mark}.") == numbers
    for piece in (f"It is so. {mark} Next", f'"It is so there." {mark} Next'):
        assert [one.text for one in quotations.parts(piece)] == ([piece[:-4], "Next"] if numbers else ANY)
    [part] = quotations.parts(f"It is so {mark}.")
    assert part.without(set(numbers)) == ("It is so ." if numbers else part.text)


@pytest.mark.parametrize(
    "sentence",
    [
        "“The pump’s operating voltage is 400 volts in every single case” [1].",
        "“The operating voltage of the pump’s motor is 400 volts” [1]",
        "« La tension de l’eau est de 400 volts » [1].",
        "”Spänningen är alltid 400 volt här” [1].",
        "‹One two three four› ›one two three four‹",
        "It’s 'the operating voltage of the pump’s motor' [1].",
        "It's 'one two three. Four five.' [1]",
        "‘the pumps’ voltage is always 400 volts’ [1]",
        '"The rack is 19" wide and made of gold" [1]',
        "他说“泵的电压是四百伏”[1]。",
        '"The operating voltage\nof the pump is 400 volts" [1]',
        '"The operating voltage of the pump is 230 volts [1]. And so on',
        '"The operating voltage of the pump\n\nNext',
        "“" + "The operating voltage is 400 volts. " * 200 + "” [1]",
        '"...the operating voltage is 400 volts" [1]',
        '("abc and "the operating voltage is 400 volts" [1]',
    ],
)
def test_an_invented_quotation_is_found_whatever_its_marks(sentence: str) -> None:
    found = quotations.find(sentence)
    assert found
    assert {quotations.judge(one, EVIDENCE).verdict for one in found} <= {Verdict.ABSENT, Verdict.STITCHED}


@pytest.mark.parametrize(
    ("sentence", "evidence"),
    [
        ('The rack is 19" wide, has four doors and "the operating voltage of the pump is 230 volts" [1]. ', ""),
        ("The pumps' filter, '90s style, says “the operating voltage of the pump is 230 volts” [1]. ", ""),
        ('It says "the operating\nvoltage of the pump is 230 volts" [1]. ', ""),
        ("“the cafe\u0301's water is not for drinking” [1]. ", "The caf\u00e9’s water is not for drinking."),
        ("„Der Schrank ist z. B. 19 Zoll breit“ (str. 3) [1]. ", "Der Schrank ist z. B. 19 Zoll breit."),
        ("他说“泵的电压是四百伏。”[1]。", "泵的电压是四百伏。"),
        ("“the pump says ‘stop it at once’ in red” 【1†L3】. ", "The pump says 'stop it at once' in red"),
        ('"See also [12] the annex of it all" [1]. ', "See also [12] the annex of it all"),
    ],
)
def test_a_quotation_that_is_there_is_supported_and_keeps_its_mark(sentence: str, evidence: str) -> None:
    known = EVIDENCE | {1: EVIDENCE[1] | {quotations.plain(evidence)}}
    [first, *_] = quotations.parts(sentence + "Next one. ")
    assert first.text == sentence
    [one] = first.quotations()
    assert (one.marks, first.marks()) == ((1,), (1,))
    assert quotations.judge(one, known).verdict is Verdict.SUPPORTED


def test_marks_inside_a_quotation_stay_as_they_are_and_others_go() -> None:
    [part] = quotations.parts('"See also [12] the annex of it all" [1, 13][14] 【1】.')
    assert part.marks() == (1, 13, 14)
    assert part.without({12, 13, 14}) == '"See also [12] the annex of it all" [1] 【1】.'


def test_marks_that_stay_keep_their_pages() -> None:
    [part] = quotations.parts("So [1, page 8; 2, p. 9] and [3, p. 1].")
    assert part.without({2, 3}) == "So [1, page 8] and ."


def test_quotation_marks_are_taken_away_with_those_inside() -> None:
    text = 'He says “one two ‘three four five six’ seven”, and "eight nine ten eleven" it’s.'
    outer = "one two ‘three four five six’ seven"
    assert quotations.unquoted(text, {outer}) == (
        'He says one two three four five six seven, and "eight nine ten eleven" it’s.'
    )


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two. Thr", ["One. ", "Two. ", "Thr"]),
        ("One [1]. Two [2]", ["One [1]. ", "Two [2]"]),
        ("One. [1] Two. [2", ["One. [1] ", "Two. ", "[2"]),
        ('He said "One. Two." [1]. Three', ['He said "One. Two." [1]. ', "Three"]),
        ("A line\nand more", ["A line\n", "and more"]),
        ('"open. And\nnext. ', ['"open. And\nnext. ']),
        ('"open. And\n\nnext. ', ['"open. And\n', "\n", "next. "]),
        ("'open. And\nnext. ", ["'open. And\n", "next. "]),
        ("Er sagt „Eins. Zwei.“ Drei", ["Er sagt „Eins. Zwei.“ ", "Drei"]),
        ("v1.2 is out", ["v1.2 is out"]),
        ("One.\nTwo", ["One.\n", "Two"]),
        ("一。二！三", ["一。", "二！", "三"]),
        ("See z. B. This, e.g. that. It has 230 V. Next", ["See z. B. This, e.g. that. ", "It has 230 V. ", "Next"]),
        ('"' + "Word. " * 1000, ['"' + "Word. " * 666 + "Wor", "d. Word. "] + ["Word. "] * 332),
    ],
)
def test_parts_that_stand_or_fall_together(text: str, parts: list[str]) -> None:
    assert [one.text for one in quotations.parts(text)] == parts


SIGNS = st.sampled_from(
    [*"ab1 .!。？电\"'’‘“”„«»‹›「」『』[]【】12,†\n(\u0301", "z. B. ", "[1]", ' 19" ', "one two three four", "s’ "]
)
TEXTS = st.lists(SIGNS, max_size=60)


@given(TEXTS)
def test_parts_are_the_text_and_do_not_depend_on_its_pieces(pieces: list[str]) -> None:
    text = "".join(pieces)
    whole = quotations.parts(text)
    assert "".join(one.text for one in whole) == text
    for cut in (pieces, list(text)):
        scanner = quotations.Scanner()
        assert [part for piece in cut for part in scanner.feed(piece)] + list(scanner.end()) == whole
    for part in whole:
        ends = [0, *(edge for span in part.spans for edge in (span.start, span.end)), len(part.text)]
        assert ends == sorted(ends)
        for one in part.quotations():
            quotations.judge(one, EVIDENCE)
        assert part.without(()) == part.text
    assert all(one in text for one in quotations.quoted(text))
    quotations.unquoted(text)


INVENTED = st.lists(
    st.sampled_from(["it’s", "l’eau", "x’s", "(a)", "b, c", "d.", "E", "12", "f!", "don't"]), max_size=8
)


@given(INVENTED, st.sampled_from(["“”", '""', "„“", "«»", "»«", "‘’", "‹›", "「」", "””", "''"]), TEXTS)
def test_no_words_between_marks_hide_an_invention(words: list[str], marks: str, before: list[str]) -> None:
    """At the beginning of a paragraph, whatever was before it."""
    text = " ".join(["Invented words stand here", *words, "end"])
    found = quotations.find(f"{''.join(before)}\n\n{marks[0]}{text}{marks[1]} [1].\n")
    assert any(one.text.startswith("Invented words stand here") for one in found)
    assert quotations.judge(found[-1], EVIDENCE).verdict is Verdict.ABSENT


@pytest.mark.parametrize(
    "unit", [".", "“", "[1", ".[1 ", "’ s", "“a” ", '1" ', "' ", '" a. ‘68 b. ', "'68 B. "], ids=repr
)
def test_each_character_is_read_in_a_bounded_number_of_lines(unit: str) -> None:
    text, count = (unit * 20_000)[:20_000], 0

    def line(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "line"
        return line if frame.f_code.co_filename in (quotations.__file__, quotation_marks.__file__) else None

    former = sys.gettrace()
    sys.settrace(line)
    try:
        scanner = quotations.Scanner()
        for at in range(0, len(text), 5):
            list(scanner.feed(text[at : at + 5]))
        list(scanner.end())
    finally:
        sys.settrace(former)
    assert count < 80 * len(text)
