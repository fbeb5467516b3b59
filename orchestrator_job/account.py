"""What a run was about, for whoever decides whether it is worth remembering. Pure, and no model is asked.

Category and action are those of seed 001 "Significance Filter". This program answers: its action is `respond`. What
a user asks in a conversation is `advice`; a mail, a ticket, an order or a scheduled task is a `single_task`. The steps
are what the answer rests on beyond the task's own text: the evidence that it cites, and what a person was asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from crds import pendingtask
from kb import writing
from orchestrator_job import memory, pack

ACTION = "respond"
_SHOWN = 500
"""Characters of a cited piece that a step repeats."""


def of(task: memory.TaskMemory, items: Sequence[pack.Item], cited: Collection[int]) -> Mapping[str, Any]:
    """The fields taskCategory, taskAction and stepResults of the stored result."""
    return {
        "taskCategory": category(task.type).value,
        "taskAction": ACTION,
        "stepResults": [*_evidence(items, cited), *_talk(task)],
    }


def category(kind: pendingtask.Type) -> writing.TaskCategory:
    """By the task's type alone."""
    return writing.TaskCategory.ADVICE if kind is pendingtask.Type.USER_INPUT else writing.TaskCategory.SINGLE_TASK


def _evidence(items: Sequence[pack.Item], cited: Collection[int]) -> list[dict[str, str]]:
    """Own text is cited as origin Task or User; what the knowledge base found says where it was found."""
    found = [item for item in items if item.id in cited and item.origin not in ("Task", "User")]
    return [{"action": f"found {item.source}", "result": item.content[:_SHOWN]} for item in found]


def _talk(task: memory.TaskMemory) -> list[dict[str, str]]:
    return [{"action": f"asked the user ({one.id})", "result": one.text} for one in task.answers]
