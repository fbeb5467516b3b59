"""The score of calls: what both know, what one of them has alone, and sites that the reference leaves open."""

from __future__ import annotations

from typing import Any

from bench.codegraph import resolution
from kb.code import calls


def _edge(caller: str, line: int, callee: str) -> calls.Edge:
    return calls.Edge("a.ts", caller, "b.ts", callee, line, "local", 1.0)


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
