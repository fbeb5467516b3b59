"""Quotations and where the evidence has them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crds import quotations
from crds.quotations import Verdict

EVIDENCE = {
    1: {quotations.plain("The operating voltage of the pump\nis 230 volts. Switch it off first.")},
    2: {quotations.plain("Jana Novak maintains the pump in the northern hall."), "another text of the same"},
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
        ("Er sagt „Jana Novak maintains the pump“ [2].", Verdict.SUPPORTED, 2),
        ("Il dit «Jana Novak maintains the pump» [1].", Verdict.MISATTRIBUTED, 2),
    ],
)
def test_the_verdict_on_a_quotation(sentence: str, verdict: Verdict, found: int | None) -> None:
    [one] = quotations.find(sentence)
    judged = quotations.judge(one, EVIDENCE)
    assert (judged.verdict, judged.found) == (verdict, found)


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
    ("text", "parts"),
    [
        ("One. Two. Thr", ["One. ", "Two. "]),
        ("One [1]. Two [2]", ["One [1]. "]),
        ("One. [1] Two. [2", ["One. [1] "]),
        ('He said "One. Two." [1]. Three', ['He said "One. Two." [1]. ']),
        ("A line\nand more", ["A line\n"]),
        ('"open. And\nnext. ', ['"open. And\n']),
        ("Er sagt „Eins. Zwei.“ Drei", ["Er sagt „Eins. Zwei.“ "]),
        ("v1.2 is out", []),
        ("One.\n", ["One.", "\n"]),
        ('"' + "word. " * 1000, ['"' + "word. " * 667, "word. ", "word. "]),
    ],
)
def test_parts_that_stand_or_fall_together(text: str, parts: list[str]) -> None:
    assert [text[start:end] for start, end in quotations.sentences(text)][:3] == parts


@given(st.text(st.sampled_from('ab ."„“”«»[]12\n'), max_size=200))
def test_parts_are_a_beginning_of_the_text_without_gaps(text: str) -> None:
    found = list(quotations.sentences(text))
    assert "".join(text[start:end] for start, end in found) == text[: found[-1][1] if found else 0]
    for start, end in found:
        for one in quotations.find(text[start:end]):
            quotations.judge(one, EVIDENCE)
