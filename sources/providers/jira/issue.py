"""An issue of Jira as an item: its text, its facts, and who may read it. Pure.

Source: Jira Cloud REST API v3 and Data Center REST API v2 "Issues"; seed 001 "Node Types", "Edge Types".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds import access, given_graph, pendingtask
from sources.core import port, time_cursor
from sources.providers.atlassian import adf
from sources.providers.atlassian import sites as atlassian
from text import mail

FIELDS = (
    "summary", "description", "issuetype", "status", "priority", "labels", "components", "created", "updated",
    "duedate", "parent", "assignee", "reporter", "issuelinks", "attachment", "comment", "security", "environment",
    "resolution", "subtasks", "project",
)  # fmt: skip
_BODY_CHARS, _DESCRIPTION_CHARS = 1000, 4000
_COMMENT_NODES = 30
_MENTIONED = 20
_KEY = re.compile(r"(?<![\w/-])([A-Z][A-Z0-9_]+-[1-9]\d*)(?![\w-])")
_PATH = re.compile(r"(?<![\w:/.@-])((?:[\w.-]+/)+[\w-][\w.-]*\.[A-Za-z]\w{0,7})(?![\w/])")
_LINK = re.compile(r"\b[a-z]+://\S+")

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Custom:
    """Ids of the fields of Jira Software, "" where there are none."""

    sprint: str = ""
    epic: str = ""

    @classmethod
    def read(cls, listed: Any) -> Custom:
        """Of the answer of /field."""
        by_kind = {
            str((one.get("schema") or {}).get("custom", "")).rpartition(":")[2]: str(one.get("id", ""))
            for one in (listed if isinstance(listed, list) else [])
        }
        return cls(by_kind.get("gh-sprint", ""), by_kind.get("gh-epic-link", ""))


def place(issue: Raw) -> str:
    """PROJECT/ID/KEY, in the list and in the item: a move is another place."""
    return f"{issue['key'].rpartition('-')[0]}/{issue['id']}/{issue['key']}"


def stamp(issue: Raw) -> time_cursor.Stamp:
    """When it was changed. Raises `ValueError`, `KeyError`."""
    return time_cursor.milliseconds(issue["fields"]["updated"]), 0


def item(
    issue: Raw, comments: Sequence[Raw], files: Sequence[mail.File], lines: Sequence[str], custom: Custom,
    projects: frozenset[str], older: int = 0,
) -> port.Item:  # fmt: skip
    """`comments` are all of them but the `older` ones; `lines` say what became of the attachments; `projects` are the
    keys of those that the user sees."""
    fields, key = issue["fields"], str(issue["key"])
    shown = [one for one in comments if not one.get("visibility")]
    description = _joined(adf.text(fields.get("description")), adf.text(fields.get("environment")))
    body = _text(issue, description, shown, len(comments) - len(shown), older, lines, custom)
    said = [
        key, fields.get("updated"), sorted((str(one["id"]), str(one.get("updated"))) for one in comments),
        [str(one.get("id")) for one in (issue.get("changelog") or {}).get("histories") or ()][:1],
        sorted(str(one["id"]) for one in fields.get("attachment") or ()),
    ]  # fmt: skip
    return port.Item(
        source_id=str(issue["id"]),
        version=hashlib.sha256(repr(said).encode()).hexdigest()[:32],
        type=pendingtask.Type.BUG_TRACKER,
        urn=f"jira::{key}",
        title=f"{key} {fields.get('summary') or ''}".strip()[:200],
        text=body,
        files=tuple(files),
        observed_at=atlassian.moment(fields.get("updated")),
        place=place(issue),
        facts=_facts(issue, description, shown, custom, projects),
        access=readers(issue),
    )


def readers(issue: Raw) -> access.Access:
    """Who may read an issue that was asked for with `security`: its level, else its project."""
    level = issue["fields"].get("security")
    name = f"jira-level:{level['id']}" if level else f"jira-project:{issue['key'].rpartition('-')[0]}"
    return access.restricted([access.principal("group", name)])


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _name(value: Any) -> str:
    if isinstance(value, Mapping):
        return str(value.get("displayName") or value.get("name") or value.get("value") or "")
    return "" if value is None else str(value)


def _sprint(fields: Raw, custom: Custom) -> str:
    """The last one. Data Center may write a sprint as the text of a Java object."""
    found = fields.get(custom.sprint) if custom.sprint else None
    last = found[-1] if isinstance(found, list) and found else found
    if isinstance(last, str):
        named = re.search(r"[\[,]name=([^,\]]*)", last)
        return named[1] if named else last
    return _name(last)


def _epic(fields: Raw, custom: Custom) -> str:
    parent = fields.get("parent") or {}
    kind = (parent.get("fields") or {}).get("issuetype") or {}
    if parent and (kind.get("hierarchyLevel") == 1 or kind.get("name") == "Epic"):
        return str(parent["key"])
    return str(fields.get(custom.epic) or "") if custom.epic else ""


def _properties(issue: Raw, custom: Custom) -> dict[str, Any]:
    fields = issue["fields"]
    known = {
        "key": issue["key"],
        "summary": _name(fields.get("summary")),
        "issueType": _name(fields.get("issuetype")),
        "status": _name(fields.get("status")),
        "priority": _name(fields.get("priority")),
        "resolution": _name(fields.get("resolution")),
        "assignee": _name(fields.get("assignee")),
        "reporter": _name(fields.get("reporter")),
        "labels": [str(one) for one in fields.get("labels") or ()],
        "components": [_name(one) for one in fields.get("components") or ()],
        "sprint": _sprint(fields, custom),
        "epic": _epic(fields, custom),
        "parent": str((fields.get("parent") or {}).get("key") or ""),
        "created": atlassian.rfc3339(fields.get("created")),
        "updated": atlassian.rfc3339(fields.get("updated")),
        "duedate": _name(fields.get("duedate")),
    }
    return {name: value for name, value in known.items() if value not in ("", [])}


def _text(
    issue: Raw, description: str, comments: Sequence[Raw], hidden: int, older: int, lines: Sequence[str], custom: Custom
) -> str:
    names = {"key": "Key", "summary": "Summary", "issueType": "Type", "duedate": "Due"}
    head = []
    for name, value in _properties(issue, custom).items():
        written = ", ".join(value) if isinstance(value, list) else str(value)
        head.append(f"{names.get(name, name.capitalize())}: {' '.join(written.split())}")
    head += [f"Link: {said}" for said, _, _, _ in _links(issue)]
    if lines:
        head.append(f"Attachments: {', '.join(lines)}")
    parts = ["\n".join(head), description]
    if older:
        parts.append(f"[{older} older comments are left out: there are too many.]")
    for one in comments:
        at = atlassian.rfc3339(one.get("created"))
        parts.append(
            f"Comment of {_name(one.get('author')) or 'an unknown person'}, {at}:\n{adf.text(one.get('body'))}"
        )
    if hidden:
        parts.append(f"[{hidden} comments are shown to a role or a group only and are left out.]")
    return atlassian.bounded(_joined(*parts) + "\n")


def _links(issue: Raw) -> Iterator[tuple[str, str, str, str]]:
    """(sentence, source, relation, target), the relation as the type's outward name."""
    for one in issue["fields"].get("issuelinks") or ():
        kind = one.get("type") or {}
        outward = str(kind.get("outward") or kind.get("name") or "relates to")
        relation = re.sub(r"[^A-Za-z0-9_ -]+", " ", outward).strip().replace(" ", "_").lower()[:64]
        if not relation[:1].isalpha():
            relation = "relates_to"
        for end, words in (("outwardIssue", outward), ("inwardIssue", str(kind.get("inward") or outward))):
            other = str((one.get(end) or {}).get("key") or "")
            if other:
                ends = (issue["key"], other) if end == "outwardIssue" else (other, issue["key"])
                yield f"{words} {other}", f"jira::{ends[0]}", relation, f"jira::{ends[1]}"


def _user(value: Any) -> tuple[str, dict[str, Any]] | None:
    if not isinstance(value, Mapping):
        return None
    account = value.get("accountId") or value.get("name") or value.get("key")
    if not account:
        return None
    known = {"accountId": account, "name": _name(value), "email": value.get("emailAddress")}
    return f"user:{account}", {name: str(said) for name, said in known.items() if said}


def _facts(
    issue: Raw, description: str, comments: Sequence[Raw], custom: Custom, projects: frozenset[str]
) -> given_graph.Facts:
    fields, own = issue["fields"], f"jira::{issue['key']}"
    properties = _properties(issue, custom)
    if description:
        properties["description"] = description[:_DESCRIPTION_CHARS]
    nodes = {own: given_graph.Node(key=own, type="jira_issue", properties=given_graph.fit(properties), at="fields")}
    made: dict[tuple[str, str, str], given_graph.Relationship] = {}

    def relate(source: str, relation: str, target: str, at: str) -> None:
        if source == target or max(len(source), len(target)) > given_graph.KEY_CHARS:
            return
        if (source, relation, target) not in made and len(made) < given_graph.MOST_RELATIONSHIPS:
            made[source, relation, target] = given_graph.Relationship(
                source=source, type=relation, target=target, at=at
            )

    def node(key: str, kind: str, values: Mapping[str, Any], at: str) -> None:
        if len(nodes) < given_graph.MOST_NODES and len(key) <= given_graph.KEY_CHARS:
            nodes.setdefault(key, given_graph.Node(key=key, type=kind, properties=given_graph.fit(values), at=at))

    for name, relation in (("assignee", "assigned_to"), ("reporter", "reported_by")):
        who = _user(fields.get(name))
        if who is not None:
            node(who[0], "user", who[1], f"fields.{name}")
            relate(own, relation, who[0], f"fields.{name}")
    epic, parent = properties.get("epic", ""), properties.get("parent", "")
    if epic:
        relate(own, "in_epic", f"jira::{epic}", "fields.parent")
    if parent and parent != epic:
        relate(own, "child_of", f"jira::{parent}", "fields.parent")
    if properties.get("sprint"):
        relate(own, "in_sprint", f"sprint:{properties['sprint']}", f"fields.{custom.sprint}")
    for _, source, relation, target in _links(issue):
        relate(source, relation, target, "fields.issuelinks")
    for one in comments[-_COMMENT_NODES:]:
        key, at = f"jira_comment::{issue['key']}-{one['id']}", f"comment {one['id']}"
        values = {
            "author": _name(one.get("author")),
            "body": adf.text(one.get("body"))[:_BODY_CHARS],
            "createdAt": atlassian.rfc3339(one.get("created")),
            "updatedAt": atlassian.rfc3339(one.get("updated")),
        }
        node(key, "jira_comment", {name: value for name, value in values.items() if value}, at)
        relate(key, "comments_on", own, at)
        who = _user(one.get("author"))
        if who is not None:
            node(who[0], "user", who[1], at)
            relate(key, "written_by", who[0], at)
    words = "\n".join([str(fields.get("summary") or ""), description, *(adf.text(one.get("body")) for one in comments)])
    for key in keys(words, projects)[:_MENTIONED]:
        relate(own, "references", f"jira::{key}", "text")
    for path in paths(words)[:_MENTIONED]:
        relate(own, "mentions_file", f"file:{path}", "text")
    return given_graph.Facts(nodes=tuple(nodes.values()), relationships=tuple(made.values()))


def keys(text: str, projects: frozenset[str]) -> list[str]:
    """Keys of issues of these projects, in order."""
    found = dict.fromkeys(one for one in _KEY.findall(text) if one.rpartition("-")[0] in projects)
    return list(found)


def paths(text: str) -> list[str]:
    """Paths of files, with a folder and an extension, that are no part of an address."""
    return list(dict.fromkeys(_PATH.findall(_LINK.sub(" ", text))))
