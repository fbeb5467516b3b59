"""Which facts a newer one has retired. Pure.

A relationship is functional when its subject can have only one target at a time: an issue has one assignee, a task one
status. Then, and only then, a newer target retires the older one, and only for the same subject (kb page, trap 10).
A fact without a time neither retires nor is retired; nothing is ever deleted, so that the past can be asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kb.graph import model

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


def retired(said: Iterable[model.Said], *, as_of_ms: int | None = None) -> Mapping[model.Edge, int]:
    """Edge -> the millisecond in which another target took its place, for those that are no longer so.

    `said`: the proofs of all edges of the subjects in question. With `as_of_ms` later proofs are not known yet.
    """
    times: dict[tuple[str, str], dict[model.Edge, list[int]]] = {}
    for one in said:
        observed = one.document.observed_ms
        if one.edge is None or one.edge.type not in FUNCTIONAL or observed is None:
            continue
        if as_of_ms is None or observed <= as_of_ms:
            times.setdefault((one.edge.source, one.edge.type), {}).setdefault(one.edge, []).append(observed)
    ends: dict[model.Edge, int] = {}
    for rivals in times.values():
        for edge, seen in rivals.items():
            later = [
                min(when for when in others if when > max(seen))
                for other, others in rivals.items()
                if other != edge and max(others) > max(seen)
            ]
            if later:
                ends[edge] = min(later)
    return ends
