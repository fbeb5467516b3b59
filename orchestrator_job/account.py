"""Category, action and steps of a run, from which the knowledge base decides whether to remember it. Pure, no model.

Category and action are those of seed 001 "Significance Filter". Without delegations the action is `respond`; a question
in a conversation is `advice`, a mail, a ticket, an order or a scheduled task a `single_task`. With delegations the
category is that of the task's text, and the action says what was done outside: files of a repository, issues, or both.

The steps are what the answer is based on besides the task's own text: what delegations handed back and did, the cited
evidence, and the user's answers. They are what a model learns decisions and solutions from.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds import pendingtask
from kb import api
from orchestrator_job import memory, pack

ACTION = "respond"
# Tools as the ledger has them: the names that the sources process gives to effects.
CODE = frozenset(("pushBranch",))
TRACKER = frozenset(("createIssue", "updateIssue", "addComment"))
OTHERS = frozenset(("sendMail", "editPage"))
_SHOWN = 500
"""Characters of a cited item that a step contains."""
_REPORTED = 2000
"""Characters of what a delegation handed back that a step contains."""
_NAMED = 300


@dataclass(frozen=True, slots=True)
class Delegated:
    """What the delegations of a round were and did. `tasks`: id -> what it was to do; `outputs` as the run stores them;
    `effects`: entries of the ledger that are done."""

    category: api.TaskCategory
    tasks: Mapping[str, str]
    outputs: Sequence[Mapping[str, Any]]
    effects: Sequence[Mapping[str, Any]]


def of(
    task: memory.TaskMemory, items: Sequence[pack.Item], cited: Collection[int], delegated: Delegated | None = None
) -> Mapping[str, Any]:
    """The fields taskCategory, taskAction and stepResults of the stored result."""
    if delegated is None:
        kind, action, steps = category(task.type), ACTION, []
    else:
        done = [one for one in delegated.effects if _happened(one)]
        kind, action = delegated.category, _action(delegated.outputs, done)
        steps = [*_reports(delegated), *map(_effect, done)]
    return {
        "taskCategory": kind.value,
        "taskAction": action,
        "stepResults": [*steps, *_evidence(items, cited), *_talk(task)],
    }


def category(kind: pendingtask.Type) -> api.TaskCategory:
    """The category of a task without delegations; it depends on the task's type only."""
    return api.TaskCategory.ADVICE if kind is pendingtask.Type.USER_INPUT else api.TaskCategory.SINGLE_TASK


def _action(outputs: Sequence[Mapping[str, Any]], done: Sequence[Mapping[str, Any]]) -> str:
    """`code`, `tracker_ops`, or `mixed` where one of them is not all that was done; `respond` where neither was: a mail
    or a page is an answer too."""
    tools = {str(one["intent"]["tool"]) for one in done}
    code = bool(tools & CODE) or any(one.get("changedFiles") for one in outputs)
    tracker = bool(tools & TRACKER)
    if code + tracker + bool(tools & OTHERS) > 1:
        return "mixed"
    return "code" if code else "tracker_ops" if tracker else ACTION


def _happened(entry: Mapping[str, Any]) -> bool:
    receipt = entry.get("result") or {}
    return not (receipt.get("skipped") or receipt.get("failed"))


def _reports(delegated: Delegated) -> list[dict[str, str]]:
    """A step for each delegation that handed something back."""
    steps = []
    for one in delegated.outputs:
        text = str(one.get("result") or "").strip()
        if text:
            asked = " ".join(delegated.tasks.get(str(one["delegationId"]), "").split())[:_NAMED]
            failed = "" if one.get("success") else " (not done, or not whole)"
            steps.append({"action": f"{one['agentName']}{failed}: {asked}", "result": text[:_REPORTED]})
    return steps


def _effect(entry: Mapping[str, Any]) -> dict[str, str]:
    intent, receipt = entry["intent"], entry.get("result") or {}
    aims = ", ".join(f"{name} {value}" for name, value in (intent.get("aims") or {}).items())
    return {"action": f"{intent['tool']} {aims}".strip()[:_NAMED], "result": str(receipt.get("text", "done"))[:_SHOWN]}


def _evidence(items: Sequence[pack.Item], cited: Collection[int]) -> list[dict[str, str]]:
    """The cited items of the knowledge base; those of origin Task or User are the task's own text."""
    found = [item for item in items if item.id in cited and item.origin not in ("Task", "User")]
    return [{"action": f"found {item.source}", "result": item.content[:_SHOWN]} for item in found]


def _talk(task: memory.TaskMemory) -> list[dict[str, str]]:
    return [{"action": f"asked the user ({one.id})", "result": one.text} for one in task.answers]
