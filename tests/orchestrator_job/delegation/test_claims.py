"""Statements and quotations, checked against texts."""

from __future__ import annotations

import pytest

from orchestrator_job import pack
from orchestrator_job.delegation import claims

ITEM = pack.Item(
    id=1, source="email::a", content="The release of the  router\nis on 6 March 2026, says Ann.", origin="RAG"
)


def test_statements_are_sentences_that_state_something() -> None:
    text = (
        "The release is on Friday [email::a]. Who tests it?\n- Ann tests the router, too.\n## What we found:\n"
        "```\nprint('this is no statement at all')\n```\nNot sure.\n"
        "The release is on Friday [email::b].\n1. It takes 3 days in all."
    )
    assert claims.statements(text) == [
        "The release is on Friday.",
        "Ann tests the router, too.",
        "It takes 3 days in all.",
    ]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("The release of the router is on 6 March.", True),
        ("The routers are released on 6 March 2026.", True),
        ("The release of the router is on 7 March.", False),
        ("Globex wants its money back tomorrow.", False),
        ("It is on 6 March 2026.", True),
    ],
)
def test_support(statement: str, expected: bool) -> None:
    assert claims.supported(statement, ["Something else.", ITEM.content]) is expected


def test_nothing_supports_without_passages() -> None:
    assert not claims.supported("The release is on Friday.", [])


def test_marks() -> None:
    text = "The date  is open. So the DATE is open [unconfirmed]. Ann knows."
    assert claims.marked(text, ["The date is open."]) == (
        "The date  is open [unconfirmed]. So the DATE is open [unconfirmed]. Ann knows."
    )
    assert claims.marked(text, ["Another one (with * marks)."]) == text


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ('He says "the release of the router is on 6 March" [1].', []),
        ("Er sagt „The release of the router is on 6 March 2026“.", []),
        ('He says "the release of the router is next week" [1].', ["the release of the router is next week"]),
        ('It is called "the router".', []),
        ("He says “the router’s release is next week” [1].", ["the router’s release is next week"]),  # noqa: RUF001
        ("He says 'the release is next week' [1].", ["the release is next week"]),
        ('The rack is 19" wide, and "the release of the router is on 6 March" [1].', []),
        ("No quotation at all.", []),
    ],
)
def test_quotations_are_verbatim(answer: str, wrong: list[str]) -> None:
    assert claims.misquoted(answer, [ITEM]) == wrong
    assert claims.misquoted(claims.unquoted(answer, wrong), [ITEM]) == []


def test_a_report_may_be_quoted() -> None:
    assert claims.misquoted('It says "all 14 tests of it passed".', [ITEM], ["All 14 tests of it passed."]) == []
