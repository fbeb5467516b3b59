"""The node that stands for the document itself, from its source URN and kind. Pure.

Seed 001 "Node Types" gives the shapes: `jira::JERV-123`, `email::<messageId>`, `commit::{hash}::{projectId}`,
`confluence::{space}::{page}`; those of other trackers and of comments are in `crds.urns`. URNs follow
`provider::field:value,field:value` (seed 001 "meeting::id:...,title:...") or `provider:value`; a URN of any other form
is kept whole, so that every document has exactly one node.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contracts import repository_keys
from crds import scope, urns

_ISSUE_KEY = re.compile(r"(?<![A-Za-z0-9])([A-Z][A-Z0-9]{1,9}-\d{1,7})(?![A-Za-z0-9])")
# Hexadecimal digits that are not part of a word; `defaced` is one, so a digit is among them.
_HASH = re.compile(r"(?<![0-9A-Za-z_])(?=[0-9a-f]*\d)([0-9a-f]{7,64})(?![0-9A-Za-z_])")
_AT_HASH = re.compile(r"@([0-9a-f]{7,64})$")
_NAMED_HASH = re.compile(r"^([0-9a-f]{7,64})$")
_FIELD = re.compile(r"(?:^|[,;])\s*([A-Za-z][A-Za-z0-9]*)\s*[:=]\s*([^,;]*)")
# `org/repo@branch` and `org/repo@branch:path`: no branch of Git has a colon.
_IN_TREE = re.compile(r"^[^\s@]+@(?P<branch>[^:]+)(?::(?P<path>.+))?$", re.DOTALL)
# How a URN's provider, or the kind of the document, is called -> which shape its key has.
_FAMILIES = {
    "jira": "jira",
    "bugtracker": "jira",
    "issue": "jira",
    "email": "email",
    "mail": "email",
    "imap": "email",
    "git": "commit",
    "commit": "commit",
    "gitcommit": "commit",
    "confluence": "confluence",
    "wiki": "confluence",
}
_TYPES = {"jira": "jira_issue", "email": "email", "commit": "commit", "confluence": "confluence_page"}


@dataclass(frozen=True)
class DocumentNode:
    """Key and type of the document's node."""

    key: str
    type: str


def derive(source_urn: str, kind: str, where: scope.Scope) -> DocumentNode:
    """The anchor of a document. The same URN in the same scope always gives the same key."""
    provider, _, rest = source_urn.partition(":")
    rest = rest.removeprefix(":").strip() or source_urn
    item = urns.item(provider, rest)
    if item is not None:
        return DocumentNode(item.key, item.type)
    tree = _IN_TREE.match(rest) if provider in ("git_file", "git_branch") else None
    if tree is not None and (tree["path"] is None) == (provider == "git_branch"):
        return _tree(tree["branch"], tree["path"], where)
    family = _family(provider) or _family(kind)
    fields = {name.lower(): value.strip() for name, value in _FIELD.findall(rest)}
    value = _value(family, rest, fields) if family else None
    if family and value:
        suffix = f"::{where.project_id}" if family == "commit" else ""
        return DocumentNode(f"{family}::{value}{suffix}", _TYPES[family])
    name = re.sub(r"[^\w-]+", "_", provider).casefold() if provider != source_urn else ""
    name = name or re.sub(r"[^\w-]+", "_", kind).casefold()
    return DocumentNode(f"{name}::{rest}", name)


def _tree(branch: str, path: str | None, where: scope.Scope) -> DocumentNode:
    if path is None:
        return DocumentNode(repository_keys.branch(branch, where.project_id), "branch")
    return DocumentNode(repository_keys.file(path, branch, where.project_id), "file")


def topic(key: str) -> DocumentNode | None:
    """The issue that a document's node is, or is a comment of; None for one of another kind."""
    provider, _, rest = key.partition("::")
    if provider == "jira":
        return DocumentNode(key, "jira_issue")
    item = urns.item(provider, rest)
    return None if item is None else DocumentNode(item.topic, item.topic_type)


def _family(word: str) -> str | None:
    letters = re.sub(r"[^a-z]", "", word.casefold())
    return _FAMILIES.get(letters) or _FAMILIES.get(letters.removesuffix("processing"))


def _value(family: str, rest: str, fields: dict[str, str]) -> str | None:
    if family == "jira":
        match = _ISSUE_KEY.search(fields.get("key", "") or fields.get("issuekey", "") or rest)
        return match[1] if match else None
    if family == "email":
        named = fields.get("messageid") or fields.get("msgid") or fields.get("id")
        return (named or ("" if fields else rest)).strip("<>") or None
    if family == "commit":
        named = fields.get("hash", "") or fields.get("sha", "") or fields.get("commit", "")
        match = _NAMED_HASH.match(named) if named else _AT_HASH.search(rest) or _HASH.search(rest)
        return match[1] if match else None
    space = fields.get("space") or fields.get("spacekey")
    page = fields.get("page") or fields.get("pageid") or fields.get("id")
    if page:
        return f"{space}::{page}" if space else page
    return rest.replace("/", "::")
