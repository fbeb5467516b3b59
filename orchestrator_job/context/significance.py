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
from orchestrator_job.answer import evidence_pack
from orchestrator_job.context import retention
from orchestrator_job.store import task_memory
from orchestrator_job.store.delegation_models import DelegationStatus

ACTION = "respond"
# Tools as the ledger has them: the names that the sources process gives to effects.
CODE = frozenset(("pushBranch",))
TRACKER = frozenset(("createIssue", "updateIssue", "addComment"))
OTHERS = frozenset(("sendMail", "editPage"))
AT_CONNECTIONS = CODE | TRACKER | OTHERS
_SHOWN = 500
"""Characters of a cited item that a step contains."""
_REPORTED = 2000
"""Characters of what a delegation handed back that a step contains."""
_NAMED = 300


@dataclass(frozen=True, slots=True)
class Delegated:
    """What the delegations of a round were and did. `tasks`: id -> what it was to do; `outputs` as the run stores them;
    `effects`: entries of the ledger that are done; `states`: how each ended, as the state of the graph has it."""

    category: api.TaskCategory
    tasks: Mapping[str, str]
    outputs: Sequence[Mapping[str, Any]]
    effects: Sequence[Mapping[str, Any]]
    states: Mapping[str, Mapping[str, Any]]


def of(
    task: task_memory.TaskMemory,
    items: Sequence[evidence_pack.Item],
    cited: Collection[int],
    delegated: Delegated | None = None,
) -> Mapping[str, Any]:
    """The fields taskCategory, taskAction and stepResults of the stored result."""
    if delegated is None:
        kind, did, steps = category(task.type), ACTION, []
    else:
        kind, did = delegated.category, action(delegated.outputs, delegated.effects)
        reports = _reports(delegated, private=bool(task.on_behalf_of))
        steps = [*reports, *(_effect(one) for one in delegated.effects if happened(one))]
    return {
        "taskCategory": kind.value,
        "taskAction": did,
        "stepResults": [*steps, *_evidence(items, cited), *_talk(task)],
    }


def category(kind: pendingtask.Type) -> api.TaskCategory:
    """The category of a task without delegations; it depends on the task's type only."""
    return api.TaskCategory.ADVICE if kind is pendingtask.Type.USER_INPUT else api.TaskCategory.SINGLE_TASK


def action(outputs: Sequence[Mapping[str, Any]], effects: Sequence[Mapping[str, Any]]) -> str:
    """`code`, `tracker_ops`, or `mixed` where one of them is not all that was done; `respond` where neither was: a mail
    or a page is an answer too. `effects` as in `Delegated`."""
    tools = {str(one["intent"]["tool"]) for one in effects if happened(one)}
    code = bool(tools & CODE) or any(one.get("changedFiles") for one in outputs)
    tracker = bool(tools & TRACKER)
    if code + tracker + bool(tools & OTHERS) > 1:
        return "mixed"
    return "code" if code else "tracker_ops" if tracker else ACTION


def happened(entry: Mapping[str, Any]) -> bool:
    """Whether what an entry of the ledger is about was done: not left out by a person, and not refused."""
    receipt = entry.get("result") or {}
    return not (receipt.get("skipped") or receipt.get("failed"))


def taught(state: Mapping[str, Any], *, private: bool) -> bool:
    """Whether the knowledge base is given what a delegation handed back. `state`: how it ended; `private`: the task is
    done on behalf of a user."""
    done = state.get("status") == DelegationStatus.COMPLETED.value
    doubted = bool(state.get("verify"))
    return retention.decide(
        retention.Made(retention.Level.STEP, done=done, doubted=doubted, alone=True, private=private)
    ).knowledge


def _reports(delegated: Delegated, *, private: bool) -> list[dict[str, str]]:
    """A step for each delegation that handed something back which the knowledge base is given."""
    steps = []
    for one in delegated.outputs:
        name, text = str(one["delegationId"]), str(one.get("result") or "").strip()
        if text and taught(delegated.states.get(name) or {}, private=private):
            asked = " ".join(delegated.tasks.get(name, "").split())[:_NAMED]
            partly = "" if one.get("success") else " (not whole)"
            steps.append({"action": f"{one['agentName']}{partly}: {asked}", "result": text[:_REPORTED]})
    return steps


def _effect(entry: Mapping[str, Any]) -> dict[str, str]:
    intent, receipt = entry["intent"], entry.get("result") or {}
    aims = ", ".join(f"{name} {value}" for name, value in (intent.get("aims") or {}).items())
    return {"action": f"{intent['tool']} {aims}".strip()[:_NAMED], "result": str(receipt.get("text", "done"))[:_SHOWN]}


def _evidence(items: Sequence[evidence_pack.Item], cited: Collection[int]) -> list[dict[str, str]]:
    """The cited items of the knowledge base, not those of the task's own text."""
    found = [item for item in items if item.id in cited and item.origin not in evidence_pack.OWN]
    return [{"action": f"found {item.source}", "result": item.content[:_SHOWN]} for item in found]


def _talk(task: task_memory.TaskMemory) -> list[dict[str, str]]:
    return [{"action": f"asked the user ({one.id})", "result": one.text} for one in task.answers]
