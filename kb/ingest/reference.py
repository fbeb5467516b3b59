"""Graph references in canonical form: the same thing has the same key, however it was written. Pure.

Seed 001 "Normalization & Canonicalization", stage 1 (format) and stage 2 (redundant prefix). Stage 3, the per-client
alias registry, comes with its own port. Documents have keys of their own shape with two colons
(`jira::JERV-123`, `commit::{hash}::{projectId}`); a reference to a document in running text (`jira:jerv-123`,
`issue:JERV-123`) becomes that key, so that text and document meet in one node.
"""

from __future__ import annotations

import re
import unicodedata

from crds import scope

_REFERENCE = re.compile(r"^([A-Za-z][A-Za-z0-9_-]{0,40})::?(\S(?:.*\S)?)$", re.DOTALL)
_ISSUE_KEY = re.compile(r"^[A-Za-z][A-Za-z0-9]{1,9}-\d{1,7}$")
_HASH = re.compile(r"^[0-9a-f]{7,64}$")
# What may stay in a value: letters and digits of any script and the punctuation of names, paths, mails and versions.
_SPECIAL = re.compile(r"[^\w .@/#+:-]")
# These are addresses and times of day, not references.
_NOT_NAMESPACES = frozenset(
    {"http", "https", "ftp", "mailto", "file-url", "tel", "data", "urn", "re", "fwd", "fw", "aw"}
)
_SYNONYMS = {
    "people": "person",
    "human": "person",
    "employee": "person",
    "contact": "person",
    "org": "organization",
    "organisation": "organization",
    "company": "organization",
    "customer": "organization",
    "location": "place",
    "tech": "technology",
    "ticket": "issue",
    "bug": "issue",
    "jira_issue": "issue",
    "repo": "repository",
    "git_commit": "commit",
    "filename": "file",
    "path": "file",
    "function": "method",
}
_KNOWN = frozenset({"jira", "issue", "email", "commit", "confluence", "user", "person", "file", "class", "method"})
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
    namespace = _namespace(kind)
    name = _spaces(unicodedata.normalize("NFKC", name))
    document = _document(namespace, name, where)
    if document is not None:
        return document
    value = _strip_prefix(namespace, fold(name))
    return f"{namespace}:{value}" if value else None


def fold(name: str) -> str:
    """A name as it stands in a key: the same however it is cased, spaced or punctuated at its ends."""
    return _SPECIAL.sub("_", _spaces(unicodedata.normalize("NFKC", name))).casefold().strip("_ .:")


def issue(name: str) -> str | None:
    """The key of the issue that `name` is the key of (`JERV-123`), upper case as trackers write it; None otherwise."""
    return f"jira::{name}" if _ISSUE_KEY.match(name) and name == name.upper() else None


def known(name: str, where: scope.Scope) -> str | None:
    """The canonical key of a name written as a reference of a known kind; None for any other name."""
    parts = parse(name)
    if parts is None or (_namespace(parts[0]) not in _KNOWN and "::" not in name):
        return None
    return key(parts[0], parts[1], where)


def kind_of(node_key: str) -> str:
    """The node type that a key stands for."""
    namespace = node_key.partition(":")[0]
    return TYPES.get(namespace, namespace) if "::" in node_key else namespace


def edge_type(text: str) -> str:
    """The canonical name of a relationship: lower case, words joined by underscores; "" when nothing is left."""
    return re.sub(r"[^\w]+", "_", unicodedata.normalize("NFKC", text)).casefold().strip("_")[:100]


def _namespace(kind: str) -> str:
    word = re.sub(r"[^\w-]+", "_", _spaces(unicodedata.normalize("NFKC", kind))).casefold().strip("_")
    return _SYNONYMS.get(word, word) or "entity"


def _document(namespace: str, name: str, where: scope.Scope) -> str | None:
    """The key of a document node, where the reference names one."""
    if namespace in ("jira", "issue") and _ISSUE_KEY.match(name):
        return f"jira::{name.upper()}"
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
