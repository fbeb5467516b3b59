"""What call resolution gives: edges with a rule and a confidence, and the calls that stay names. Pure data."""

from __future__ import annotations

from dataclasses import dataclass, field

CONFIDENCE = {
    "local": 1.0,
    "import": 1.0,
    "self": 1.0,
    "constructor": 1.0,
    "inherited": 0.98,
    "annotation": 0.97,
    "attribute-type": 0.95,
    "return-type": 0.95,
    "interface": 0.95,
    "argument": 0.85,
    "unique-name": 0.4,
}
"""How sure each rule is that the callee is meant, from 0 to 1."""
SURE = 0.8
"""Edges below are hints; they are no part of what is scored or counted."""


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """A call from one named scope to another. A module's own code has the qname ''; a constructor is its class."""

    caller_file: str
    caller: str
    callee_file: str
    callee: str
    line: int
    rule: str
    confidence: float


@dataclass(frozen=True, slots=True, order=True)
class Unresolved:
    """A call whose callee is unknown or outside of the project: the name as written."""

    file: str
    caller: str
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Calls:
    """All calls of a project, sorted."""

    edges: tuple[Edge, ...] = field(default=())
    unresolved: tuple[Unresolved, ...] = field(default=())
