"""The URNs of what sources hold: made by those who send a document, read by the knowledge base (docs/names.md).

Source: seed 001 "SourceUrn Provider Dispatch" and "Node Types". A URN names one document within its scope; an issue of
any tracker is a document, and so is each of its comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

TRACKERS = ("github", "gitlab", "gitea")
"""Those whose issues are called by a path and a number; GitLab's merge requests have `!` in the place of `#`."""
_ITEM = re.compile(r"^(?P<path>[^\s#!@]+)(?P<mark>[#!])(?P<number>\d{1,10})(?:/comments/(?P<comment>[\w-]+))?$")
_COMMENT = re.compile(r"^(?P<issue>[A-Za-z][A-Za-z0-9]{1,9}-\d{1,7})-(?P<comment>\w+)$")


def jira(key: str) -> str:
    """An issue of Jira: `jira::JERV-1`."""
    return f"jira::{key}"


def jira_comment(key: str, comment: str) -> str:
    """A comment of it: `jira_comment::JERV-1-10042`."""
    return f"jira_comment::{key}-{comment}"


def confluence(space: str, page: str) -> str:
    """A page: `confluence::OPS::4711`."""
    return f"confluence::{space}::{page}"


def issue(tracker: str, path: str, number: int) -> str:
    """An issue, or a pull request of GitHub and Gitea: `github::owner/repo#12`. `tracker` is one of TRACKERS."""
    return f"{tracker}::{path}#{number}"


def merge_request(path: str, number: int) -> str:
    """A merge request of GitLab: `gitlab::group/project!7`."""
    return f"gitlab::{path}!{number}"


def comment(urn: str, number: str) -> str:
    """A comment of an issue or a merge request: `github::owner/repo#12/comments/99`."""
    return f"{urn}/comments/{number}"


def commit(path: str, sha: str) -> str:
    """A commit: `git::org/repo@HASH`."""
    return f"git::{path}@{sha}"


def branch(path: str, name: str) -> str:
    """The structure of a branch: `git_branch::org/repo@main`."""
    return f"git_branch::{path}@{name}"


def file(path: str, name: str, of: str) -> str:
    """A source file as the branch `of` has it: `git_file::org/repo@main:src/Main.kt`."""
    return f"git_file::{path}@{of}:{name}"


def meeting(uid: str, title: str) -> str:
    """A meeting: `meeting::id:42,title:Weekly`."""
    return f"meeting::id:{uid},title:{title}"


@dataclass(frozen=True, slots=True)
class Item:
    """An issue, a merge request or a comment of a tracker. `key` is the key of its node, in which the path has no case;
    `topic` that of the issue which it is, or is a comment of."""

    key: str
    type: str
    topic: str
    topic_type: str


def item(provider: str, value: str) -> Item | None:
    """What `provider::value` names, where that is an item of a tracker or a comment of Jira; None otherwise.

    `github-issue` is `github`, as earlier versions wrote it.
    """
    word = re.sub(r"[^a-z]", "", provider.casefold())
    if word == "jiracomment":
        match = _COMMENT.match(value)
        if match is None:
            return None
        own, of = f"jira_comment::{match['issue'].upper()}-{match['comment']}", f"jira::{match['issue'].upper()}"
        return Item(own, "jira_comment", of, "jira_issue")
    tracker = next((one for one in TRACKERS if word in (one, f"{one}issue", f"{one}issues")), None)
    match = _ITEM.match(value) if tracker else None
    if tracker is None or match is None:
        return None
    topic = f"{tracker}::{match['path'].casefold()}{match['mark']}{match['number']}"
    kind = f"{tracker}_merge_request" if match["mark"] == "!" else f"{tracker}_issue"
    if match["comment"] is None:
        return Item(topic, kind, topic, kind)
    return Item(f"{topic}/comments/{match['comment']}", f"{tracker}_comment", topic, kind)
