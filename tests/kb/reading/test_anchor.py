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
        ("0123abcd", "GitProcessing", "commit::0123abcd::shop", "commit"),
    ],
)
def test_shapes(urn: str, kind: str, key: str, type_: str) -> None:
    made = anchor.derive(urn, kind, scopes.SHOP)
    assert made == anchor.Anchor(key, type_)
    assert reference.kind_of(made.key) == made.type
