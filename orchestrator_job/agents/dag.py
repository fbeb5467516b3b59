"""Which delegations run next, and what each branch is given. Pure; the graph makes the branches.

The groups of the plan run one after another, the delegations of one group side by side or, without
`use_dag_execution`, one after another too. A branch that has ended is never run again; one that waits for a person is
run again once the decision is there.
"""

from __future__ import annotations

from dataclasses import dataclass

from orchestrator_job.store import delegation_progress
from orchestrator_job.store.graph_state import State

PLAN, ASK, EXECUTE, CONSENT, SYNTHESIZE = (
    "plan_delegations",
    "ask_procedure",
    "execute_delegation",
    "consent",
    "synthesize",
)
"""Names of the nodes."""


@dataclass(frozen=True, slots=True)
class Dag:
    """`side_by_side`: the delegations of a group at once."""

    side_by_side: bool

    def next(self, state: State) -> list[State] | str:
        """The states of the branches to run now, each with its `active_delegation_id`; else the node that follows."""
        if (state.get("asked_procedure") or {}).get("round") == state["round"]:
            return ASK
        ids = delegation_progress.ready(state, side_by_side=self.side_by_side)
        if ids:
            return [_branch(state, one) for one in ids]
        return CONSENT if delegation_progress.interrupted(state) else SYNTHESIZE


_FOR_BRANCHES = (
    "schema",
    "round",
    "digest",
    "document",
    "standing",
    "question",
    "asked",
    "pack",
    "execution_plan",
    "intent",
    "delegation_results",
    "response_language",
    "domain",
)
"""What a branch needs of the state: it is stored once more for each of them."""


def _branch(state: State, delegation_id: str) -> State:
    own = {name: value for name, value in state.items() if name in _FOR_BRANCHES}
    branch: State = {**own, "active_delegation_id": delegation_id}  # type: ignore[typeddict-item]  # a part of it
    return branch
