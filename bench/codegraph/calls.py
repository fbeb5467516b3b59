"""Precision and recall of the calls of Java, by call site, beside what javac attributes.

A site is (file, caller, line, callee). javac lacks the dependencies of a tree: lines where it knows no callee for one
of the calls are left out of precision.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.codegraph import natives, trees
from codegraph.parse import parsing
from codegraph.resolve import calls
from hack.cluster import progress

Site = tuple[str, str, int, str, str]
TARGET = 0.98
_SECONDS = 5.0


def measure(names: Sequence[str], most: int) -> dict[str, Any]:
    """Figures by tree; `seconds` are of processor time for 100 files, parsing included."""
    report, found = progress.Progress(), dict[str, Any]()
    program = natives.java_calls(report)
    for tree in trees.ALL:
        if tree.language != "java" or (names and tree.name not in names):
            continue
        with tempfile.TemporaryDirectory(prefix="bench-codegraph-") as scratch:
            root = Path(scratch)
            paths = [path for path in trees.copy(tree, root, most, report) if not _is_left_out(path)]
            native = program.read(root, paths)
            ours, seconds = _resolved(root, paths)
        found[tree.name] = {**score(native, ours), "files": len(paths), "seconds": round(seconds / len(paths) * 100, 2)}
    return found


def score(native: dict[str, Any], ours: set[Site]) -> dict[str, Any]:
    """Precision, recall, and how many sites javac has."""
    theirs: set[Site] = {(row[0], row[1], row[2], row[3], row[4]) for row in native["calls"] if row[3]}
    unknown = {(file, line) for file, line, _ in native["unknown"]}
    both = len(theirs & ours)
    wrong = sum((site[0], site[2]) not in unknown for site in ours - theirs)
    precision = both / (both + wrong) if both + wrong else None
    recall = both / len(theirs) if theirs else None
    return {"precision": precision, "recall": recall, "sites": len(theirs)}


def _is_left_out(path: str) -> bool:
    """Modules make javac want their dependencies, and a jar may have one class for several releases."""
    return path.endswith("module-info.java") or path.startswith("META-INF/versions/")


def _resolved(root: Path, paths: Sequence[str]) -> tuple[set[Site], float]:
    began = time.process_time()
    facts: dict[str, calls.CallFacts] = {}
    for path in paths:
        source = (root / path).read_bytes()
        one = calls.facts(parsing.parse(source, "java", _SECONDS), source, "java")
        if one is not None:
            facts[path] = one
    edges = calls.resolve(facts).edges
    seconds = time.process_time() - began
    return {(one.caller_file, one.caller, one.line, one.callee_file, one.callee) for one in edges}, seconds
