"""Keys: the same thing has the same one (seed 001 "Normalization & Canonicalization"), a document's own node has the
shape of its kind, and written relationships are found by their four formats."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kb.extract import document_node, reference, relation
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


@pytest.mark.parametrize(
    ("urn", "kind", "key", "type_"),
    [
        ("jira::key:JERV-123", "bugtracker", "jira::JERV-123", "jira_issue"),
        ("jira:JERV-123", "issue", "jira::JERV-123", "jira_issue"),
        ("email::conn:c1,messageId:<a.b@x.org>", "email", "email::a.b@x.org", "email"),
        ("email:<a.b@x.org>", "email", "email::a.b@x.org", "email"),
        ("email::a.b@x.org", "EmailProcessing", "email::a.b@x.org", "email"),
        ("git::repo:jervis,commit:0123abcd", "git", "commit::0123abcd::shop", "commit"),
        ("commit:0123abcd", "git", "commit::0123abcd::shop", "commit"),
        ("git::repo:shop,path:feedback/api.py", "git", "git::repo:shop,path:feedback/api.py", "git"),
        ("git::defaced.md", "git", "git::defaced.md", "git"),
        ("git::acme/deadbeef-service", "git", "git::acme/deadbeef-service", "git"),
        ("git::sha:deadbee", "git", "commit::deadbee::shop", "commit"),
        ("confluence::space:DEV,page:77", "wiki", "confluence::DEV::77", "confluence_page"),
        ("meeting::id:42,title:Weekly", "meeting", "meeting::id:42,title:Weekly", "meeting"),
        ("task-outcome:7", "task_outcome", "task-outcome::7", "task-outcome"),
        ("free text without provider", "note", "note::free text without provider", "note"),
        ("git::acme/shop@0123abcd", "git", "commit::0123abcd::shop", "commit"),
        ("git::12345678/deadbee1@0123abcd", "git_commit", "commit::0123abcd::shop", "commit"),
        ("jira_comment::JERV-1-10042", "issue", "jira_comment::JERV-1-10042", "jira_comment"),
        ("github::Acme/Shop#12", "issue", "github::acme/shop#12", "github_issue"),
        ("github-issue::acme/shop#7", "bugtracker", "github::acme/shop#7", "github_issue"),
        ("github::ACME-1/JERV-2#12", "issue", "github::acme-1/jerv-2#12", "github_issue"),
        ("gitlab::group/sub/project!7", "issue", "gitlab::group/sub/project!7", "gitlab_merge_request"),
        ("gitea::acme/shop#12/comments/99", "issue", "gitea::acme/shop#12/comments/99", "gitea_comment"),
        ("0123abcd", "GitProcessing", "commit::0123abcd::shop", "commit"),
    ],
)
def test_shapes(urn: str, kind: str, key: str, type_: str) -> None:
    made = document_node.derive(urn, kind, scopes.SHOP)
    assert made == document_node.DocumentNode(key, type_)
    assert reference.kind_of(made.key) == made.type


@pytest.mark.parametrize(
    ("key", "topic"),
    [
        ("jira::JERV-1", "jira::JERV-1"),
        ("jira_comment::JERV-1-10042", "jira::JERV-1"),
        ("gitea::acme/shop#12", "gitea::acme/shop#12"),
        ("gitea::acme/shop#12/comments/99", "gitea::acme/shop#12"),
        ("email::m1@acme.com", None),
        ("file:src/Main.kt", None),
    ],
)
def test_a_comment_is_not_its_issue_and_names_it(key: str, topic: str | None) -> None:
    found = document_node.topic(key)
    assert (found.key if found else None) == topic
    assert found is None or reference.kind_of(found.key) == found.type


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("github:Acme/shop#12", "github::acme/shop#12"),
        ("gitlab::group/project!7", "gitlab::group/project!7"),
        ("jira_comment:jerv-1-7", "jira_comment::JERV-1-7"),
        ("jira:JERV-1-7", "jira:jerv-1-7"),
        ("github:acme", "github:acme"),
    ],
)
def test_a_reference_to_an_item_meets_its_document(written: str, key: str) -> None:
    assert reference.normalise(written, scopes.SHOP) == key


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
