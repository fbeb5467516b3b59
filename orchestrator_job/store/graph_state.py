"""The state of the graph: small, so that a checkpoint is cheap. Large values are in `artifacts` under their hash.

Pure. A change of meaning raises SCHEMA; `rounds` refuses an unknown schema. `tests/orchestrator_job/corpus` has old
checkpoints.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol, TypedDict

from orchestrator_job.store import delegation_progress

SCHEMA = 1
LEGACY, DELEGATION = "legacy", "delegation"
"""The two graphs."""


BRANCHED = frozenset({"steps", "delegation_states", "completed_delegations", "delegation_results"})
"""Keys that several branches of one step write."""


def _most(left: int, right: int) -> int:
    """`max`, which has no signature by which LangGraph would know it as a reducer."""
    return max(left, right)


class State(TypedDict, total=False):
    """A key exists once its node has written it.

    schema, round, digest    the round and the digest of its input (`TaskMemory.digest`)
    steps                    that the task has taken in all of its rounds; `graph` counts them
    document, pack, answer   artifact keys: the task's text, the evidence, the model's validated answer
    standing                 artifact key: rules in force and user context
    question, query          for the model and for the knowledge base; what of a long question fits into 4000 bytes
    asked                    artifact key: the whole question, where `question` is not; else ""
    left_out                 what of the user's own words no prompt of the answer has, a line each
    model                    the model that wrote the answer, where it is not the run's own
    plan                     what `run_plan.dump` gives, a failed plan included; absent in a run that makes none
    trail                    digests of the last actions, for `repetition`
    asked_procedure          {round, pattern}: for which procedure that round asked the user; absent: none did
    lesson                   {round, key}: the artifact of what the round teaches, once it has ended well; {}: nothing
    approval                 a person's decision on this round's answer (`Decided`); empty if no rule requires one
    exit_reason, summary, questions   the outcome of round `finished`

    intent                   what `model.intent.Intent` has: what is wanted, by a model; absent: not said yet
    work                     of the legacy graph, what `goal_paths.Work` has: goals by reference, their steps and ends

    Of delegations, which are the steps of those paths as well (seed 000 "OrchestratorState Fields");
    `delegation_progress` reads and makes them:

    graph                    LEGACY or DELEGATION: which graph the round began on; absent: LEGACY
    execution_plan           what `delegation_progress.planned` gives: artifact key of the ExecutionPlan, groups, agents
    delegation_states        delegation id -> what `delegation_progress.entry` gives
    active_delegation_id     in the state of one branch alone: the delegation that it carries out
    completed_delegations    ids in the order in which they ended, failed ones included
    delegation_results       delegation id -> artifact key of its AgentOutput
    response_language        ISO 639-1
    domain                   a DomainType
    session_memory           artifact key of the list of SessionEntry that intake read
    """

    schema: int
    round: int
    digest: str
    steps: Annotated[int, _most]
    document: str
    standing: str
    question: str
    asked: str
    left_out: list[str]
    query: str
    pack: str
    plan: dict[str, Any]
    answer: str
    model: str
    trail: list[str]
    asked_procedure: dict[str, Any]
    lesson: dict[str, Any]
    approval: dict[str, Any]
    finished: int
    exit_reason: str
    summary: str
    questions: list[dict[str, str]]
    intent: dict[str, Any]
    work: dict[str, Any]
    graph: str
    execution_plan: dict[str, Any]
    delegation_states: Annotated[dict[str, dict[str, Any]], delegation_progress.merged]
    active_delegation_id: str
    completed_delegations: Annotated[list[str], delegation_progress.joined]
    delegation_results: Annotated[dict[str, str], delegation_progress.merged]
    response_language: str
    domain: str
    session_memory: str


class Node(Protocol):
    """One step: reads the state and returns its changes."""

    async def __call__(self, state: State) -> State: ...
