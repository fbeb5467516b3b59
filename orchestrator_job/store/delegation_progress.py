"""Where the delegations of a round stand, as the state of the graph has it, and what comes next. Pure.

Ids of delegations are `r<round>.d<number>`; a sub-delegation is `<parent>.<number>`. Branches of one group write their
own entries side by side; `merged` and `joined` put them together. An entry of a later round drops those before it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from orchestrator_job.store import delegation_models
from orchestrator_job.store.delegation_models import DelegationStatus

V = TypeVar("V")

_ROUND = re.compile(r"r(\d+)\.")
_ENDED = frozenset({DelegationStatus.COMPLETED, DelegationStatus.FAILED})


def round_of(delegation_id: str) -> int:
    """The round that the id belongs to. Raises ValueError for another form."""
    found = _ROUND.match(delegation_id)
    if found is None:
        raise ValueError(f"{delegation_id!r} is no id of a delegation")
    return int(found[1])


def delegation_id(round_number: int, number: int) -> str:
    """The id of a delegation of the plan; numbers begin with 1."""
    return f"r{round_number}.d{number}"


def planned(plan: delegation_models.ExecutionPlan, key: str) -> dict[str, Any]:
    """The state's `execution_plan`: `key` is the artifact that holds the plan itself, contexts included."""
    return {
        "key": key,
        "domain": plan.domain.value,
        "groups": [list(group) for group in plan.parallel_groups],
        "agents": {one.delegation_id: one.agent_name for one in plan.delegations},
    }


def entry(status: DelegationStatus, agent: str, *, request: str | None = None, verify: bool = False) -> dict[str, Any]:
    """A value of `delegation_states`. `request`: artifact key of all that a person has to decide; `verify`: what it
    handed back has to be checked."""
    more: dict[str, Any] = {"request": request} if request is not None else {}
    return {"status": status.value, "agent": agent, **more, **({"verify": True} if verify else {})}


def merged(left: Mapping[str, V], right: Mapping[str, V]) -> dict[str, V]:
    """What two branches wrote; a later write of one key counts."""
    return {**{key: value for key, value in left.items() if _of_latest(key, right)}, **right}


def joined(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """Ids that ended, each once."""
    return list(dict.fromkeys([*(one for one in left if _of_latest(one, right)), *right]))


def ready(state: Mapping[str, Any], *, side_by_side: bool) -> list[str]:
    """The delegations to carry out now: of the first group that has not ended those that wait for nothing, or only the
    first of them."""
    states = state.get("delegation_states") or {}
    for group in _groups(state):
        waiting = [one for one in group if _status(states, one) is DelegationStatus.INTERRUPTED]
        open_ones = [one for one in group if _status(states, one) not in _ENDED and one not in waiting]
        if open_ones:
            return open_ones if side_by_side else open_ones[:1]
        if waiting:
            return []
    return []


def interrupted(state: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The delegations that wait for a person, in the order of the plan, and the artifact keys of their requests."""
    states = state.get("delegation_states") or {}
    return [
        (one, str(states[one]["request"]))
        for group in _groups(state)
        for one in group
        if _status(states, one) is DelegationStatus.INTERRUPTED
    ]


def _groups(state: Mapping[str, Any]) -> Sequence[Sequence[str]]:
    groups: Sequence[Sequence[str]] = (state.get("execution_plan") or {}).get("groups", ())
    return groups


def _status(states: Mapping[str, Mapping[str, Any]], one: str) -> DelegationStatus:
    return DelegationStatus(states[one]["status"]) if one in states else DelegationStatus.PENDING


def _of_latest(key: str, later: Mapping[str, Any] | Sequence[str]) -> bool:
    return all(round_of(one) <= round_of(key) for one in later)
