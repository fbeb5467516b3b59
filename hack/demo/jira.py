"""An issue as Jira Cloud's REST API v3 returns it, as the text that a Jira connection hands to a task. Pure.

Source: https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-issues/#api-rest-api-3-issue-issueidorkey-get
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hack.demo import adf


@dataclass(frozen=True)
class Issue:
    """`urn` identifies the issue (seed 001: `jira::JERV-123`)."""

    urn: str
    text: str


def read(answer: Mapping[str, Any]) -> Issue:
    """The body of `GET /rest/api/3/issue/{key}`. Raises KeyError for anything else."""
    return Issue(f"jira::{answer['key']}", "\n".join(_lines(answer["key"], answer["fields"])) + "\n")


def _lines(key: str, fields: Mapping[str, Any]) -> Iterator[str]:
    yield f"Issue: {key}"
    yield f"Summary: {fields['summary']}"
    for label, name in (("Type", "issuetype"), ("Status", "status"), ("Priority", "priority"), ("Project", "project")):
        if fields.get(name):
            yield f"{label}: {fields[name]['name']}"
    for label, name in (("Assignee", "assignee"), ("Reporter", "reporter")):
        if fields.get(name):
            yield f"{label}: {_person(fields[name])}"
    if fields.get("duedate"):
        yield f"Due date: {fields['duedate']}"
    if fields.get("components"):
        yield f"Components: {', '.join(component['name'] for component in fields['components'])}"
    if fields.get("labels"):
        yield f"Labels: {', '.join(fields['labels'])}"
    yield f"Created: {fields['created']}"
    yield ""
    yield adf.text(fields.get("description"))
    for comment in (fields.get("comment") or {}).get("comments", ()):
        yield ""
        yield f"Comment by {_person(comment['author'])} on {comment['created'][:10]}:"
        yield adf.text(comment["body"])


def _person(user: Mapping[str, Any]) -> str:
    """Name and, where the site shows it, mail address."""
    address = user.get("emailAddress")
    return f"{user['displayName']} <{address}>" if address else str(user["displayName"])
