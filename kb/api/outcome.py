"""What a task that ended leaves behind."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from contracts.api import message
from crds import scope
from kb.api.words import Name


class TaskCategory(StrEnum):
    """Seed 001 "Significance Filter"."""

    SINGLE_TASK = "single_task"
    EPIC = "epic"
    GENERATIVE = "generative"
    ADVICE = "advice"


class StepResult(message.Request):
    """What one step of the task did."""

    action: Annotated[str, StringConstraints(max_length=500)] = ""
    result: Annotated[str, StringConstraints(max_length=20_000)] = ""


class Outcome(message.Request):
    """A task that ended. Whether it is remembered is decided by a table, not by a model."""

    scope: scope.Scope
    task_id: Name
    task_category: TaskCategory
    task_action: Literal["respond", "code", "tracker_ops", "mixed"]
    title: Annotated[str, StringConstraints(max_length=1000)] = ""
    question: Annotated[str, StringConstraints(max_length=20_000)] = ""
    final_result: Annotated[str, StringConstraints(max_length=100_000)] = ""
    step_results: list[StepResult] = Field(default_factory=list, max_length=200)
    error: Annotated[str, StringConstraints(max_length=20_000)] | None = None
    finished_at: AwareDatetime | None = None


class OutcomeReply(message.Reply):
    """`remembered` is false when the table says that the task is not worth it; `reason` says which line of it."""

    remembered: bool
    reason: str
    source_urn: str | None = None
    chunk_ids: list[str] = Field(default_factory=list)
