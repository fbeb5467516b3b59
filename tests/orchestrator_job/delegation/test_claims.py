"""Statements, checked against texts."""

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
