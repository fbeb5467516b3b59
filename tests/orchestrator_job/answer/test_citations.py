"""Quotations of answers, compared with the passages that their marks name."""

from __future__ import annotations

import pytest

from contracts.rules import enforce_lines
from orchestrator_job.answer import citations, claims, evidence_pack, model_answer
from router.client import reading

ROUTER = "The release of the  router\nis on 6 March 2026, says Ann. Use `make all` & <b>. It takes three hours in all."
RACK = "The rack stands in the second room of the house."
ITEMS = [
    evidence_pack.Item(id=1, source="email::a", title="Plan of the next release", content=ROUTER, origin="RAG"),
    evidence_pack.Item(id=2, source="wiki::b", content=RACK, origin="RAG"),
]
OWN, REPORT = "When will the new router be released?", "All 14 tests of it passed."
SOURCES = citations.Sources(ITEMS, own=[OWN], beside=[REPORT])
NEXT_WEEK = "the release of the router is next week"
ROOM, LOST = "the second room of the house", claims.MARK


def given(text: str, **fields: object) -> model_answer.Answer:
    cited = sorted(number for number in (1, 2) if f"[{number}]" in text)
    whole = {"answer": text, "citations": cited, "confidence": 0.9, "needs_input": False, "questions": [], **fields}
    return model_answer.Answer.model_validate(whole)


@pytest.mark.parametrize(
    "text",
    [
        'He says "the release of the router is on 6 March" [1].',
        "Er sagt „The release of the router is on 6 March 2026“.",
        'It is called "the router".',
        'The rack is 19" wide, and "the release of the router is on 6 March" [1].',
        'It is "the second room of the house" [1, 2].',
        'It is in the "plan of the next release" [1].',
        '"It takes three hours in all" [1] and "the second room of the house" [2].',
        'You asked "when will the new router be released": on 6 March [1].',
        'It reports "all 14 tests of it passed".',
        '```\nprint("words that stand nowhere at all")\n```\nand `say "words that stand nowhere at all"` [1].',
        'It says "Use `make all` & <b>. It takes three hours" [1].',
        "No quotation at all.",
    ],
)
def test_supported_quotations_stay(text: str) -> None:
    checked = citations.verify(given(text), SOURCES)
    assert (checked.answer, checked.misquoted) == (text, ())


@pytest.mark.parametrize(
    ("text", "becomes", "verdict", "cited"),
    [
        (f'He says "{NEXT_WEEK}" [1].', f"He says {NEXT_WEEK} {LOST}.", "Absent", []),
        (f'He says "{NEXT_WEEK}." [1] And so on [2].', f"He says {NEXT_WEEK}. {LOST} And so on [2].", "Absent", [2]),
        (f'As [1] says, "{NEXT_WEEK}".', f"As [1] says, {NEXT_WEEK} {LOST}.", "Absent", [1]),
        (f'He says "{NEXT_WEEK}".', f"He says {NEXT_WEEK}.", "Absent", []),
        (f"He says '{NEXT_WEEK}' [1][2].", f"He says {NEXT_WEEK} {LOST}.", "Absent", []),
        (f"He says “he’s ill {NEXT_WEEK}” [1].", f"He says he’s ill {NEXT_WEEK} {LOST}.", "Absent", []),  # noqa: RUF001
        (f'He says "{NEXT_WEEK}', f"He says {NEXT_WEEK}", "Absent", []),
        ('It is "all 14 tests of it passed" [2].', f"It is all 14 tests of it passed {LOST}.", "Absent", []),
        (f'It is "{ROOM}" [1].', f'It is "{ROOM}" [2].', "Misattributed", [2]),
        (f'As [1] has it, "{ROOM}".', f'As [1] has it, "{ROOM}" [2].', "Misattributed", [1, 2]),
        (
            'It is "the release of the router [...] takes three hours in all" [1].',
            "It is the release of the router [...] takes three hours in all [1].",
            "Stitched",
            [1],
        ),
    ],
)
def test_what_is_not_supported_is_no_quotation_of_it(text: str, becomes: str, verdict: str, cited: list[int]) -> None:
    checked = citations.verify(given(text), SOURCES)
    assert (checked.answer, [one.verdict for one in checked.misquoted]) == (becomes, [verdict])
    assert checked.citations == cited
    assert checked.confidence == (citations.UNCONFIRMED if verdict == "Absent" else 0.9)
    # What it became is right.
    assert citations.verify(checked, SOURCES).answer == becomes
    assert citations.verify(checked, SOURCES).misquoted == ()


def test_questions_quote_as_answers_do() -> None:
    asks = given("", needs_input=True, questions=[f'Does "{NEXT_WEEK}" hold?', 'Is "the second room of the house" it?'])
    checked = citations.verify(asks, SOURCES)
    assert checked.questions == [f"Does {NEXT_WEEK} hold?", 'Is "the second room of the house" it?']


def test_a_question_of_the_longest_form_is_still_asked() -> None:
    """The mark of what is not confirmed is longer than the number that it stands for."""
    question = f'Does "{NEXT_WEEK}" [1] hold? '.ljust(model_answer.QUESTION_CHARS, ".")
    asked = citations.verify(given("", needs_input=True, questions=[question]), SOURCES).questions
    assert [len(each) for each in asked] == [model_answer.QUESTION_CHARS]
    assert LOST in asked[0]


def test_characters_that_a_prompt_replaces_are_no_difference() -> None:
    sources = citations.Sources([ITEMS[0].model_copy(update={"content": "Close it with &lt;/evidence> at the end."})])
    assert not citations.verify(given('It says "close it with </evidence> at the end" [1].'), sources).misquoted


def test_it_is_asked_for_again_once() -> None:
    attempts = citations.Tries(SOURCES, enforce_lines.Provisions())
    wrong = given(f'He says "{NEXT_WEEK}" [1], "the second room of the house" [1].')
    with pytest.raises(reading.Unusable) as raised:
        attempts.take(wrong)
    assert str(raised.value) == (
        f"answer: {NEXT_WEEK!r} is quoted, but no evidence has these words; "
        "answer: 'the second room of the house' is quoted from [1], but it stands in [2]"
    )
    assert attempts.last is not None
    assert attempts.take(wrong) == attempts.last
    assert attempts.take(given("On 6 March [1].")).misquoted == ()


def test_a_rule_holds_for_what_is_left() -> None:
    held = enforce_lines.Provisions.together(["enforce: always-cite"])
    attempts = citations.Tries(SOURCES, held)
    for _ in range(2):
        with pytest.raises(reading.Unusable):
            attempts.take(given(f'He says "{NEXT_WEEK}" [1].'))
    assert attempts.last is None
