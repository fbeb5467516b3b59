"""Precision and recall of the calls of Rust, by call site, beside rustc.

A site is (file, caller, line, callee). Only bodies that rustc compiled count: tests, other features and other systems
are left out, and so are sites where the `impl` that is meant is not known by the names of a trait and a type, and
arguments of macros and what has a `cfg`, where rustc has no call of any kind: such as are not compiled.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.codegraph import natives, thir, trees
from hack.cluster import binaries, progress
from kb.code import calls, extraction
from kb.code.calls import configuration
from kb.code.calls.rust.library import STANDARD

TARGETS = {"precision": 0.98, "recall": 0.9}
FEATURES = {"tokio-1.54.1": ("full",), "syn-3.0.10": ("full", "visit", "fold", "extra-traits")}
Site = tuple[str, str, int, str, str]


def measure(names: Sequence[str]) -> dict[str, Any]:
    """Figures by crate; all crates that the code was not written with, without names."""
    report, found = progress.Progress(), dict[str, Any]()
    for tree in trees.ALL:
        if tree.language == "rust" and (tree.name in names if names else not tree.seen):
            found[tree.name] = _crate(tree, report)
    return found


def _crate(tree: trees.Tree, report: progress.Progress) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-codegraph-") as scratch:
        folder = Path(scratch, tree.name)
        shutil.copytree(natives.crates(report) / tree.name, folder)
        typed = thir.read(folder, FEATURES.get(tree.name, ()), binaries.cache() / "codegraph-rust-target")
        paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.rs"))
        truth = known(typed, thir.names(folder, paths))
        start = time.process_time()
        edges = resolved(folder, paths)
        seconds = time.process_time() - start
    figures = score(truth, edges)
    missed = [one for one, wanted in TARGETS.items() if figures[one] < wanted]
    return {
        "files": len(paths),
        **figures,
        "seconds_per_100_files": round(seconds / len(paths) * 100, 2),
        "missed": missed,
    }


@dataclass
class Truth:
    """`bodies` are files and lines; `open` are sites whose callee is not known, `silent` are lines
    that were not compiled."""

    sites: set[Site]
    open: set[tuple[str, str, int]]
    bodies: dict[str, list[tuple[int, int]]]
    silent: set[tuple[str, int]]


def known(typed: thir.Typed, names: thir.Names) -> Truth:
    """The sites with names of kb.code."""
    places = {one.path: (one.file, one.first) for one in typed.bodies}
    found = Truth(set(), set(), {}, set())
    heard: dict[str, set[int]] = {}
    for site in typed.sites:
        heard.setdefault(site.file, set()).add(site.line)
    for file, ranges in names.optional.items():
        for first, last in ranges:
            if heard.get(file, set()).isdisjoint(range(first, last + 1)):
                found.silent.update((file, line) for line in range(first, last + 1))
    for body in typed.bodies:
        found.bodies.setdefault(body.file, []).append((body.first, body.last))
    for site in typed.sites:
        caller = names.at(site.file, site.line)
        callees = _callees(site, places, names)
        if callees is None or len(callees) > 1:
            found.open.add((site.file, caller, site.line))
        elif callees:
            found.sites.add((site.file, caller, site.line, *next(iter(callees))))
    return found


def _callees(site: thir.Site, places: dict[str, tuple[str, int]], names: thir.Names) -> set[tuple[str, str]] | None:
    """Where the callee is: nothing if it is of no file, several or none if that is not known."""
    *_, owner, name = ["", "", *site.path.split("::")]
    module, _, subject = site.subject.rpartition("::")
    if module.partition("::")[0] in STANDARD and (subject in names.types or not site.is_local):
        return None if site.is_local else set()
    implemented = names.impls.get((owner, subject, name))
    files = names.types.get(subject, set())
    if implemented and len(files) > 1:
        own = {file for file in files if _module(file) == module}
        implemented = {one for one in implemented if one[0] in own}
        if not implemented:
            return None
    if implemented:
        return implemented
    if not site.is_local:
        return set()
    if site.path in places and (owner, name) not in names.traits:
        file, line = places[site.path]
        qname = names.at(file, line, name)
        return {(file, qname)} if qname else None
    declared = names.traits.get((owner, name), [])
    if site.subject and not all(has_body for _, _, has_body in declared):
        return None
    return {(file, qname) for file, qname, _ in declared} or None


def _module(file: str) -> str:
    parts = file.removesuffix(".rs").removeprefix("src/").split("/")
    return "::".join(parts[:-1] if parts[-1] in ("mod", "lib") else parts)


def score(truth: Truth, edges: Collection[calls.Edge]) -> dict[str, Any]:
    """Precision, recall, and how many sites rustc has."""
    ours = {
        (one.caller_file, one.caller, one.line, one.callee_file, one.callee)
        for one in edges
        if any(first <= one.line <= last for first, last in truth.bodies.get(one.caller_file, ()))
    }
    both = len(ours & truth.sites)
    wrong = sum(1 for one in ours - truth.sites if one[:3] not in truth.open and (one[0], one[2]) not in truth.silent)
    return {
        "calls": len(truth.sites),
        "precision": round(both / (both + wrong), 4) if both + wrong else 1.0,
        "recall": round(both / len(truth.sites), 4) if truth.sites else 1.0,
        "left_out": len(ours) - both - wrong,
    }


def resolved(folder: Path, paths: Sequence[str]) -> list[calls.Edge]:
    """The sure calls of these files of a folder, by kb.code."""
    facts: dict[str, calls.CallFacts] = {}
    for path in paths:
        found = extraction.extract(path, (folder / path).read_bytes(), "rust", extraction.collector(calls=True)).calls
        if isinstance(found, calls.CallFacts):
            facts[path] = found
    return calls.sure(calls.resolve(facts, configuration.read(folder)).edges)
