"""`kb.extract/v1`: who and what a document names, and the sentence that says how they belong together."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.ollama.rules import extract, prompt
from tests.simulator import documents


def extracted(document: str) -> dict[str, Any]:
    return extract.answer(prompt.parse(documents.ask("kb.extract/v1", document)))


def named(document: str) -> set[tuple[str, str]]:
    return {(entity["type"], entity["name"]) for entity in extracted(document)["entities"]}


def told(document: str) -> set[tuple[str, str, str]]:
    return {(one["source"], one["type"], one["target"]) for one in extracted(document)["relationships"]}


def test_a_request_by_mail() -> None:
    subject = "Data retention report for the audit"
    assert named(documents.REQUEST) == {
        ("email", subject),
        ("person", "Martin Dvorak"),
        ("person", "Eva Mala"),
        ("email_address", "platform-team@acme.example"),
        ("organization", "Deloitte Audit Group"),
        ("concept", "Billing Portal"),
        ("date", "2027-01-15"),
        ("class", "RetentionPolicy"),
        ("file", "services/retention/cleanup.py"),
    }
    assert {
        (subject, "sent_by", "Martin Dvorak"),
        (subject, "sent_to", "Eva Mala"),
        (subject, "has_deadline", "2027-01-15"),
        (subject, "mentions", "services/retention/cleanup.py"),
    } <= told(documents.REQUEST)


def test_a_failure_by_mail() -> None:
    subject = "Login fails after the upgrade"
    assert {
        ("commit", "9fceb02d0ae5"),
        ("class", "UserService"),
        ("file", "auth/UserService.kt"),
        ("jira_issue", "PROJ-142"),
    } <= named(documents.ASSIGNED)
    assert {
        (subject, "affects", "UserService"),
        ("UserService", "raises", "NullPointerException"),
        ("PROJ-139", "blocks", "PROJ-142"),
    } <= told(documents.ASSIGNED)


def test_an_issue_as_json() -> None:
    assert {
        ("PLAT-88", "assigned_to", "Jana Novakova"),
        ("PLAT-88", "reported_by", "Lucie Horakova"),
        ("PLAT-88", "has_deadline", "2026-12-20"),
        ("PLAT-88", "mentions", "InvoiceService"),
    } <= told(documents.ISSUE)


def test_a_commit() -> None:
    sha = "3f2a9c1d4e5b6a7c8d9e0f1a2b3c4d5e6f7a8b9c"
    assert told(documents.COMMIT) == {
        (sha, "authored_by", "Jana Novakova"),
        (sha, "fixes", "PLAT-77"),
        (sha, "mentions", "TokenCache"),
        (sha, "modifies", "router/proxy/token_cache.py"),
        (sha, "creates", "tests/router/test_token_cache.py"),
    }


def test_an_encoded_mail_is_read_as_people_see_it() -> None:
    subject = "Index rebuild \u2013 figures"
    assert {
        (subject, "sent_by", "Tom\u00e1\u0161 Hor\u00e1k"),
        (subject, "mentions", "Petra Svobodov\u00e1"),
        (subject, "mentions", "search-node-4"),
    } <= told(documents.ENCODED)


def test_a_piece_without_a_head_belongs_to_the_title_of_the_prompt() -> None:
    turns = [
        ("system", "[prompt:kb.extract/v1]"),
        ("user", "Title: Runbook\n<document>\nAsk Petr Svoboda.\n</document>"),
    ]
    found = extract.answer(prompt.parse(turns))["relationships"]
    assert [(one["source"], one["type"], one["target"]) for one in found] == [("Runbook", "mentions", "Petr Svoboda")]


def test_without_any_title_neighbours_are_connected() -> None:
    turns = [("user", "<document>\nIn June Petr Svoboda moved PLAT-7 to the Billing Portal.\n</document>")]
    found = extract.answer(prompt.parse(turns))["relationships"]
    assert [(one["source"], one["target"]) for one in found] == [
        ("Petr Svoboda", "PLAT-7"),
        ("PLAT-7", "Billing Portal"),
    ]


@pytest.mark.parametrize(
    ("sentence", "relation"),
    [
        ("The work on PLAT-1 was assigned to Petr Svoboda.", ("PLAT-1", "assigned_to", "Petr Svoboda")),
        ("The OrderService depends on search-gateway.", ("OrderService", "depends_on", "search-gateway")),
        ("Here OrderService uses MongoDB.", ("OrderService", "uses", "MongoDB")),
        ("Here PLAT-1 blocks PLAT-2.", ("PLAT-1", "blocks", "PLAT-2")),
        ("Later Petr Svoboda joined Acme Consulting.", ("Petr Svoboda", "works_for", "Acme Consulting")),
    ],
)
def test_verbs(sentence: str, relation: tuple[str, str, str]) -> None:
    assert relation in told(sentence)


@pytest.mark.parametrize("text", ["UTF-8 and SHA-256 and ISO-8601", "The RFC-822 date", "Q4-2026 figures"])
def test_what_only_looks_like_an_issue(text: str) -> None:
    assert not [name for kind, name in named(text) if kind == "jira_issue"]


@pytest.mark.parametrize("document", [documents.REQUEST, documents.ASSIGNED, documents.COMMIT, documents.NEWSLETTER])
def test_evidence_stands_in_the_document_word_for_word(document: str) -> None:
    found = extracted(document)
    assert len(found["relationships"]) >= 5
    ends = {entity["name"] for entity in found["entities"]}
    for one in found["relationships"]:
        assert one["evidence"] in document
        assert {one["source"], one["target"]} <= ends


def test_the_same_text_gives_the_same_answer() -> None:
    assert extracted(documents.REQUEST) == extracted(documents.REQUEST)
