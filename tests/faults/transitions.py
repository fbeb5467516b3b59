"""Can the step from one version of a status to the next be explained by the table of transitions? Pure.

One write may pass several phases at once; `phaseTimes` names those that were passed. Times are whole seconds, so a
phase that was entered twice within one second looks as if it had not been entered again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controllers.pendingtask import phases
from crds.phases import Phase

Status = Mapping[str, Any]


def phase(status: Status) -> Phase:
    """A task without a phase is New."""
    return Phase(status.get("phase", Phase.NEW))


def entered(before: Status, after: Status) -> frozenset[Phase]:
    """Phases whose time is another one than before."""
    old, new = before.get("phaseTimes") or {}, after.get("phaseTimes") or {}
    return frozenset(Phase(key) for key, time in new.items() if old.get(key) != time)


def objection(before: Status, after: Status) -> str | None:
    """Why the table forbids this step; None when it is explained."""
    source, target, passed = phase(before), phase(after), entered(before, after)
    if source is target and not passed:
        return None
    times = after.get("phaseTimes") or {}
    if times.get(target) is None:
        return f"{source} -> {target} without a time for {target}"
    # What may have been entered again within the very second of this write.
    between = passed | {Phase(key) for key, time in times.items() if time == times[target]}
    qualified = before.get("route") is not None
    forward = _reach(source, between, qualified, backwards=False)
    backward = _reach(target, between | {source}, qualified, backwards=True) | {target}
    if target not in forward:
        return f"{source} -> {target} is not a way through {', '.join(sorted(between)) or 'nothing'}"
    lost = passed - (forward & backward)
    return f"{source} -> {target} cannot have passed {', '.join(sorted(lost))}" if lost else None


def _reach(start: Phase, allowed: frozenset[Phase] | set[Phase], qualified: bool, *, backwards: bool) -> set[Phase]:
    """Phases within `allowed` that one or more permitted steps lead to (or from)."""
    found: set[Phase] = set()
    todo = [start]
    while todo:
        here = todo.pop()
        for other in allowed - found:
            step = (other, here) if backwards else (here, other)
            if phases.permitted(*step, qualified=qualified):
                found.add(other)
                todo.append(other)
    return found
