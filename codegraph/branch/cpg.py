"""What Joern says about a branch, put beside what is known of it: signatures, calls, bases, uses of types. Pure.

    pack     an export and the contents of the files that it speaks of -> bytes to store
    merge    a project and these bytes -> the project with what they add

A declaration of Joern is ours where file, name and line agree. What it says of a file counts as long as the file has
the content that was analysed, and of two files as long as both do: so what is known after a commit is what a rebuild
with the same export gives. Nothing of our own is replaced (decision 0130).
"""

from __future__ import annotations

import dataclasses
import json
import re
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from codegraph import api
from codegraph.parse.facts import Symbol
from codegraph.resolve.calls.edges import SURE, Edge
from codegraph.resolve.project import Project, Target

RULE = "joern"
"""The rule of its calls, and the `source` of its edges."""
_CALLERS = frozenset({"c", "cpp", "java"})
"""Languages whose calls are taken. Python's are guesses where our resolver has none (precision 0.28)."""
_CONFIDENCE = 0.9
_BEFORE = 60
"""Lines of annotations and modifiers that may stand between the beginning of a declaration and its name."""
_LAST = re.compile(r"[.:$#]+")
_CONSTRUCTORS = frozenset({"__init__", "<init>"})


def pack(export: api.CpgExport, blobs: Mapping[str, str]) -> bytes:
    """The export, with the ids of the contents of its files."""
    paths = {one.file for one in export.types} | {one.file for one in export.methods}
    kept = {path: blobs[path] for path in sorted(paths & blobs.keys())}
    said = export.model_dump(mode="json", by_alias=True, exclude={"missing"})
    return json.dumps({"blobs": kept, "export": said}, sort_keys=True, separators=(",", ":")).encode()


def merge(project: Project, packed: bytes, blobs: Mapping[str, str]) -> tuple[Project, Counter[str]]:
    """The project with what the export adds, and how much of each kind; `blobs` are those of the project's files."""
    held = json.loads(packed)
    export: dict[str, Any] = held["export"]
    same = {path for path, blob in held["blobs"].items() if blobs.get(path) == blob}
    places = _Places(project)
    types = [places.type(one) if one["file"] in same else None for one in export["types"]]
    methods = [places.method(one) if one["file"] in same else None for one in export["methods"]]
    counts = Counter(unmatched=sum(one is None for one in (*types, *methods)))

    signatures = {
        target: one["signature"]
        for one, target in zip(export["methods"], methods, strict=True)
        if target is not None and one["signature"] and places.symbols[target].kind != "class"
    }
    known = {(one.caller_file, one.caller, one.callee_file, one.callee) for one in project.calls.edges
             if one.confidence >= SURE}  # fmt: skip
    calls: dict[tuple[str, str, str, str], Edge] = {}
    for caller, callee, line in export["calls"]:
        source, target = methods[caller], methods[callee]
        if source is None or target is None:
            continue
        target = places.constructed(target)
        named = (source.path, source.qname, target.path, target.qname)
        if project.files[source.path].language in _CALLERS and named not in known:
            at = line or places.symbols[source].line
            calls.setdefault(named, Edge(*named, at, RULE, _CONFIDENCE))

    extends = {target: list(bases) for target, bases in project.extends.items()}
    added = set()
    for pair, base in _pairs(types, export["extends"]):
        if base not in extends.setdefault(pair, []):
            extends[pair].append(base)
            added.add((pair, base))
    uses: dict[Target, list[Target]] = defaultdict(list)
    for one, used in _pairs(types, export["usesType"]):
        if used not in uses[one]:
            uses[one].append(used)

    counts.update(signatures=len(signatures), calls=len(calls), extends=len(added))
    counts["usesType"] = sum(map(len, uses.values()))
    whole = dataclasses.replace(project.calls, edges=tuple(sorted((*project.calls.edges, *calls.values()))))
    return (
        dataclasses.replace(
            project,
            files={path: _signed(path, file, signatures) for path, file in project.files.items()},
            calls=whole,
            extends={target: tuple(bases) for target, bases in extends.items() if bases},
            uses_type={target: tuple(sorted(used)) for target, used in uses.items()},
            signatures=signatures,
            analysed=frozenset(added),
        ),
        counts,
    )


class _Places:
    """Which declaration of the project is meant."""

    def __init__(self, project: Project) -> None:
        self.symbols = {Target(path, one.qname): one for path, file in project.files.items() for one in file.symbols}
        self._named: dict[tuple[str, str, bool], list[tuple[int, Target]]] = defaultdict(list)
        for target, one in self.symbols.items():
            self._named[target.path, one.name, one.kind == "class"].append((one.line, target))
        for found in self._named.values():
            found.sort()

    def type(self, said: Mapping[str, Any]) -> Target | None:
        return self._find(said["file"], _last(said["name"]), said["line"], classes=True)

    def method(self, said: Mapping[str, Any]) -> Target | None:
        """A constructor that no line declares is its class."""
        at = said["file"], _last(said["name"]), said["line"]
        found = self._find(*at, classes=False)
        if found is None and said["name"] == _last(said["type"]):
            return self._find(*at, classes=True)
        return found

    def constructed(self, target: Target) -> Target:
        """The class of a constructor, which is what a call of one calls; any other target itself."""
        one = self.symbols[target]
        around = Target(target.path, target.qname.rpartition(".")[0])
        owner = self.symbols.get(around)
        if owner is None or owner.kind != "class" or one.kind == "class":
            return target
        return around if one.name == owner.name or one.name in _CONSTRUCTORS else target

    def _find(self, path: str, name: str, line: int, *, classes: bool) -> Target | None:
        """The first of that name whose name stands at the line or not far behind."""
        found = self._named.get((path, name, classes), ())
        at = bisect_left(found, (line, Target("")))
        if at == len(found) or found[at][0] - line > _BEFORE:
            return None
        return found[at][1]


def _pairs(types: list[Target | None], pairs: list[tuple[int, int]]) -> list[tuple[Target, Target]]:
    found = [(types[first], types[second]) for first, second in pairs]
    return [(one, other) for one, other in found if one is not None and other is not None and one != other]


def _signed(path: str, file: Any, signatures: Mapping[Target, str]) -> Any:
    """The file with signatures where it had none."""
    symbols = tuple(_own(one, signatures.get(Target(path, one.qname), "")) for one in file.symbols)
    return dataclasses.replace(file, symbols=symbols) if symbols != file.symbols else file


def _own(one: Symbol, signature: str) -> Symbol:
    return dataclasses.replace(one, signature=signature) if signature and not one.signature else one


def _last(name: str) -> str:
    return _LAST.split(name)[-1]
