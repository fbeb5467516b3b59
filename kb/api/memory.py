"""The memories: of the last days, of a task, of procedures."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, JsonValue, StringConstraints

from contracts.api import message
from crds import scope
from kb.api.words import Name, Text

SUMMARY_CHARS = 200
"""Longest summary of a session entry (seed 001 "SessionEntry")."""


class SessionDraft(message.Request):
    """Something to remember for a week. `id` makes a repeated call harmless."""

    scope: scope.Scope
    source: Literal["chat", "background", "orchestrator_decision"]
    summary: Annotated[Text, StringConstraints(max_length=SUMMARY_CHARS)]
    details: dict[str, JsonValue] | None = None
    task_id: Annotated[str, StringConstraints(max_length=253)] | None = None
    id: Annotated[str, StringConstraints(min_length=1, max_length=253)] | None = None


class SessionEntry(message.Reply):
    """What was remembered, and when."""

    id: str
    timestamp: AwareDatetime
    source: str
    summary: str
    details: dict[str, Any] | None = None
    task_id: str | None = None


class Session(message.Reply):
    """The entries of a client and project, or of a group, newest first."""

    entries: list[SessionEntry]


class TaskMemory(message.Reply):
    """What one task knows: what qualification found, and how it was routed (seed 000 "TaskMemory")."""

    task_uid: str
    correlation_id: str = ""
    title: str = ""
    type: str = ""
    source_urn: str | None = None
    source_type: str | None = None
    source_id: str | None = None
    context_summary: str | None = None
    graph_node_keys: list[str] = Field(default_factory=list)
    rag_document_ids: list[str] = Field(default_factory=list)
    structured_data: dict[str, Any] = Field(default_factory=dict)
    routing_decision: str | None = None
    routing_reason: str | None = None
    updated_at: AwareDatetime | None = None


class TaskMemories(message.Reply):
    """The tasks of one conversation or import, in the order of their uids."""

    tasks: list[TaskMemory]


class Findings(message.Request):
    """What else a run found out about its task; merged into `structuredData`."""

    scope: scope.Scope
    structured_data: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")], JsonValue] = (
        Field(min_length=1, max_length=100)
    )


class Step(message.Request):
    """One step of a procedure: which agent does what, with which parameters (seed 000 "ProcedureStep")."""

    agent: Name
    action: Annotated[Text, StringConstraints(max_length=2000)]
    parameters: dict[Annotated[str, StringConstraints(min_length=1, max_length=100)], JsonValue] = Field(
        default_factory=dict, max_length=20
    )


class ProcedureDraft(message.Request):
    """How tasks of a pattern are done. A user's definition comes before, and is never replaced by, a learned one."""

    client_id: str = Field(pattern=scope.IDENTIFIER)
    trigger_pattern: Name
    procedure_steps: list[Step] = Field(min_length=1, max_length=50)
    source: Literal["learned", "user_defined"] = "learned"


class Procedure(message.Reply):
    """`score` orders: user-defined first, then success, decaying with disuse. `successRate` is 0 to 1."""

    id: str
    client_id: str
    trigger_pattern: str
    procedure_steps: list[dict[str, Any]]
    success_rate: float
    last_used: AwareDatetime | None = None
    usage_count: int
    source: str
    score: float


class Procedures(message.Reply):
    """Best first."""

    procedures: list[Procedure]


class Use(message.Request):
    """A procedure was followed and did, or did not, lead to success."""

    client_id: str = Field(pattern=scope.IDENTIFIER)
    id: Name
    succeeded: bool
