"""An issue, pull request or merge request as an item: its text, its facts, its files. Pure.

The text is title, fields, body, then the comments in order with author and time. Facts: the node of the issue, of its
people and its newest comments (seed 001 "Issue tracking"), and what the text says in a known
form: `#12`, `fixes #12`, `blocks #12`, `blocked by #12`, paths of files.
"""

from __future__ import annotations

import hashlib
import mimetypes
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from crds import given_graph, pendingtask
from crds.access import Access
from sources.core import port
from text import mail

TEXT_BYTES = 1 << 20
"""Of an item; what is behind it is cut, and the text says so."""
MOST_FILES = pendingtask.MOST_ATTACHMENTS
COMMENT_NODES = 32
_BODY_CHARS = 1000
_TITLE_CHARS = 200
_MOST_PATHS = 40
_PROSE_CHARS = 1 << 16
"""Of a text that are searched for references."""
_REPOSITORY_CHARS = 256
DOCUMENT = "document::"
"""Before a key that the knowledge base takes as it is (`kb.extract.caller_facts`)."""

# `#12`, `!7`, `owner/repo#12`: a reference of a host; the word before it says what it is.
_REFERENCE = re.compile(
    r"(?:(?P<word>\b(?:fix(?:e[sd])?|close[sd]?|resolve[sd]?|blocks|blocked by|depends on))[: ]\s*)?"
    r"(?<![\w&/.-])(?P<repository>[\w.-]{1,100}(?:/[\w.-]{1,100}){1,20})?(?P<mark>[#!])(?P<number>[1-9]\d{0,8})\b(?![\w/.-]*[\w/-])",
    re.IGNORECASE,
)
_PATH = re.compile(r"(?<![\w:/.@-])(?:[\w.-]{1,200}/){1,50}[\w-][\w.-]{0,200}\.[A-Za-z][A-Za-z0-9]{0,7}\b(?!/)")
_CODE = re.compile(r"```.*?```|~~~.*?~~~", re.DOTALL)
# Without the bound each letter of `a.a.a.a` would be a beginning that is followed to its end.
_URL = re.compile(r"\b[a-z][a-z0-9+.-]{0,30}://\S+", re.IGNORECASE)
_PRIORITY = re.compile(r"^(?:priority|prio)\s*(?:::|[:/ -])\s*(.+)$", re.IGNORECASE)
_KINDS = (
    (b"\x89PNG", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"%PDF", "application/pdf"),
)


@dataclass(frozen=True, slots=True)
class Person:
    """`login` is the name of the account, `name` that of the person, "" where the host does not say."""

    login: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Comment:
    """One comment; times are RFC 3339 texts of the host."""

    id: str
    author: Person
    created: str
    updated: str
    body: str


@dataclass(frozen=True, slots=True)
class Thing:
    """`repository` as the host writes it, `mark` is # or !, `kind` such as issue; `comments` is their number as the
    list says, None where it does not."""

    repository: str
    mark: str
    number: int
    kind: str
    title: str
    body: str
    state: str
    url: str
    created: str
    updated: str
    closed: str = ""
    due: str = ""
    milestone: str = ""
    priority: str = ""
    author: Person | None = None
    assignees: tuple[Person, ...] = ()
    labels: tuple[str, ...] = ()
    branches: str = ""
    """Of a request to merge: `from -> to`."""
    comments: int | None = None
    confidential: bool = False
    """Fewer may read it than the others of its repository; the host does not say who."""

    @property
    def place(self) -> str:
        """Its name in the source: `acme/shop#12`, `group/project!7`."""
        return f"{self.repository}{self.mark}{self.number}"

    @property
    def stamp(self) -> str:
        """What changes in a list where it changes."""
        return self.updated if self.comments is None else f"{self.updated}/{self.comments}"


@dataclass(frozen=True, slots=True)
class Linked:
    """A file of the host's own upload place: `path` is asked for at the host, `shown` is what the text has."""

    name: str
    path: str
    shown: str


def urn(provider: str, place: str) -> str:
    """`github::acme/shop#12`."""
    return f"{provider}::{place}"[:1024]


def _key(provider: str, place: str) -> str:
    """Of the node that stands for it; a path has no case there (docs/names.md "URNs of sources")."""
    return f"{DOCUMENT}{urn(provider, place.casefold())}"


def time(text: str) -> datetime:
    """Of an RFC 3339 text with a zone. Raises `ValueError`."""
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return found


def item(
    provider: str,
    thing: Thing,
    comments: tuple[Comment, ...],
    files: tuple[mail.File, ...],
    absent: tuple[str, ...] = (),
    *,
    more: bool = False,
    before: str = "",
    may_read: Access | None = None,
) -> port.Item:
    """`absent`: links of files that were not taken, and why. `more`: there are comments behind the last one. `before`:
    the stamp of the last look, where the host does not time what changed since then: what it had before may be back.

    The version has the time of the last change, so that text which comes back is a new version, and the content, so
    that one which the host does not time is one too.
    """
    text = _text(thing, comments, absent, more)
    changed = max((thing.updated, *(one.updated for one in comments)), key=time)
    made = _facts(provider, thing, comments)
    said = repr((thing.title, text, [(file.name, hashlib.sha256(file.body).hexdigest()) for file in files]))
    digest = hashlib.sha256((said + made.model_dump_json()).encode()).hexdigest()
    return port.Item(
        source_id=thing.place,
        version=f"{changed}/{digest[:32]}",
        type=pendingtask.Type.BUG_TRACKER,
        urn=urn(provider, thing.place),
        title=f"{thing.mark}{thing.number} {thing.title}"[:_TITLE_CHARS],
        text=text,
        files=files,
        observed_at=time(changed),
        place=thing.place,
        facts=made,
        access=may_read,
        recurs=bool(before),
    )


def file(name: str, body: bytes) -> mail.File:
    """A file by its name, or its first bytes where that has no ending."""
    guessed = mimetypes.guess_type(name)[0]
    kind = guessed or next((kind for start, kind in _KINDS if body.startswith(start)), mail.UNKNOWN_TYPE)
    ending = "" if guessed or kind == mail.UNKNOWN_TYPE else (mimetypes.guess_extension(kind) or "")
    return mail.File(f"{name}{ending}"[-255:], kind, body)


def _text(thing: Thing, comments: tuple[Comment, ...], absent: tuple[str, ...], more: bool) -> str:
    fields = {
        "Kind": thing.kind,
        "Repository": thing.repository,
        "State": thing.state,
        "Priority": thing.priority,
        "Labels": ", ".join(thing.labels),
        "Milestone": thing.milestone,
        "Author": _shown(thing.author),
        "Assignees": ", ".join(_shown(one) for one in thing.assignees),
        "Branches": thing.branches,
        "Created": thing.created,
        "Closed": thing.closed,
        "Due": thing.due,
        "Link": thing.url,
    }
    parts = [f"{thing.mark}{thing.number} {thing.title}", *(f"{name}: {said}" for name, said in fields.items() if said)]
    parts += ["", thing.body.replace("\r\n", "\n").strip()]
    for one in comments:
        parts += ["", f"--- Comment of {_shown(one.author)}, {one.created}", one.body.replace("\r\n", "\n").strip()]
    if more:
        parts += ["", "[More comments are left out: the text is too long.]"]
    parts += [f"[File not taken: {one}]" for one in absent]
    raw = "\n".join(parts).encode("utf-8", "replace")
    if len(raw) <= TEXT_BYTES:
        return raw.decode()
    return raw[:TEXT_BYTES].decode("utf-8", "ignore") + "\n[The text is cut here: it is too long.]"


def _shown(who: Person | None) -> str:
    return "" if who is None else f"{who.login} ({who.name})" if who.name and who.name != who.login else who.login


def _facts(provider: str, thing: Thing, comments: tuple[Comment, ...]) -> given_graph.Facts:
    own = _key(provider, thing.place)
    properties = {
        "key": thing.place,
        "summary": thing.title[:_BODY_CHARS],
        "issueType": thing.kind,
        "status": thing.state,
        "priority": thing.priority or _priority(thing.labels),
        "labels": list(thing.labels[:32]),
        "milestone": thing.milestone,
        "assignee": ", ".join(one.login for one in thing.assignees),
        "reporter": thing.author.login if thing.author else "",
        "createdAt": thing.created,
        "closedAt": thing.closed,
        "dueAt": thing.due,
        "url": thing.url,
    }
    nodes = [_node(own, f"{provider}_{'merge_request' if thing.mark == '!' else 'issue'}", properties, "fields")]
    edges: dict[tuple[str, str, str], given_graph.Relationship] = {}

    def edge(source: str, kind: str, target: str, at: str) -> None:
        if source != target:
            edges.setdefault(
                (source, kind, target), given_graph.Relationship(source=source, type=kind, target=target, at=at)
            )

    people = {one.login: one for one in (thing.author, *thing.assignees, *(one.author for one in comments)) if one}
    for who in list(people.values())[:24]:
        nodes.append(_node(_user(who), "user", {"login": who.login, "name": who.name}, "fields"))
    if thing.author is not None:
        edge(own, "reported_by", _user(thing.author), "author")
    for who in thing.assignees:
        edge(own, "assigned_to", _user(who), "assignees")
    for one in comments[-COMMENT_NODES:]:
        key = f"{own}/comments/{one.id}"
        said = {
            "author": one.author.login,
            "body": one.body[:_BODY_CHARS],
            "createdAt": one.created,
            "updatedAt": one.updated,
        }
        nodes.append(_node(key, f"{provider}_comment", said, f"comment {one.id}"))
        edge(key, "in_thread", own, f"comment {one.id}")
        edge(key, "written_by", _user(one.author), f"comment {one.id}")
    for at, text in (
        ("title", thing.title),
        ("body", thing.body),
        *((f"comment {one.id}", one.body) for one in comments),
    ):
        for source, kind, target in _mentioned(own, provider, thing, text):
            edge(source, kind, target, at)
    return given_graph.Facts(
        nodes=tuple(nodes[: given_graph.MOST_NODES]),
        relationships=tuple(edges.values())[: given_graph.MOST_RELATIONSHIPS],
    )


def _mentioned(own: str, provider: str, thing: Thing, text: str) -> Iterator[tuple[str, str, str]]:
    prose = _URL.sub(" ", _CODE.sub(" ", text[:_PROSE_CHARS]))
    for found in _REFERENCE.finditer(prose):
        if len(found["repository"] or "") > _REPOSITORY_CHARS:
            continue
        place = f"{found['repository'] or thing.repository}{found['mark']}{found['number']}"
        other = _key(provider, place)
        word = (found["word"] or "").casefold()
        if word in ("blocked by", "depends on"):
            yield other, "blocks", own
        else:
            yield own, "blocks" if word == "blocks" else "fixes" if word else "references", other
    for path in list(dict.fromkeys(_PATH.findall(prose)))[:_MOST_PATHS]:
        yield own, "mentions_file", f"file:{path}"[:1024]


def _node(key: str, kind: str, properties: Mapping[str, Any], at: str) -> given_graph.Node:
    known = {name: said for name, said in properties.items() if said not in ("", [])}
    return given_graph.Node(key=key, type=kind, properties=given_graph.fit(known), at=at)


def _user(who: Person) -> str:
    return f"user:{who.login}"


def _priority(labels: tuple[str, ...]) -> str:
    """That of a label such as `priority::high` or `priority: high`."""
    return next((found[1] for found in map(_PRIORITY.match, labels) if found), "")
