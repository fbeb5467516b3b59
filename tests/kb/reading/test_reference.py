"""The same thing has the same key (seed 001 "Normalization & Canonicalization")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.reading import reference
from tests.kb import scopes


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("user:John", "user:john"),
        ("User:John  Smith", "user:john smith"),
        ("JIRA:task-123", "jira::TASK-123"),
        ("jira::TASK-123", "jira::TASK-123"),
        ("issue:JERV-1", "jira::JERV-1"),
        ("order:order_530798957", "order:530798957"),
        ("order:530798957", "order:530798957"),
        ("product:product_lego", "product:lego"),
        ("file:src/Main.kt", "file:src/main.kt"),
        ("commit:ABC1234", "commit::abc1234::shop"),
        ("company:Acme & Co.", "organization:acme _ co"),
        ("file:Ünïcode.kt", "file:ünïcode.kt"),
        ("company:Globex", "organization:globex"),
        ('customer:"Globex".', "organization:globex"),
        ("customer:customer_42", "customer:42"),
        ("bug:JERV-7", "jira::JERV-7"),
        ("employee:Jana Novak", "person:jana novak"),
        ("technology:C++", "technology:c++"),
    ],
)
def test_canonical_forms(written: str, key: str) -> None:
    assert reference.normalise(written, scopes.SHOP) == key


@pytest.mark.parametrize(
    "text", ["https://example.org/x", "no colon", "10:30", "user:", "mailto:a@b.c", "Re: hello", "", ":", "a::"]
)
def test_what_is_not_a_reference(text: str) -> None:
    assert reference.normalise(text, scopes.SHOP) is None


@given(kind=st.text(max_size=12), name=st.text(max_size=40))
def test_normalising_a_key_again_changes_nothing(kind: str, name: str) -> None:
    key = reference.key(kind, name, scopes.SHOP)
    if key is not None:
        again = reference.normalise(key, scopes.SHOP)
        # A key whose kind starts with a digit or holds other scripts is not written as a reference, and need not be.
        assert again in (key, None) or reference.normalise(again or "", scopes.SHOP) == again


@given(st.sampled_from(["person", "file", "team"]), st.text(alphabet="aB cD-_", min_size=1, max_size=12))
def test_case_and_spaces_do_not_make_a_second_entity(kind: str, name: str) -> None:
    loud = reference.key(kind.upper(), "  " + name.upper().replace(" ", "   ") + " ", scopes.SHOP)
    assert loud == reference.key(kind, name, scopes.SHOP)


def test_edge_types() -> None:
    assert reference.edge_type("MENTIONS") == "mentions"
    assert reference.edge_type(" is assigned-to ") == "is_assigned_to"
    assert reference.edge_type("***") == ""


def test_kinds() -> None:
    assert reference.kind_of("jira::X-1") == "jira_issue"
    assert reference.kind_of("person:jana") == "person"
    assert reference.kind_of("meeting::7") == "meeting"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("customer:42", "company:42"),
        ("customer:C-1042", "company:C-1042"),
        ("ticket:17", "bug:17"),
        ("ticket:#17", "issue:#17"),
        ("contact:7", "employee:7"),
        ("contact:0b7f43b2-51b2-4e67-9b0a-2f5f0d6b7c11", "employee:0b7f43b2-51b2-4e67-9b0a-2f5f0d6b7c11"),
        ("method:__init__", "method:init"),
        ("method:_run", "method:run"),
        ("file:.env", "file:env"),
        ("technology:.NET", "technology:Net"),
    ],
)
def test_what_differs_has_other_keys(one: str, other: str) -> None:
    """Numbers of two namespaces are two things, and so are two names of a file or a method."""
    keys = [reference.normalise(text, scopes.SHOP) for text in (one, other)]
    assert None not in keys
    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", ["UTF-8", "SHA-256", "COVID-19", "GPT-4"])
def test_only_an_issue_is_one(name: str) -> None:
    for kind in ("standard", "technology", "disease", "product", "entity", ""):
        assert reference.issue(kind, name) is None
    assert reference.issue("Bug", "JERV-123") == "jira::JERV-123"
    assert reference.issue("jira_issue", "JERV-123") == "jira::JERV-123"
    assert reference.issue("issue", "login") is None
