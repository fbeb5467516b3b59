"""The walk over relationships that every graph store does: breadth first, each node once, within bounds. Pure.

A store answers which edges there are at a node; everything else is decided here, so that all stores walk alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kb.graph import model

# Edges among the nodes met that an answer may hold.
EDGES = 4000


class Traversal:
    """Ask for the `frontier`, give `step` what is around it, until the frontier is empty; then `finish`."""

    def __init__(self, steps: model.Steps, present: Sequence[str]) -> None:
        self._steps = steps
        start = sorted(set(present))
        self._truncated = len(start) > steps.limit
        self._visits = [model.Visit(node, 0, None) for node in start[: steps.limit]]
        self._frontier = [visit.node_key for visit in self._visits]
        self._seen = set(self._frontier)
        self._hop = 0

    def frontier(self) -> list[str]:
        """The nodes whose edges are wanted next; empty when the walk is over."""
        if self._hop >= self._steps.hops or len(self._visits) >= self._steps.limit:
            return []
        return self._frontier

    def seen(self) -> list[str]:
        """Every node met so far."""
        return [visit.node_key for visit in self._visits]

    def step(self, around: Iterable[tuple[str, list[model.Edge]]]) -> None:
        """Go on over the edges at each node of the frontier, sorted; of more than `fan_out` the first are followed."""
        self._hop += 1
        met: dict[str, model.Edge] = {}
        for _, edges in sorted(around):
            self._truncated |= len(edges) > self._steps.fan_out
            for edge in edges[: self._steps.fan_out]:
                for node in (edge.source, edge.target):
                    if node not in self._seen:
                        met.setdefault(node, edge)
        left = self._steps.limit - len(self._visits)
        self._truncated |= len(met) > left
        self._frontier = sorted(met)[:left]
        self._visits += [model.Visit(node, self._hop, met[node]) for node in self._frontier]
        self._seen.update(self._frontier)

    def finish(self, among: Sequence[model.Edge]) -> model.Walk:
        """The walk, with the edges among the nodes met (the first `EDGES` of one more than that)."""
        truncated = self._truncated or len(among) > EDGES
        return model.Walk(tuple(self._visits), tuple(sorted(set(among))[:EDGES]), truncated)
