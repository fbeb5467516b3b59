"""Which tasks are remembered. The table of seed 001 "Significance Filter", and no model. Pure."""

from __future__ import annotations

from kb import api


def judge(task: api.Outcome) -> tuple[bool, str]:
    """Whether the task is worth remembering, and the line of the table that says so."""
    category, action = task.task_category, task.task_action
    if task.error:
        return False, "the task ended with an error"
    if not task.final_result.strip():
        return False, "the task has no final result"
    if category is api.TaskCategory.ADVICE:
        return False, "advice is a simple question and answer"
    if category in (api.TaskCategory.EPIC, api.TaskCategory.GENERATIVE):
        return True, f"every {category.value} task is remembered"
    if action == "respond" and not task.step_results:
        return False, "a response without any step"
    return True, f"single task with action {action}"
