"""What agents and the orchestrator hand to each other. Pure.

Source: seed 000 "Multi-Agent Delegation System Data Models"; names and meaning of fields are those there. On the wire
and in MongoDB they are camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StringConstraints, model_validator
from pydantic.alias_generators import to_camel

from crds import access

MAX_DEPTH = 4
"""Levels of sub-delegation below the orchestrator, which is at depth 0."""
_Id = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[A-Za-z0-9._-]+$")]
_Share = Annotated[float, Field(ge=0, le=1)]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class DomainType(StrEnum):
    """What a problem is about; agents name the domains that they are for."""

    CODE = "CODE"
    DEVOPS = "DEVOPS"
    PROJECT_MANAGEMENT = "PROJECT_MANAGEMENT"
    COMMUNICATION = "COMMUNICATION"
    LEGAL = "LEGAL"
    FINANCIAL = "FINANCIAL"
    ADMINISTRATIVE = "ADMINISTRATIVE"
    PERSONAL = "PERSONAL"
    SECURITY = "SECURITY"
    RESEARCH = "RESEARCH"
    LEARNING = "LEARNING"


class DelegationStatus(StrEnum):
    """INTERRUPTED: it waits for a person, or its run was stopped, and goes on where it was."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    INTERRUPTED = "INTERRUPTED"


class DelegationMessage(_Model):
    """What a parent asks of an agent. `depth` 0 is the orchestrator, 1 to 4 are agents; `context` is trimmed to the
    budget of the agent; `response_language` is ISO 639-1; `readers` may read what the parent had read."""

    delegation_id: _Id
    parent_delegation_id: _Id | None = None
    depth: Annotated[int, Field(ge=0, le=MAX_DEPTH)]
    agent_name: Annotated[str, Field(min_length=1, max_length=60)]
    task_summary: Annotated[str, Field(min_length=1)]
    context: str = ""
    constraints: tuple[str, ...] = ()
    expected_output: str = ""
    response_language: Annotated[str, StringConstraints(pattern=r"^[a-z]{2}$")] = "en"
    client_id: str
    project_id: str | None = None
    group_id: str | None = None
    readers: access.Access = access.UNKNOWN


class AgentOutput(_Model):
    """What an agent hands back. `result` is complete, never cut; `artifacts` are keys of stored content or names of
    what was made outside. `readers` may read all that the agent has read."""

    delegation_id: _Id
    agent_name: str
    success: bool
    result: str
    structured_data: dict[str, JsonValue] = Field(default_factory=dict)
    artifacts: tuple[str, ...] = ()
    changed_files: tuple[str, ...] = ()
    sub_delegations: tuple[str, ...] = ()
    confidence: _Share
    needs_verification: bool
    readers: access.Access = access.UNKNOWN


class ExecutionPlan(_Model):
    """Delegations, and in which order they run: the groups one after another, those of one group side by side. Every
    delegation is in one group, once."""

    delegations: tuple[DelegationMessage, ...]
    parallel_groups: tuple[tuple[str, ...], ...]
    domain: DomainType

    @model_validator(mode="after")
    def _each_once(self) -> ExecutionPlan:
        ids = [one.delegation_id for one in self.delegations]
        grouped = [name for group in self.parallel_groups for name in group]
        if sorted(ids) != sorted(set(ids)) or sorted(grouped) != sorted(ids):
            raise ValueError("parallel_groups must hold every delegation_id of delegations, each once")
        return self

    def message(self, delegation_id: str) -> DelegationMessage:
        """The delegation of that id. Raises KeyError."""
        return self._by_id()[delegation_id]

    def _by_id(self) -> Mapping[str, DelegationMessage]:
        return {one.delegation_id: one for one in self.delegations}


class SessionSource(StrEnum):
    """Who wrote an entry of the session memory."""

    CHAT = "chat"
    BACKGROUND = "background"
    ORCHESTRATOR_DECISION = "orchestrator_decision"


class SessionEntry(_Model):
    """One entry of the session memory of a scope. `timestamp` is RFC 3339 in UTC."""

    timestamp: str
    source: SessionSource
    summary: Annotated[str, Field(max_length=200)]
    details: dict[str, JsonValue] | None = None
    task_id: str | None = None


class ProcedureStep(_Model):
    """One step of a procedure: which agent does what, with which parameters."""

    agent: str
    action: str
    parameters: dict[str, JsonValue] = Field(default_factory=dict)


class ProcedureNode(_Model):
    """How tasks of a pattern are done for a client. `source` is "learned" or "user_defined"; `success_rate` 0 to 1."""

    trigger_pattern: str
    procedure_steps: tuple[ProcedureStep, ...]
    success_rate: _Share = 0.0
    last_used: str | None = None
    usage_count: Annotated[int, Field(ge=0)] = 0
    source: Annotated[str, StringConstraints(pattern=r"^(learned|user_defined)$")] = "learned"
    client_id: str


class AgentCapability(_Model):
    """What an agent can do. `max_depth`: the deepest level at which it may be given work."""

    name: str
    description: str
    domains: tuple[DomainType, ...]
    can_sub_delegate: bool = False
    max_depth: Annotated[int, Field(ge=1, le=MAX_DEPTH)] = MAX_DEPTH
    tool_names: tuple[str, ...] = ()


class DelegationMetrics(_Model):
    """What a delegation took. Times are RFC 3339 in UTC; a sub-delegation's tokens and calls count in its own."""

    delegation_id: _Id
    agent_name: str
    start_time: str | None = None
    end_time: str | None = None
    token_count: Annotated[int, Field(ge=0)] = 0
    llm_calls: Annotated[int, Field(ge=0)] = 0
    sub_delegation_count: Annotated[int, Field(ge=0)] = 0
    success: bool = False


def dump(model: _Model) -> dict[str, Any]:
    """As JSON for a state, an artifact or MongoDB."""
    return model.model_dump(mode="json", by_alias=True)
