"""A document's own node has the shape that seed 001 gives its kind."""

from __future__ import annotations

import pytest

from kb.reading import anchor, reference
from tests.kb import scopes


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
    made = anchor.derive(urn, kind, scopes.SHOP)
    assert made == anchor.Anchor(key, type_)
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
    found = anchor.topic(key)
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
