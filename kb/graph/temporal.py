"""Which facts a newer one has retired. Pure.

A relationship is functional when its subject can have only one target at a time: an issue has one assignee, a task one
status. Then, and only then, a newer target retires the older one, and only for the same subject (kb page, trap 10).
A fact without a time neither retires nor is retired; a retired fact stays, and answers name its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from kb.graph import model


class Retired(NamedTuple):
    """In which millisecond a fact ceased to hold, and the edge that took its place."""

    at_ms: int
    by: model.Edge


class Fact(Protocol):
    """That an edge, if any, was stated at a time: `kb.graph.model.Statement` or `Observed`."""

    @property
    def edge(self) -> model.Edge | None: ...

    @property
    def observed_ms(self) -> int | None: ...


FUNCTIONAL = frozenset(
    {
        "assigned_to",
        "current_version",
        "due",
        "due_on",
        "has_assignee",
        "has_priority",
        "has_status",
        "led_by",
        "owned_by",
        "priority",
        "reports_to",
        "status",
    }
)


def retired(said: Iterable[Fact], *, as_of_ms: int | None = None) -> Mapping[model.Edge, Retired]:
    """Which edges ceased to hold because another target took their place, and when.

    `said`: all statements about the subjects in question. With `as_of_ms` later ones are not known yet.
    """
    times: dict[tuple[str, str], dict[model.Edge, list[int]]] = {}
    for one in said:
        observed = one.observed_ms
        if one.edge is None or one.edge.type not in FUNCTIONAL or observed is None:
            continue
        if as_of_ms is None or observed <= as_of_ms:
            times.setdefault((one.edge.source, one.edge.type), {}).setdefault(one.edge, []).append(observed)
    ends: dict[model.Edge, Retired] = {}
    for rivals in times.values():
        for edge, seen in rivals.items():
            later = [
                Retired(min(when for when in others if when > max(seen)), other)
                for other, others in rivals.items()
                if other != edge and max(others) > max(seen)
            ]
            if later:
                ends[edge] = min(later)
    return ends
