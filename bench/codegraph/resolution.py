"""Precision and recall of calls beside TypeScript's type checker, on packages that ship their sources.

A call that the checker knows no declaration of, because a variable or a value of unknown type is called, is left out of
precision. Python and Go were measured beside pyright and go/types (decision 0128).
"""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from bench.codegraph import natives, trees
from codegraph.parse import extraction, grammars
from codegraph.resolve import calls
from hack.cluster import progress

TARGETS = {"precision": 0.98, "recall": 0.95}
_PACKAGES = {"typescript": ("zod", "@reduxjs/toolkit", "@trpc/server", "mobx", "rxjs", "@tanstack/query-core", "ajv"),
             "javascript": ("express", "fastify", "router")}  # fmt: skip
_BELOW = {"typescript": "src", "javascript": "lib"}


def measure(names: Sequence[str]) -> dict[str, Any]:
    """Figures by package; all packages without names."""
    report, found = progress.Progress(), dict[str, Any]()
    for language, packages in _PACKAGES.items():
        for name in packages:
            if not names or name in names:
                found[name] = _package(language, name, report)
    return found


def _package(language: str, name: str, report: progress.Progress) -> dict[str, Any]:
    folder = natives.packages(report) / name
    below = _BELOW[language] if (folder / _BELOW[language]).is_dir() else "lib" if (folder / "lib").is_dir() else ""
    tree = trees.Tree(language, name, lambda _: folder / below)
    with tempfile.TemporaryDirectory(prefix="bench-codegraph-") as scratch:
        paths = trees.copy(tree, Path(scratch), 2_000, report)
        sites = json.loads(
            subprocess.run(
                ["node", "--stack-size=8000", str(natives.SOURCES / "typescript-calls.js"), scratch],
                input="\n".join(paths), check=True, stdout=subprocess.PIPE, encoding="utf-8",
                env={**os.environ, "NODE_PATH": str(natives.packages(report))},
            ).stdout
        )["sites"]  # fmt: skip
        start = time.process_time()
        edges = _resolved(Path(scratch), paths)
        seconds = time.process_time() - start
    figures = dataclasses.asdict(score(sites, edges))
    missed = [one for one, wanted in TARGETS.items() if figures[one] < wanted]
    return {
        "files": len(paths),
        **figures,
        "seconds_per_100_files": round(seconds / len(paths) * 100, 2),
        "missed": missed,
    }


@dataclasses.dataclass(frozen=True)
class Score:
    calls: int
    precision: float
    recall: float
    left_out: int


def score(sites: Sequence[Sequence[Any]], edges: Collection[calls.Edge]) -> Score:
    """`sites` as `references/typescript-calls.js` prints them."""
    open_sites = {tuple(site[:3]) for site in sites if site[3] in ("value", "unknown")}
    known = {(*site[:3], *callee) for site in sites for callee in site[4]}
    ours = {(one.caller_file, one.caller, one.line, one.callee_file, one.callee) for one in edges}
    both = len(ours & known)
    wrong = sum(1 for one in ours - known if one[:3] not in open_sites)
    return Score(
        calls=len(known),
        precision=round(both / (both + wrong), 4) if both + wrong else 1.0,
        recall=round(both / len(known), 4) if known else 1.0,
        left_out=len(ours) - both - wrong,
    )


def _resolved(folder: Path, paths: Sequence[str]) -> list[calls.Edge]:
    facts: dict[str, calls.CallFacts] = {}
    for path in paths:
        language = grammars.language_of(path)
        raw = (folder / path).read_bytes()
        found = extraction.extract(path, raw, language, calls.facts).calls if language else None
        if isinstance(found, calls.CallFacts):
            facts[path] = found
    return calls.sure(calls.resolve(facts).edges)
