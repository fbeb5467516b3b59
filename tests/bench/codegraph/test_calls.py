"""The score of calls beside what javac and TypeScript's compiler say: what both know, what one of them has alone, and
what the reference leaves open."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.codegraph import calls, natives, resolution
from codegraph.resolve import calls as code_calls
from codegraph.resolve.calls import resolve
from hack.cluster import progress
from tests.codegraph.calls import projects

_SOURCES = {
    "p/A.java": """\
        package p;
        import gone.Missing;
        class A {
            enum Kind { ONE(A.make()); Kind(int x) { } }
            static int make() { return 1; }
            A() { this(1); }
            A(int x) { super(); }
            Runnable made() { return new Object() { void own() { make(); } }::own; }
            void uses(Missing x) { x.go(); B.called(B::called); new B(); "a".trim(); }
        }
        """,
    "p/B.java": "package p;\nclass B { static void called(Runnable r) { class Local { Local() { called(null); } } }\n"
    "  static void called() { } }\n",
}


@pytest.mark.skipif(shutil.which("javac") is None, reason="needs a JDK")
def test_javac_says_what_is_resolved(tmp_path: Path) -> None:
    facts = projects.facts(_SOURCES)
    for path, text in _SOURCES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("\n".join(line.removeprefix(" " * 8) for line in text.split("\n")))
    native = natives.java_calls(progress.Progress()).read(tmp_path, list(_SOURCES))
    ours = {(one.caller_file, one.caller, one.line, one.callee_file, one.callee) for one in resolve(facts).edges}
    assert calls.score(native, ours) == {"precision": 1.0, "recall": 1.0, "sites": 7}
    assert native["unknown"] == [["p/A.java", 9, "go"]]


def test_the_score_leaves_out_lines_that_javac_does_not_understand() -> None:
    native = {
        "calls": [["A", "A.f", 1, "A", "A.g", "g"], ["A", "A.f", 2, "A", "A.h", "h"], ["A", "A.f", 3, "", "", "trim"]],
        "unknown": [["A", 4, "x"]],
    }
    ours = {("A", "A.f", 1, "A", "A.g"), ("A", "A.f", 3, "A", "A.trim"), ("A", "A.f", 4, "A", "A.x")}
    assert calls.score(native, ours) == {"precision": 0.5, "recall": 0.5, "sites": 2}


def _edge(caller: str, line: int, callee: str) -> code_calls.Edge:
    return code_calls.Edge("a.ts", caller, "b.ts", callee, line, "local", 1.0)


def test_the_score_leaves_out_sites_that_the_reference_does_not_know() -> None:
    sites: list[list[Any]] = [
        ["a.ts", "f", 1, "edge", [["b.ts", "x"]]],
        ["a.ts", "f", 2, "edge", [["b.ts", "y"], ["b.ts", "z"]]],
        ["a.ts", "f", 3, "value", []],
        ["a.ts", "f", 4, "outside", []],
    ]
    edges = [_edge("f", 1, "x"), _edge("f", 2, "y"), _edge("f", 3, "x"), _edge("f", 4, "x")]
    assert resolution.score(sites, edges) == resolution.Score(3, 0.6667, 0.6667, 1)


def test_nothing_to_find_misses_nothing() -> None:
    assert resolution.score([], []) == resolution.Score(0, 1.0, 1.0, 0)
