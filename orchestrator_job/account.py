"""Category, action and steps of a run, from which the knowledge base decides whether to remember it. Pure, no model.

Category and action are those of seed 001 "Significance Filter". This program's action is `respond`. A question in a
conversation is `advice`; a mail, a ticket, an order or a scheduled task is a `single_task`. The steps are what the
answer is based on besides the task's own text: the cited evidence and the user's answers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crds import pendingtask
from kb import api
from orchestrator_job import memory, pack

ACTION = "respond"
_SHOWN = 500
"""Characters of a cited item that a step contains."""


def of(task: memory.TaskMemory, items: Sequence[pack.Item], cited: Collection[int]) -> Mapping[str, Any]:
    """The fields taskCategory, taskAction and stepResults of the stored result."""
    return {
        "taskCategory": category(task.type).value,
        "taskAction": ACTION,
        "stepResults": [*_evidence(items, cited), *_talk(task)],
    }


def category(kind: pendingtask.Type) -> api.TaskCategory:
    """The category; it depends on the task's type only."""
    return api.TaskCategory.ADVICE if kind is pendingtask.Type.USER_INPUT else api.TaskCategory.SINGLE_TASK


def _evidence(items: Sequence[pack.Item], cited: Collection[int]) -> list[dict[str, str]]:
    """The cited items of the knowledge base; those of origin Task or User are the task's own text."""
    found = [item for item in items if item.id in cited and item.origin not in ("Task", "User")]
    return [{"action": f"found {item.source}", "result": item.content[:_SHOWN]} for item in found]


def _talk(task: memory.TaskMemory) -> list[dict[str, str]]:
    return [{"action": f"asked the user ({one.id})", "result": one.text} for one in task.answers]
