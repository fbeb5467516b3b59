"""Procedures: how tasks of a pattern are done for a client, looked up before a plan is made (seed 001 "Procedural
Memory"). Pure; `procedure_store` looks them up.

What a user defined is followed as it stands, without a model. What was learned from earlier tasks is shown to the model
that plans, as data. A run learns the sequence of agents alone: the words of a plan were a model's, which had read mails
and pages, and are of one project, where a procedure is of the whole client.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crds import pendingtask
from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.effects import trigger_words
from orchestrator_job.model import excerpt
from orchestrator_job.plan import execution_plan
from orchestrator_job.store import delegation_models, task_memory

_QUESTION = 500
"""Bytes that a step always has for the question; the context of its delegation has more of it."""
_LIMITS = 8000
"""Bytes of a step's parameters in a prompt, all of them together."""
_LEARNED_SHOWN = 3
_SEEN = 100_000
"""Characters of a text that are looked at."""
_TYPES = {
    pendingtask.Type.EMAIL: "email",
    pendingtask.Type.WIKI: "wiki",
    pendingtask.Type.BUG_TRACKER: "issue",
    pendingtask.Type.GIT: "git",
    pendingtask.Type.USER_INPUT: "chat",
    pendingtask.Type.USER_TASK: "order",
    pendingtask.Type.SCHEDULED: "scheduled",
    pendingtask.Type.LINK: "link",
    pendingtask.Type.MEETING: "meeting",
}


@dataclass(frozen=True, slots=True)
class Found:
    """`own` is followed; `learned` are shown. Both may be empty. `every` are all of the client; None: not known."""

    own: api.Procedure | None = None
    learned: tuple[api.Procedure, ...] = ()
    every: tuple[api.Procedure, ...] | None = None


def chosen(every: Iterable[api.Procedure], of_task: trigger_words.Words) -> Found:
    """The user's own procedure whose trigger says most about the task, and the best of the learned ones."""
    fitting = [one for one in every if trigger_words.fits(one.trigger_pattern, of_task)]
    fitting.sort(key=lambda one: (-len(trigger_words.tokens(one.trigger_pattern)), -one.score, one.id))
    own = [one for one in fitting if one.source == "user_defined"]
    learned = [one for one in fitting if one.source != "user_defined" and (one.success_rate > 0 or not one.usage_count)]
    return Found(own[0] if own else None, tuple(learned[:_LEARNED_SHOWN]))


def words(task: task_memory.TaskMemory, text: str) -> trigger_words.Words:
    """The words of a task that a trigger may name: those of its facets, title and text."""
    said = [*facets(task, text), task.title, text, *(str(tag) for tag in _tags(task))]
    return trigger_words.Words(word for part in said for word in trigger_words.tokens(part))


def trigger(task: task_memory.TaskMemory, text: str) -> str:
    """The trigger of what is learned from this task, such as `email_deadline_question`."""
    return "_".join(facets(task, text))


def facets(task: task_memory.TaskMemory, text: str) -> tuple[str, ...]:
    """What the task is by words that triggers of procedures are made of: where it came from, `bug_report`, `deadline`,
    `question`; in this order."""
    found = [_TYPES[task.type]]
    if task.type is pendingtask.Type.BUG_TRACKER:
        found.append("bug_report")
    if task.structured_data.get("deadline"):
        found.append("deadline")
    if _asks(excerpt.edges(text, _SEEN)):
        found.append("question")
    return tuple(found)


def _asks(text: str) -> bool:
    """Whether it has a question mark, of whatever script (Unicode's names of characters)."""
    return any("QUESTION MARK" in unicodedata.name(sign, "") for sign in set(text) if not sign.isalnum())


def drafts(procedure: api.Procedure, agents: registry.Registry, question: str) -> list[execution_plan.Wanted]:
    """The steps as delegations, one after another. An agent that does not exist, or that rules leave no tool, is
    replaced by the LegacyAgent. What a user defined is whole; the question has the rest of
    `execution_plan.WORDS` bytes, and parameters that are long together are shortened, each with a line that says so."""
    made = []
    for number, raw in enumerate(procedure.procedure_steps, start=1):
        step = delegation_models.ProcedureStep.model_validate(raw)
        try:
            name = agents.agent(step.agent).name
        except KeyError:
            name = agents.legacy.name
        head = f"{step.action}\nThis is a step of the procedure {procedure.trigger_pattern!r} for: "
        summary = head + excerpt.ends(question, max(_QUESTION, execution_plan.WORDS - excerpt.size(head)))
        made.append(
            execution_plan.Wanted(
                agent=name,
                task=summary,
                constraints=_limits(step.parameters),
                depends_on=(number - 1,) if number > 1 else (),
            )
        )
    return made


def _limits(parameters: Mapping[str, Any]) -> tuple[str, ...]:
    lines = [f"{key}: {value}" for key, value in parameters.items()]
    if sum(map(excerpt.size, lines)) <= _LIMITS:
        return tuple(lines)
    most = max(_LIMITS // len(lines), 100)
    return tuple(excerpt.ends(line, most) for line in lines)


def learned(
    task: task_memory.TaskMemory, text: str, plan: delegation_models.ExecutionPlan, agents: registry.Registry
) -> api.ProcedureDraft:
    """What a task that was done teaches: which agents, one after another, for tasks of its facets."""
    ordered = [plan.message(one).agent_name for group in plan.parallel_groups for one in group]
    described = [(name, agents.agent(name).capability.description) for name in ordered]
    return api.ProcedureDraft(
        client_id=task.scope.client_id,
        trigger_pattern=trigger(task, text),
        procedure_steps=[api.Step(agent=name, action=description) for name, description in described],
        source="learned",
    )


def shown(learned: Sequence[api.Procedure]) -> str:
    """Learned procedures as lines."""
    lines = []
    for one in learned:
        steps = " -> ".join(f"{step.get('agent', '')}: {step.get('action', '')}" for step in one.procedure_steps)
        lines.append(f"{one.trigger_pattern} ({one.usage_count} times, {one.success_rate:.0%} well): {steps}")
    return "\n".join(lines)


def _tags(task: task_memory.TaskMemory) -> Sequence[object]:
    tags = task.structured_data.get("tags")
    return tags if isinstance(tags, list | tuple) else [tags] if tags else []
