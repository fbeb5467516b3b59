"""A source file, and a branch, as documents: their text, and the nodes and edges that are known of them. Pure.

Source: seed 001 "Node Types" (CODE, VCS), "VCS Relationships". Nothing in a file's document changes with a commit that
changes neither the file nor what it calls, so that a commit writes few documents; what does is the branch's alone.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from codegraph import api
from codegraph.branch import cpg
from codegraph.parse.facts import FileFacts, Symbol
from codegraph.resolve import keys as naming
from codegraph.resolve.calls.edges import SURE, Edge
from codegraph.resolve.project import Project, Target
from contracts import repository_keys

MOST_NODES, MOST_EDGES = 2000, 5000
"""Of one file; of calls the surest stay."""
_TEXT_CHARS, _LIST = 40_000, 200
_LANGUAGES_SHOWN = 12
_CHARS = 1000
"""Of one value; names of sources have no limit."""
_Row = dict[str, Any]


class Documents:
    """Of one request: `sent` without its contents."""

    def __init__(self, sent: api.GitStructure, project: Project) -> None:
        self._sent, self._project = sent, project
        self._keys = naming.Keys(project.files, sent.branch, sent.scope.project_id)
        self._modified = {one.path: one.modified for one in sent.files}
        self._owner = {"clientId": sent.scope.client_id, "projectId": sent.scope.project_id}
        self._scope = sent.scope.model_dump(mode="json", by_alias=True)
        self._access = sent.access.model_dump(mode="json", by_alias=True) if sent.access is not None else None
        self._calls: dict[str, list[Edge]] = defaultdict(list)
        for edge in project.calls.edges:
            if edge.confidence >= SURE:
                self._calls[edge.caller_file].append(edge)
        self._unresolved: dict[str, set[str]] = defaultdict(set)
        for one in project.calls.unresolved:
            self._unresolved[one.file].add(one.name)

    def file(self, path: str) -> bytes:
        """The document of a file of the project, an `api.IngestRequest` as JSON."""
        file = self._project.files[path]
        nodes, edges, omitted = self._facts(file)
        where = {"repository": self._sent.repository.path, "branch": self._sent.branch, "path": path}
        return self._request(
            self._sent.repository.file_urn(path, self._sent.branch),
            api.GIT_FILE,
            path[-300:],
            self._text(file, omitted),
            self._modified.get(path),
            where,
            nodes,
            edges,
        )

    def branch(self, skipped: Sequence[api.SkippedFile]) -> bytes:
        """The document of the branch: what it is at this commit, what was read of it and what was not."""
        sent, files = self._sent, self._project.files
        key = repository_keys.branch(sent.branch, sent.scope.project_id)
        repository = repository_keys.repository(sent.repository.org, sent.repository.name)
        stack = Counter(file.language for file in files.values())
        technologies = ", ".join(name for name, _ in stack.most_common(_LANGUAGES_SHOWN))
        left = Counter(one.reason for one in skipped)
        properties = {
            "branchName": sent.branch,
            "isDefault": sent.branch == sent.repository.default_branch,
            "status": "active",
            "lastCommitHash": sent.commit,
            "fileCount": len(files),
            "filesSkipped": sum(left.values()),
            "filesWithErrors": sum(file.has_error for file in files.values()),
            **self._owner,
        }
        of = {"label": sent.repository.path, "techStack": technologies, **self._owner}
        if sent.repository.default_branch:
            of["defaultBranch"] = sent.repository.default_branch
        lines = [
            f"Branch {sent.branch} of {sent.repository.path} at commit {sent.commit}",
            "",
            f"{len(files)} source files, {sum(file.lines for file in files.values())} lines: "
            + ", ".join(f"{number} {name}" for name, number in stack.most_common()),
        ]
        if left:
            lines.append("Not read: " + ", ".join(f"{number} {reason}" for reason, number in left.most_common()))
        where = {"repository": sent.repository.path, "branch": sent.branch, "commit": sent.commit or ""}
        return self._request(
            sent.repository.branch_urn(sent.branch),
            api.GIT_BRANCH,
            f"{sent.repository.path}, branch {sent.branch}"[:300],
            "\n".join(lines),
            sent.committed_at,
            where,
            [_node(key, "branch", properties), _node(repository, "repository", of)],
            [_edge(repository, "has_branch", key)],
        )

    def _request(
        self,
        urn: str,
        kind: str,
        title: str,
        text: str,
        observed: datetime | None,
        where: Mapping[str, str],
        nodes: Sequence[_Row],
        edges: Sequence[_Row],
    ) -> bytes:
        # Thousands of them are compared and few are written: those are validated when they are.
        made: _Row = {
            "scope": self._scope,
            "sourceUrn": urn,
            "kind": kind,
            "title": title,
            "content": text,
            "metadata": where,
            "nodes": nodes,
            "relationships": edges,
        }
        if observed is not None:
            made["observedAt"] = observed.isoformat()
        if self._access is not None:
            made["access"] = self._access
        return orjson.dumps(made, option=orjson.OPT_SORT_KEYS)

    def _facts(self, file: FileFacts) -> tuple[list[_Row], list[_Row], int]:
        path, keys = file.path, self._keys
        own = keys.file(path)
        nodes = {own: _node(own, "file", self._of_file(file), path)}
        edges: dict[tuple[str, str, str], _Row] = {}
        branch = repository_keys.branch(self._sent.branch, self._sent.scope.project_id)
        nodes[branch] = _node(branch, "branch", {"branchName": self._sent.branch, **self._owner})
        omitted = 0

        def edge(source: str, kind: str, target: str, line: int, said: Mapping[str, Any] | None = None) -> None:
            nonlocal omitted
            if source == target or (source, kind, target) in edges:
                return
            if len(edges) >= MOST_EDGES:
                omitted += 1
                return
            edges[source, kind, target] = _edge(source, kind, target, f"{path}:{line}", said)

        edge(branch, "contains_file", own, 1)
        for one, key, around in self._declared(file):
            if key in nodes or len(nodes) >= MOST_NODES:
                omitted += key not in nodes
                continue
            nodes[key] = _node(
                key, "class" if one.kind == "class" else "method", self._of(one, path), f"{path}:{one.line}"
            )
            inside = around.startswith("class__")
            edge(around, "has_method" if inside and one.kind != "class" else "contains", key, one.line)
        for target, line in self._project.imports.get(path, ()):
            edge(own, "imports", keys.of(target.path, target.qname), line)
        classes = [(one, Target(path, one.qname)) for one in file.symbols if one.kind == "class"]
        analysed = self._project.analysed
        for ours in (True, False):  # what Joern adds takes no place from what is known without it
            by = {} if ours else {"source": cpg.RULE}
            for one, own_class in classes:
                for target in self._project.extends.get(own_class, ()):
                    if ((own_class, target) in analysed) != ours:
                        edge(keys.symbol(path, one), "extends", keys.of(target.path, target.qname), one.line, by)
            for call in sorted(self._calls.get(path, ()), key=lambda one: (-one.confidence, one.line, one.callee_file)):
                if (call.rule == cpg.RULE) != ours:
                    said = {"rule": call.rule, "confidence": call.confidence, "line": call.line, **by}
                    callee = keys.of(call.callee_file, call.callee)
                    edge(keys.of(path, call.caller), "calls", callee, call.line, said)
        for one, own_class in classes:
            for target in self._project.uses_type.get(own_class, ()):
                edge(keys.symbol(path, one), "uses_type", keys.of(target.path, target.qname), one.line, by)
        return list(nodes.values()), list(edges.values()), omitted

    def _declared(self, file: FileFacts) -> Iterator[tuple[Symbol, str, str]]:
        """Declarations with their keys, and the keys of what is around them."""
        known = {one.qname for one in file.symbols}
        for one in file.symbols:
            around = one.qname.removesuffix(one.name).removesuffix(".")
            while around and around not in known:
                around = around.rpartition(".")[0]
            yield one, self._keys.symbol(file.path, one), self._keys.of(file.path, around)

    def _of_file(self, file: FileFacts) -> dict[str, Any]:
        name = file.path.rpartition("/")[2]
        outside = sorted({one.module for one in file.imports})
        more: dict[str, Any] = {}
        modified = self._modified.get(file.path)
        if modified is not None:
            more["lastModified"] = modified.isoformat()
        if file.has_error:
            more["hasErrors"] = True
        if outside:
            more["importsAsWritten"] = [one[:400] for one in outside[:_LIST]]
        if names := sorted(self._unresolved.get(file.path, ())):
            more["callsUnresolved"] = [one[:400] for one in names[:_LIST]]
        return {
            "path": file.path,
            "extension": name.rpartition(".")[2] if "." in name else "",
            "language": file.language,
            "linesOfCode": file.lines,
            "branchName": self._sent.branch,
            **more,
            **self._owner,
        }

    def _of(self, one: Symbol, path: str) -> dict[str, Any]:
        qualified, name = self._keys.qualified(path, one.qname)[:_CHARS], one.name[:_CHARS]
        common = {"filePath": path, "branchName": self._sent.branch, "line": one.line, "endLine": one.end_line}
        said = {"visibility": one.visibility, "signature": one.signature[:_CHARS], "doc": one.doc[:_CHARS]}
        more = {name: value for name, value in said.items() if value}
        if one.kind == "class":
            own = {"name": name, "qualifiedName": qualified, "isInterface": one.is_interface}
            return (
                own
                | ({"extends": [base[:_CHARS] for base in one.bases[:_LIST]]} if one.bases else {})
                | more
                | common
                | self._owner
            )
        around = self._keys.qualified(path, one.qname.removesuffix(one.name).removesuffix("."))[:_CHARS]
        types = self._project.signatures.get(Target(path, one.qname))
        more |= {"resolvedSignature": types} if types else {}
        return {"label": name, "qualifiedName": qualified, "className": around} | more | common | self._owner

    def _text(self, file: FileFacts, omitted: int) -> str:
        lines = [f"{file.path} in {self._sent.repository.path}, {file.language}, {file.lines} lines", ""]
        for one in file.symbols:
            indent = "  " * one.qname.count(".")
            said = one.signature or f"{one.kind} {one.name}"
            lines.append(f"{indent}{said[:300]}" + (f"  -- {one.doc}" if one.doc else ""))
        if file.imports:
            lines += ["", "Imports: " + ", ".join(dict.fromkeys(one.module for one in file.imports))]
        if omitted:
            lines += ["", f"({omitted} declarations or edges more)"]
        return "\n".join(lines)[:_TEXT_CHARS]


def digest(request: bytes) -> str:
    """Changes with everything that a document says, and with nothing else."""
    return hashlib.sha256(request).hexdigest()[:32]


def _node(key: str, kind: str, properties: Mapping[str, Any], place: str = "") -> _Row:
    return {"key": key, "type": kind, "properties": properties, "at": place[:1024]}


def _edge(source: str, kind: str, target: str, place: str = "", properties: Mapping[str, Any] | None = None) -> _Row:
    return {"source": source, "type": kind, "target": target, "properties": properties or {}, "at": place[:1024]}
