"""From an archived task to the outcome that is reported to the knowledge base. Pure.

Source: seed 001 "Task Outcome Ingestion".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pydantic
from pydantic.alias_generators import to_camel

from crds import labels, scope
from crds.phases import Phase
from kb import api

ENDS = (Phase.COMPLETED.value, Phase.ERROR.value)
"""Phases in which a run ends. A task in Done has not run: the knowledge base needs only its content."""
_CATEGORY, _ACTION = "single_task", "respond"
"""Defaults for a run without these fields."""
_TITLE, _QUESTION, _RESULT, _ERROR, _STEPS = 1000, 20_000, 100_000, 20_000, 200
_STEP_ACTION, _STEP_RESULT = 500, 20_000


class UnfitError(ValueError):
    """The knowledge base's API does not accept the outcome of this task because of `field`."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


def of(document: Mapping[str, Any]) -> api.Outcome | None:
    """`document` is from `task_archive`; None where it is `private` or has never run. Raises `UnfitError`."""
    raw = document["object"]
    if private(document):
        return None
    spec, status, meta = raw["spec"], raw.get("status") or {}, raw["metadata"]
    if document["phase"] not in ENDS or not status.get("attempt"):
        return None
    found: Mapping[str, Any] = document.get("result") or {}
    summary = str((status.get("result") or {}).get("summary") or "")
    failed = document["phase"] == Phase.ERROR.value
    completed = document["completedAt"]
    try:
        return api.Outcome(
            scope=scope.Scope(
                client_id=spec["clientId"], project_id=spec.get("projectId", ""), group_id=spec.get("groupId", "")
            ),
            task_id=document["_id"],
            task_category=api.TaskCategory(found.get("taskCategory") or _CATEGORY),
            task_action=found.get("taskAction") or _ACTION,
            title=str((meta.get("annotations") or {}).get(labels.TITLE) or meta["name"])[:_TITLE],
            question=str(found.get("question") or "")[:_QUESTION],
            final_result=str(found.get("answer") or summary)[:_RESULT],
            step_results=[_step(one) for one in (found.get("stepResults") or ())[:_STEPS]],
            error=(summary or "The task ended in an error.")[:_ERROR] if failed else None,
            finished_at=completed if isinstance(completed, datetime) else None,
        )
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UnfitError(".".join(to_camel(str(part)) for part in first["loc"]), first["msg"]) from error
    except ValueError as error:
        raise UnfitError("taskCategory", str(error)) from error


def private(document: Mapping[str, Any]) -> bool:
    """Whether the run read on behalf of a user: an outcome is found by all that see the scope, and the result may hold
    what they may not see."""
    return bool(document["object"]["spec"].get("onBehalfOf"))


def _step(found: Mapping[str, Any]) -> api.StepResult:
    return api.StepResult(
        action=str(found.get("action") or "")[:_STEP_ACTION], result=str(found.get("result") or "")[:_STEP_RESULT]
    )
