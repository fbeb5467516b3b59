"""A branch as a whole: its files, and what leads from one to another. Pure data, made in a worker process.

Targets are (path, qname); the qname '' is the file itself. `tests/codegraph` shows what each edge means.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from codegraph.parse.facts import FileFacts
from codegraph.resolve.calls.edges import Calls


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """A file of the project, or a declaration in it."""

    path: str
    qname: str = ""


@dataclass(frozen=True, slots=True)
class Project:
    """`files` by path. `imports`: what a file imports, with the line; `extends`: the bases of a class by (path, qname).

    What lies outside of the project is in neither; the files have it as written. `uses_type` (the types of fields,
    parameters and results of a class) and `signatures` (with resolved types) are Joern's alone, `analysed` are the
    pairs of `extends` that only Joern knows (`codegraph.branch.cpg`).
    """

    files: dict[str, FileFacts]
    calls: Calls = field(default_factory=Calls)
    imports: dict[str, tuple[tuple[Target, int], ...]] = field(default_factory=dict)
    extends: dict[Target, tuple[Target, ...]] = field(default_factory=dict)
    uses_type: dict[Target, tuple[Target, ...]] = field(default_factory=dict)
    signatures: dict[Target, str] = field(default_factory=dict)
    analysed: frozenset[tuple[Target, Target]] = frozenset()
