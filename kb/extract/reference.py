"""Graph references in canonical form: the same thing has the same key, however it was written. Pure.

Seed 001 "Normalization & Canonicalization", stage 1 (format) and stage 2 (redundant prefix). Stage 3, the per-client
alias registry, comes with its own port. Words for one kind of thing are one namespace for names, and not for numbers:
`company:Globex` and `customer:Globex` are one organization, `company:42` and `customer:42` are not (decision 0054).
Documents have keys of their own shape with two colons
(`jira::JERV-123`, `commit::{hash}::{projectId}`); a reference to a document in running text (`jira:jerv-123`,
`issue:JERV-123`) becomes that key, so that text and document meet in one node.
"""

from __future__ import annotations

import re
import unicodedata

from contracts import repository_keys
from crds import scope, urns

_REFERENCE = re.compile(r"^([A-Za-z][A-Za-z0-9_-]{0,40})::?(\S(?:.*\S)?)$", re.DOTALL)
_ISSUE_KEY = re.compile(r"^[A-Za-z][A-Za-z0-9]{1,9}-\d{1,7}$")
_HASH = re.compile(r"^[0-9a-f]{7,64}$")
# What may stay in a value: letters and digits of any script and the punctuation of names, paths, mails and versions.
_SPECIAL = re.compile(r"[^\w .@/#+:-]")
# These are addresses and times of day, not references.
_NOT_NAMESPACES = frozenset(
    {"http", "https", "ftp", "mailto", "file-url", "tel", "data", "urn", "re", "fwd", "fw", "aw"}
)
# Two spellings of one namespace.
_SPELLINGS = {
    "people": "person",
    "human": "person",
    "org": "organization",
    "organisation": "organization",
    "location": "place",
    "tech": "technology",
    "jira_issue": "issue",
    "repo": "repository",
    "git_commit": "commit",
    "filename": "file",
    "path": "file",
    "function": "method",
}
# Namespaces that count for themselves: the names in them are of one kind of thing, the numbers are not.
_ROLES = {
    "employee": "person",
    "contact": "person",
    "company": "organization",
    "customer": "organization",
    "ticket": "issue",
    "bug": "issue",
}
# A number, or one behind a short prefix, as in 42, #42, C-1042, cust_7; and UUIDs.
_NUMBERED = re.compile(r"^(?:#?(?:[a-z]{1,10}[-_#/.:]?)?\d[\d._/-]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$")
# Types under which a model means the issue of a tracker; UTF-8 and COVID-19 look like the key of one.
_ISSUES = frozenset({"issue", "ticket", "bug", "jira", "task", "story", "epic", "defect", "incident", "subtask"})
# What is around a name and not of it; `.env`, `__init__` and `C++` keep what makes them different.
_BEFORE = re.compile(r"^(?:[^\w@/#+.-]|\.(?!\w))+")
_AFTER = re.compile(r"[^\w@/#+-]+$")
_KNOWN = frozenset(
    {"jira", "issue", "email", "commit", "confluence", "user", "person", "file", "class", "method"}
    | {"jira_comment", *urns.TRACKERS}
)
TYPES = {"jira": "jira_issue", "email": "email", "commit": "commit", "confluence": "confluence_page"}
"""Node type of each document namespace (seed 001 "Node Types")."""


def parse(text: str) -> tuple[str, str] | None:
    """Split `namespace:value` (or `namespace::value`); None when the text is not a reference."""
    match = _REFERENCE.match(text.strip())
    if match is None or match[1].lower() in _NOT_NAMESPACES or match[2].startswith("//"):
        return None
    return match[1], match[2]


def normalise(text: str, where: scope.Scope) -> str | None:
    """The canonical key of a reference, or None when the text is not one."""
    parts = parse(text)
    return None if parts is None else key(parts[0], parts[1], where)


def key(kind: str, name: str, where: scope.Scope) -> str | None:
    """The canonical key of the thing of type `kind` called `name`; None when nothing of the name is left.

    `where` is needed for commits alone, whose key holds the project.
    """
    name = _spaces(unicodedata.normalize("NFKC", name))
    folded = fold(name)
    namespace = _namespace(kind, folded)
    document = _document(namespace, name, where)
    if document is not None:
        return document
    value = _strip_prefix(namespace, folded)
    return f"{namespace}:{value}" if value else None


def fold(name: str) -> str:
    """A name as it stands in a key: the same however it is cased, spaced or punctuated at its ends."""
    bare = _AFTER.sub("", _BEFORE.sub("", _spaces(unicodedata.normalize("NFKC", name))))
    return _SPECIAL.sub("_", bare).casefold()


def issue(kind: str, name: str) -> str | None:
    """The key of the issue that `name` is the key of (`JERV-123`), upper case as trackers write it; None otherwise.

    `kind` is the type that it is said to have: only an issue is one.
    """
    written = _ISSUE_KEY.match(name) and name == name.upper()
    return f"jira::{name}" if written and _word(kind) in _ISSUES else None


def known(name: str, where: scope.Scope) -> str | None:
    """The canonical key of a name written as a reference of a known kind; None for any other name."""
    parts = parse(name)
    if parts is None or (_namespace(parts[0], fold(parts[1])) not in _KNOWN and "::" not in name):
        return None
    return key(parts[0], parts[1], where)


def kind_of(node_key: str) -> str:
    """The node type that a key stands for."""
    if part := repository_keys.kind(node_key):
        return part
    namespace, _, value = node_key.partition("::")
    item = urns.item(namespace, value) if value else None
    if item is not None:
        return item.type
    namespace = node_key.partition(":")[0]
    return TYPES.get(namespace, namespace) if "::" in node_key else namespace


def meant(kind: str) -> str:
    """The type as which the word counts where it is the type of a name; "" for one that no key can have."""
    word = _word(kind)
    return "" if word in _NOT_NAMESPACES else _ROLES.get(word, word)


def edge_type(text: str) -> str:
    """The canonical name of a relationship: lower case, words joined by underscores; "" when nothing is left."""
    return re.sub(r"[^\w]+", "_", unicodedata.normalize("NFKC", text)).casefold().strip("_")[:100]


def _word(kind: str) -> str:
    word = re.sub(r"[^\w-]+", "_", _spaces(unicodedata.normalize("NFKC", kind))).casefold().strip("_")
    return _SPELLINGS.get(word, word)


def _namespace(kind: str, folded: str) -> str:
    word = _word(kind)
    if word in _ROLES and not _NUMBERED.match(folded):
        word = _ROLES[word]
    return word or "entity"


def _document(namespace: str, name: str, where: scope.Scope) -> str | None:
    """The key of a document node, where the reference names one."""
    if namespace in ("jira", "issue", "ticket", "bug") and _ISSUE_KEY.match(name):
        return f"jira::{name.upper()}"
    item = urns.item(namespace, name)
    if item is not None:
        return item.key
    if namespace == "commit" and _HASH.match(name.casefold()):
        return f"commit::{name.casefold()}::{where.project_id}"
    if namespace == "email" and name.startswith("<"):
        return f"email::{name.strip('<>')}"
    if namespace == "confluence" and "::" in name:
        return f"confluence::{name}"
    return None


def _strip_prefix(namespace: str, value: str) -> str:
    """Stage 2: `order:order_530798957` -> `order:530798957`."""
    for separator in ("_", ":", "-"):
        shorter = value.removeprefix(f"{namespace}{separator}")
        if shorter != value and shorter:
            return shorter
    return value


def _spaces(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
