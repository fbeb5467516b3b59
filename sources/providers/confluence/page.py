"""A page or blog post of Confluence as an item: its text, its facts, and who may read it. Pure.

Source: Confluence REST API "Content", "Content restrictions"; seed 001 "Node Types", "Edge Types".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from crds import access, given_graph, pendingtask
from sources.core import port, time_cursor
from sources.providers.atlassian import sites as atlassian
from sources.providers.confluence import storage
from text import mail

EXPAND = (
    "body.storage,version,space,ancestors,history,metadata.labels,"
    "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
)
RESTRICTIONS = "restrictions.read.restrictions.user,restrictions.read.restrictions.group"
_PAGE = re.compile(r"/spaces/([^/]+)/(?:pages|blog/\d+/\d+/\d+)/(\d+)")
_ISSUE = re.compile(r"/browse/([A-Z][A-Z0-9_]+-[1-9]\d*)")
_MENTIONED = 50

Raw = Mapping[str, Any]


def place(page: Raw) -> str:
    """SPACE/ID, in the list and in the item: a move to another space is another place."""
    return f"{page['space']['key']}/{page['id']}"


def urn(page: Raw) -> str:
    """Of seed 001."""
    return f"confluence::{page['space']['key']}::{page['id']}"


def stamp(one: Raw) -> time_cursor.Stamp:
    """When it was changed, and the number of its version. Raises `ValueError`, `KeyError`."""
    return time_cursor.milliseconds(one["version"]["when"]), int(one["version"]["number"])


def item(
    page: Raw, comments: Sequence[Raw], files: Sequence[mail.File], attached: Sequence[Raw], lines: Sequence[str],
    pages: Mapping[tuple[str, str], str], may_read: access.Access, older: int = 0,
) -> port.Item:  # fmt: skip
    """`comments` are all of them but the `older` ones, `attached` all attachments, `lines` say what became of them;
    `pages` has the URNs of linked pages by (space, title)."""
    body = storage.read(str(page["body"]["storage"]["value"]))
    said = [
        place(page), stamp(page), page["title"], sorted((str(one["id"]), stamp(one)) for one in comments),
        sorted((str(one["id"]), stamp(one)) for one in attached),
    ]  # fmt: skip
    return port.Item(
        source_id=str(page["id"]),
        version=hashlib.sha256(repr(said).encode()).hexdigest()[:32],
        type=pendingtask.Type.WIKI,
        urn=urn(page),
        title=str(page["title"])[:200],
        text=_text(page, body.text, comments, older, lines),
        files=tuple(files),
        observed_at=atlassian.moment(page["version"]["when"]),
        place=place(page),
        facts=_facts(page, body, pages),
        access=may_read,
    )


def links(page: Raw) -> list[tuple[str, str]]:
    """(space, title) of the pages that it links to by their title."""
    own = str(page["space"]["key"])
    found = storage.read(str(page["body"]["storage"]["value"])).pages
    return list(dict.fromkeys((space or own, title) for space, title in found))[:_MENTIONED]


def readers(one: Raw) -> frozenset[str] | None:
    """Whom a restriction of its own lets read it; None without one. Raises `ValueError` where they are not all
    listed."""
    limits = ((one.get("restrictions") or {}).get("read") or {}).get("restrictions") or {}
    found = set()
    for kind in ("user", "group"):
        part = limits.get(kind) or {}
        listed = part.get("results") or ()
        if (part.get("_links") or {}).get("next") or len(listed) >= int(part.get("limit") or len(listed) + 1):
            raise ValueError("the list of readers may go on")
        for each in listed:
            name = each.get("accountId") or each.get("id") or each.get("username") or each.get("name")
            found.add(access.principal("user" if kind == "user" else "group", str(name)))
    return frozenset(found) or None


def may_read(page: Raw, above: Mapping[str, frozenset[str] | None]) -> access.Access:
    """Who may read a page: everyone whom its restrictions and those of all ancestors (`above`, by id) let read it.

    Members of groups are not known here, so what two restrictions have in common is known where both name users alone,
    or one names only those of the other. Unknown too: the restrictions of an ancestor that is not shown.
    """
    try:
        levels = [readers(page), *(above[str(one["id"])] for one in page.get("ancestors") or ())]
    except (KeyError, ValueError):
        return access.UNKNOWN
    limits = [level for level in levels if level is not None]
    if not limits:
        return access.restricted([access.principal("group", f"confluence-space:{page['space']['key']}")])
    shared = frozenset.intersection(*limits)
    groups = any(one.startswith("group:") for level in limits for one in level)
    return access.UNKNOWN if groups and shared not in limits else access.restricted(shared)


def _text(page: Raw, body: str, comments: Sequence[Raw], older: int, lines: Sequence[str]) -> str:
    path = [str(one.get("title", "")) for one in page.get("ancestors") or ()]
    labels = ((page.get("metadata") or {}).get("labels") or {}).get("results") or ()
    head = {
        "Title": page["title"],
        "Space": page["space"]["key"],
        "Author": _name((page.get("history") or {}).get("createdBy")),
        "Version": f"{page['version']['number']}, {atlassian.rfc3339(page['version']['when'])}",
        "Path": " / ".join(path),
        "Labels": ", ".join(str(one.get("name", "")) for one in labels),
        "Attachments": ", ".join(lines),
    }
    parts = ["\n".join(f"{name}: {' '.join(str(said).split())}" for name, said in head.items() if said), body]
    if older:
        parts.append(f"[{older} older comments are left out: there are too many.]")
    for one in comments:
        made = one.get("history") or {}
        at = atlassian.rfc3339(made.get("createdDate") or one["version"]["when"])
        said = storage.read(str(((one.get("body") or {}).get("storage") or {}).get("value") or "")).text
        parts.append(f"Comment of {_name(made.get('createdBy')) or 'an unknown person'}, {at}:\n{said}")
    return atlassian.bounded("\n\n".join(part for part in parts if part) + "\n")


def _name(value: Any) -> str:
    return str(value.get("displayName") or value.get("publicName") or "") if isinstance(value, Mapping) else ""


def _facts(page: Raw, body: storage.Page, pages: Mapping[tuple[str, str], str]) -> given_graph.Facts:
    own, space, history = urn(page), str(page["space"]["key"]), page.get("history") or {}
    author = history.get("createdBy") or {}
    properties = {
        "title": page["title"],
        "spaceKey": space,
        "version": int(page["version"]["number"]),
        "createdAt": atlassian.rfc3339(history.get("createdDate")),
        "updatedAt": atlassian.rfc3339(page["version"]["when"]),
        "authorName": _name(author),
    }
    known = {name: value for name, value in properties.items() if value not in ("", None)}
    nodes = [given_graph.Node(key=own, type="confluence_page", properties=given_graph.fit(known), at="content")]
    found: dict[tuple[str, str], str] = {}
    account = author.get("accountId") or author.get("username") or author.get("userKey")
    if account:
        person = {"accountId": str(account), "name": _name(author), "email": str(author.get("email") or "")}
        said = {name: value for name, value in person.items() if value}
        nodes.append(given_graph.Node(key=f"user:{account}", type="user", properties=said, at="history.createdBy"))
        found["written_by", f"user:{account}"] = "history.createdBy"
    ancestors = page.get("ancestors") or ()
    if ancestors:
        found["child_of", f"confluence::{space}::{ancestors[-1]['id']}"] = "ancestors"
    for key in body.issues:
        found["references", f"jira::{key}"] = "macro jira"
    for address in body.addresses:
        issue, other = _ISSUE.search(address), _PAGE.search(address)
        if issue:
            found["references", f"jira::{issue[1]}"] = "link"
        if other:
            found["references", f"confluence::{other[1]}::{other[2]}"] = "link"
    for where, title in body.pages:
        if (where or space, title) in pages:
            found["references", pages[where or space, title]] = "link"
    made = [
        given_graph.Relationship(source=own, type=relation, target=target, at=at)
        for (relation, target), at in found.items()
        if target != own and len(target) <= given_graph.KEY_CHARS
    ]
    return given_graph.Facts(nodes=tuple(nodes), relationships=tuple(made[: given_graph.MOST_RELATIONSHIPS]))
