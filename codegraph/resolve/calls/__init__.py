"""Which declaration each call of a project calls, by scopes, imports and types. Pure.

I own: what one file says about its calls (`facts`, in the worker process that parsed it), and how calls are resolved
over all files of a project (`resolve`). Callers: `codegraph.extract` and `resolve.resolution`. I never read a file, and
facts know no path: a file that is moved keeps them. A language is one package with `read` and `resolve`, entered in
`LANGUAGES`; calls never cross them.

Bare names link nothing: P 0.18-0.38 was measured for that, and each edge here has a rule and a confidence
(`codegraph.resolve.calls.edges`, decision 0128).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import tree_sitter

from codegraph.resolve.calls.edges import SURE, Calls, Edge, Unresolved

LANGUAGES = {
    "go": "go", "java": "jvm", "javascript": "ecma", "kotlin": "jvm", "python": "python", "tsx": "ecma",
    "typescript": "ecma",
}  # fmt: skip
"""Language of `parse.grammars` to its package below this one; languages of one package may call each other."""
LARGEST = 250_000
"""Nodes of a tree, about 15,000 lines: a larger file is a table, and its time belongs to the extraction of symbols."""
CONFIGURATION = frozenset([
    "go.mod", "jsconfig.json", "package.json", "pyproject.toml", "setup.cfg", "setup.py"
])  # fmt: skip
"""Names of the files that say what imports mean, which `resolve` wants beside the facts; `tsconfig*.json` too."""
_COMPILER = re.compile(r"^tsconfig(?:\.[\w-]+)?\.json$")

__all__ = ["CONFIGURATION", "LANGUAGES", "SURE", "CallFacts", "Calls", "Edge", "Unresolved", "facts", "resolve"]


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What one file says about calls: plain data of its language."""

    language: str
    found: Any


def facts(tree: tree_sitter.Tree, source: bytes, language: str) -> CallFacts | None:
    """The facts of a file, or none: for a language that is not known here, a source nested too deep or too large."""
    if language not in LANGUAGES or tree.root_node.descendant_count > LARGEST:
        return None
    try:
        return CallFacts(language, _package(LANGUAGES[language]).read(tree, source))
    except RecursionError:
        return None


def resolve(files: Mapping[str, CallFacts], configuration: Mapping[str, bytes] | None = None) -> Calls:
    """The calls of a project, sorted. The same facts give the same answer, in whatever order they come.

    `files` are facts by path from the project's root, with `/`; `configuration` are the contents of `CONFIGURATION`
    files by such paths.
    """
    edges: set[Edge] = set()
    unresolved: set[Unresolved] = set()
    for package in sorted(set(LANGUAGES.values())):
        own = {path: files[path].found for path in sorted(files) if LANGUAGES.get(files[path].language) == package}
        if own:
            linked, names = _package(package).resolve(own, configuration or {})
            edges.update(linked)
            unresolved.update(names)
    return Calls(tuple(sorted(edges)), tuple(sorted(unresolved)))


def is_configuration(path: str) -> bool:
    """Whether `resolve` wants the content of a file."""
    name = path.rpartition("/")[2]
    return name in CONFIGURATION or _COMPILER.match(name) is not None


def sure(edges: Collection[Edge]) -> list[Edge]:
    """The edges that are no mere hints."""
    return [edge for edge in edges if edge.confidence >= SURE]


def _package(name: str) -> Any:
    return importlib.import_module(f"{__name__}.{name}")
