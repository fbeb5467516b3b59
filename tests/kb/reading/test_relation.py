"""The four written formats of seed 001, and what only looks like them."""

from __future__ import annotations

import pytest

from kb.reading import relation
from tests.kb import scopes


def find(text: str, anchor: str = "jira::TASK-123") -> list[tuple[str, str, str]]:
    found = relation.find(text, anchor=anchor, where=scopes.SHOP)
    return [(stated.source, stated.type, stated.target) for stated in found]


@pytest.mark.parametrize(
    ("line", "triple"),
    [
        ("jira:TASK-123|MENTIONS|user:john", ("jira::TASK-123", "mentions", "user:john")),
        ("file:Service.kt->MODIFIED_BY->commit:abc1234", ("file:service.kt", "modified_by", "commit::abc1234::shop")),
        ("class:UserService -[CALLS]-> method:authenticate", ("class:userservice", "calls", "method:authenticate")),
        ("TASK-123|MENTIONS|user:john", ("jira::TASK-123", "mentions", "user:john")),
        ("file:Service.kt|RELATED_TO|task-123", ("file:service.kt", "related_to", "jira::TASK-123")),
        ("- `user:John  Smith` | leads | team:Core", None),
    ],
)
def test_one_line(line: str, triple: tuple[str, str, str] | None) -> None:
    assert find(f"Some text.\n{line}\nMore text.") == ([triple] if triple else [])


def test_a_metadata_block() -> None:
    text = """Intro.
relationships: [
  "jira:TASK-123|MENTIONS|user:john",
  "TASK-123|AFFECTS|file:Service.kt",
  'commit:abc1234|FIXES|jira:TASK-123'
]
"""
    assert find(text) == [
        ("jira::TASK-123", "mentions", "user:john"),
        ("jira::TASK-123", "affects", "file:service.kt"),
        ("commit::abc1234::shop", "fixes", "jira::TASK-123"),
    ]
    assert find('relationships: ["a:b|to|c:d", "c:d|to|e:f"]') == [("a:b", "to", "c:d"), ("c:d", "to", "e:f")]


def test_each_once_with_the_text_that_states_it() -> None:
    text = "user:a|knows|user:b\nuser:A | KNOWS | user:b"
    [stated] = relation.find(text, anchor="email::x", where=scopes.SHOP)
    assert stated.evidence == "user:a|knows|user:b"


@pytest.mark.parametrize(
    "text",
    [
        "| Name | Age | City |\n|---|---|---|\n| Jana | 33 | Brno |",
        "if a->b->c: pass",
        "x = a | b | c",
        "https://a.b/c|to|https://d.e/f",
        "user:a|knows|user:a",
        "user:a||user:b",
        "std::vector<int> -> x -> y",
    ],
)
def test_tables_and_code_are_not_knowledge(text: str) -> None:
    assert find(text) == []


def test_short_hand_of_a_commit_means_the_document() -> None:
    assert find("abc1234|FIXES|jira:XY-1", anchor="commit::abc1234::shop") == [
        ("commit::abc1234::shop", "fixes", "jira::XY-1")
    ]
