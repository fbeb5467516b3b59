"""A commit as a document: its text, and the nodes and relationships that are known of it. Pure, no model involved.

Source: seed 001 "VCS" (keys, properties, edges) and "Git Commit Ingest Pipeline". Everything that differs from branch
to branch is in the facts alone: the text, and so the chunks, are the same whatever branches have the commit.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codegraph.parse.changes import Change
from contracts import repository_keys
from crds import scope, urns
from kb import api, errors
from kb.extract import caller_facts, reference

MOST_FILE_EDGES, MOST_BRANCHES = 3000, 1000
"""Of one commit; edges to files over all of its branches."""
MOST_SYMBOLS = 1000
"""Declarations of one commit; a file with more than are left is one whose declarations are not known."""
CHANGES = "changes_symbol"
_PLACE_CHARS = 1024
_TITLE_CHARS, _PROPERTY_CHARS = 300, 4000
_EDGES = {"M": "modifies", "A": "creates", "D": "deletes", "R": "creates"}
# `Fixes #12`, `closes: JERV-1, JERV-2 and #3` (the words of GitHub, GitLab and Gitea).
_ISSUE = r"(?<![\w/#!.-])(?:[A-Z][A-Z0-9]{1,9}-\d{1,7}(?![\w-])|(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,9}(?!\w))"
_ISSUES = re.compile(_ISSUE)
_CLOSES = re.compile(
    rf"\b(?:clos(?:e|es|ed|ing)|fix(?:e[sd]|ing)?|resolv(?:e|es|ed|ing)|implement(?:s|ed|ing)?)(?:\s+issues?)?"
    rf"\s*:?\s+(?P<issues>{_ISSUE}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+|\s*&\s*){_ISSUE})*)",
    re.IGNORECASE,
)
# Names of standards, formats and notices are written like keys of issues.
_NO_PROJECTS = frozenset({"UTF", "SHA", "ISO", "RFC", "CVE", "CWE", "AES", "MD", "TLS", "HTTP", "PEP", "UTC", "COVID"})


@dataclass(frozen=True, slots=True)
class Read:
    """The declarations of a file that a commit changed, and the version of what read them."""

    extractor: str
    changes: tuple[Change, ...] = ()


def document(
    sent: api.GitCommits, commit: api.Commit, branches: Sequence[str], symbols: Mapping[str, Read]
) -> tuple[api.IngestRequest, int]:
    """The document of a commit that these branches have, and how many edges to files were left out.

    `symbols` are those of its files by path, as far as they are known.

    Raises `kb.errors.Invalid` for too many branches.
    """
    if len(branches) > MOST_BRANCHES:
        raise errors.Invalid(
            f"the commit is in {MOST_BRANCHES} other branches already",
            field="branch",
            remedy="Take it off branches that are gone (removed), or send fewer of them.",
        )
    facts = _Facts(sent, commit, branches, symbols)
    request = api.IngestRequest(
        scope=sent.scope,
        source_urn=sent.repository.source_urn(commit.hash),
        kind=api.GIT_COMMIT,
        title=title(commit),
        content=text(sent.repository, commit),
        observed_at=commit.date,
        access=sent.access,
        metadata={"repository": sent.repository.path, "commit": commit.hash, "author": commit.author.name},
        nodes=[api.GivenNode(**one) for one in facts.nodes.values()],
        relationships=[api.GivenRelationship(**one) for one in facts.relationships.values()],
    )
    return request, facts.omitted


def title(commit: api.Commit) -> str:
    """The first line of its message."""
    lines = commit.message.strip().splitlines()
    return lines[0].strip()[:_TITLE_CHARS] if lines else f"Commit {commit.hash[:12]}"


def text(repository: api.Repository, commit: api.Commit) -> str:
    """What is embedded: the message, the files, the diff."""
    parts = [commit.message.strip(), f"Commit {commit.hash} in {repository.path}"]
    files = [
        f"R {one.old_path} -> {one.path}" if one.old_path is not None else f"{one.status} {one.path}"
        for one in commit.files
    ]
    if commit.files_truncated:
        files.append("(more files)")
    parts += ["\n".join(files), commit.diff.strip("\n"), "(the diff is longer)" if commit.diff_truncated else ""]
    return "\n\n".join(part for part in parts if part.strip())


def branches(given_text: str) -> list[str]:
    """The branches that have a stored commit, from the facts recorded of it (`Given.text`)."""
    rows = json.loads(given_text or "{}")
    return sorted({_branch_of(one) for one in rows.get("nodes", ()) if one["type"] == "branch"} - {""})


def symbols(given_text: str) -> dict[str, Read]:
    """What is recorded of the declarations that a stored commit changed, by the path of their file."""
    rows = json.loads(given_text or "{}")
    paths = {one["key"]: one["properties"]["path"] for one in rows.get("nodes", ()) if one["type"] == "file"}
    versions: dict[str, str] = {}
    changes: dict[str, list[Change]] = defaultdict(list)
    for one in rows.get("relationships", ()):
        said = one.get("properties", {})
        if one["type"] == CHANGES:
            changes[said["path"]].append(Change(said["name"], said["change"], said["kind"]))
        elif "symbolsRead" in said:
            versions[paths[one["target"]]] = said["symbolsRead"]
    return {path: Read(version, tuple(sorted(changes[path]))) for path, version in versions.items()}


def _branch_of(node: dict[str, Any]) -> str:
    return str(node.get("properties", {}).get("branchName", ""))


def without(facts: caller_facts.CallerFacts, branch: str, where: scope.Scope) -> caller_facts.CallerFacts:
    """The facts of a stored commit that is not in the branch any more."""
    rows: dict[str, list[dict[str, Any]]] = json.loads(facts.text)
    gone = {one["key"] for one in rows["nodes"] if one["type"] in ("branch", "file") and _branch_of(one) == branch}
    kept = {
        "nodes": [one for one in rows["nodes"] if one["key"] not in gone],
        "relationships": [one for one in rows["relationships"] if gone.isdisjoint((one["source"], one["target"]))],
    }
    others = branches(json.dumps(kept))
    for one in kept["nodes"]:
        if one["type"] == "commit":
            one["properties"]["branch"] = others[0]
    return caller_facts.recorded(json.dumps(kept, sort_keys=True, ensure_ascii=False), anchor="", where=where)


def issues(repository: api.Repository, message: str) -> Iterator[tuple[str, str, str]]:
    """(edge, key, type) of each issue that a message fixes or mentions, each once."""
    known: set[str] = set()
    closed = [one for match in _CLOSES.finditer(message) for one in _ISSUES.findall(match["issues"])]
    for edge, found in (("fixes", closed), ("mentions", _ISSUES.findall(message))):
        for one in found:
            key = _issue(repository, one)
            if key and key not in known:
                known.add(key)
                yield edge, key, reference.kind_of(key)


def _issue(repository: api.Repository, written: str) -> str:
    """The key of an issue as a message writes it; "" for what is none."""
    place, mark, number = written.partition("#") if "#" in written else written.partition("!")
    project, _, count = written.partition("-")
    if project == "GH" and repository.tracker == "github":
        place, mark, number = "", "#", count
    if mark:
        found = urns.item(repository.tracker or "", f"{place or repository.path}{mark}{number}")
        return found.key if found is not None else ""
    return "" if project in _NO_PROJECTS or written != written.upper() else f"jira::{written}"


class _Facts:
    """The facts as they are collected, each once."""

    def __init__(
        self, sent: api.GitCommits, commit: api.Commit, of: Sequence[str], symbols: Mapping[str, Read]
    ) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.relationships: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.omitted = 0
        self._place = f"{sent.repository.path}@{commit.hash}"
        self._owner = {"clientId": sent.scope.client_id, "projectId": sent.scope.project_id}
        project = sent.scope.project_id
        own = f"{caller_facts.DOCUMENT}commit::{commit.hash}::{project}"
        repository = repository_keys.repository(sent.repository.org, sent.repository.name)
        self._node(own, "commit", _of(commit, of[0]) | self._owner)
        default = {"defaultBranch": sent.repository.default_branch} if sent.repository.default_branch else {}
        self._node(repository, "repository", {"label": sent.repository.path, **default, **self._owner})
        known = _bounded({one.path: symbols[one.path] for one in commit.files if one.path in symbols})
        self._edges(sent, commit, of, own, repository, known)
        for path, read in known.items():
            for one in read.changes:
                self._symbol(path, one, own, project)
        for parent in commit.parents:
            if parent != commit.hash:
                self._edge(own, "parent", f"{caller_facts.DOCUMENT}commit::{parent}::{project}")
        author = _person(commit.author, sent.scope)
        if author:
            said = {"name": commit.author.name, "email": commit.author.email}
            self._node(author, "user", {name: value for name, value in said.items() if value})
            self._edge(own, "authored_by", author)
        for edge, key, kind in issues(sent.repository, commit.message):
            self._node(f"{caller_facts.DOCUMENT}{key}", kind, {})
            # Without `@`: the sentence of the message that says so is its proof.
            self._edge(own, edge, f"{caller_facts.DOCUMENT}{key}", place="message")

    def _edges(
        self,
        sent: api.GitCommits,
        commit: api.Commit,
        of: Sequence[str],
        own: str,
        repository: str,
        known: Mapping[str, Read],
    ) -> None:
        project, left = sent.scope.project_id, MOST_FILE_EDGES
        for name in of:
            branch = repository_keys.branch(name, project)
            properties = {
                "branchName": name,
                "isDefault": name == sent.repository.default_branch,
                "status": "active",
                "lastCommitHash": commit.hash,
            }
            self._node(branch, "branch", properties | self._owner)
            self._edge(repository, "has_branch", branch)
            self._edge(branch, "has_commit", own)
            for one in commit.files:
                needed = 1 if one.old_path is None else 4
                if left < needed:
                    self.omitted += needed
                    continue
                left -= needed
                self._file(one, name, own, project, known.get(one.path))

    def _file(self, one: api.CommitFile, branch: str, own: str, project: str, read: Read | None) -> None:
        key = self._file_node(one.path, branch, project)
        place = f"{self._place}:{one.path}"
        self._edge(own, _EDGES[one.status], key, place, {} if read is None else {"symbolsRead": read.extractor})
        if one.old_path is not None:
            old = self._file_node(one.old_path, branch, project)
            self._edge(own, "deletes", old, place=f"{self._place}:{one.old_path}")
            if old != key:
                self._edge(key, "renamed_from", old, place)
                said = {"oldPath": one.old_path, "path": one.path}
                self._edge(own, "renames", key, place, said | _given("similarity", one.similarity))

    def _symbol(self, path: str, one: Change, own: str, project: str) -> None:
        key = repository_keys.symbol(path, one.name, project)
        said = {"path": path, "name": one.name, "kind": one.kind}
        self._node(key, "symbol", said | self._owner)
        self._edge(own, CHANGES, key, f"{self._place}:{path}", said | {"change": one.what})

    def _file_node(self, path: str, branch: str, project: str) -> str:
        key = repository_keys.file(path, branch, project)
        extension = path.rpartition("/")[2].rpartition(".")[2] if "." in path.rpartition("/")[2] else ""
        self._node(key, "file", {"path": path, "extension": extension, "branchName": branch, **self._owner})
        return key

    def _node(self, key: str, kind: str, properties: dict[str, Any]) -> None:
        self.nodes.setdefault(key, {"key": key, "type": kind, "properties": properties, "at": self._place})

    def _edge(
        self, source: str, kind: str, target: str, place: str = "", said: Mapping[str, Any] | None = None
    ) -> None:
        made: dict[str, Any] = {
            "source": source,
            "type": kind,
            "target": target,
            "at": (place or self._place)[:_PLACE_CHARS],
        }
        if said:
            made["properties"] = said
        self.relationships.setdefault((source, kind, target), made)


def _bounded(symbols: Mapping[str, Read]) -> dict[str, Read]:
    """The first of the files, by path, whose declarations are not too many."""
    kept: dict[str, Read] = {}
    left = MOST_SYMBOLS
    for path, read in sorted(symbols.items()):
        if len(read.changes) <= left:
            left -= len(read.changes)
            kept[path] = read
    return kept


def _given(name: str, value: Any) -> dict[str, Any]:
    return {} if value is None else {name: value}


def _of(commit: api.Commit, branch: str) -> dict[str, Any]:
    cut = {"filesTruncated": commit.files_truncated, "diffTruncated": commit.diff_truncated}
    return {
        "hash": commit.hash,
        "message": commit.message.strip()[:_PROPERTY_CHARS],
        "author": commit.author.name,
        "date": commit.date.isoformat(),
        "branch": branch,
        **{name: True for name, value in cut.items() if value},
    }


def _person(author: api.Author, where: scope.Scope) -> str:
    """The key of who wrote it: by the address, which is one's own, and only without it by the name; "" for none."""
    key = reference.key("user", author.email.strip() or author.name.strip(), where) or ""
    return key if reference.normalise(key, where) else ""
