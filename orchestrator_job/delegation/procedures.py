"""Procedures: how tasks of a pattern are done for a client, looked up before a plan is made (seed 001 "Procedural
Memory"). Pure, but for the look-up.

What a user defined is followed as it stands, without a model. What was learned from earlier tasks is shown to the model
that plans, as data. A run learns the sequence of agents alone: the words of a plan were a model's, which had read mails
and pages, and are of one project, where a procedure is of the whole client.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import JsonValue

from crds import scope
from kb import api
from kb import client as kb_client
from orchestrator_job import artifacts, excerpt, ledger, memory, outcome
from orchestrator_job.delegation import category, models, plans, registry

_log = structlog.get_logger("orchestrator_job.delegation.procedures")

_LOOKED_AT = 200
_QUESTION = 500
"""Bytes that a step always has for the question; the context of its delegation has more of it."""
_LIMITS = 8000
"""Bytes of a step's parameters in a prompt, all of them together."""
_LEARNED_SHOWN = 3
_PREFIX = 4
"""Letters that two forms of a word have in common at least: "completion", "completed"."""
_TOKEN = re.compile(r"[^\W_]+")
_FILLERS = frozenset(("with", "of", "a", "an", "the", "for", "and", "to", "s", "is", "task", "request"))


@dataclass(frozen=True, slots=True)
class Found:
    """`own` is followed; `learned` are shown. Both may be empty. `every` are all of the client; None: not known."""

    own: api.Procedure | None = None
    learned: tuple[api.Procedure, ...] = ()
    every: tuple[api.Procedure, ...] | None = None


async def look_up(kb: kb_client.Client, viewer: scope.Scope, task: memory.TaskMemory, text: str) -> Found:
    """The procedures that fit the task. None where the client has none, or the knowledge base is away: a plan can be
    made without."""
    if viewer.is_global:
        return Found()
    try:
        every = await kb.memory.procedures(viewer.client_id, limit=_LOOKED_AT, viewer=viewer)
    except (kb_client.Unavailable, kb_client.Rejected) as error:
        outcome.recheck(error)
        _log.warning("planning without procedures", reason=error.message)
        return Found()
    return replace(chosen(every, words(task, text)), every=tuple(every))


def chosen(every: Iterable[api.Procedure], of_task: Words) -> Found:
    """The user's own procedure whose trigger says most about the task, and the best of the learned ones."""
    fitting = [one for one in every if fits(one.trigger_pattern, of_task)]
    fitting.sort(key=lambda one: (-len(tokens(one.trigger_pattern)), -one.score, one.id))
    own = [one for one in fitting if one.source == "user_defined"]
    learned = [one for one in fitting if one.source != "user_defined" and (one.success_rate > 0 or not one.usage_count)]
    return Found(own[0] if own else None, tuple(learned[:_LEARNED_SHOWN]))


class Words:
    """The words of a task, by the letters that two forms of one have in common: a trigger's word is compared with a
    few of them, however long the text is."""

    def __init__(self, found: Iterable[str]) -> None:
        self._by_beginning: dict[str, list[str]] = {}
        for word in frozenset(found):
            self._by_beginning.setdefault(word[:_PREFIX], []).append(word)

    def has(self, wanted: str) -> bool:
        """Whether one of them is a form of `wanted`."""
        beginnings = {wanted[:_PREFIX]}
        if len(wanted) <= _PREFIX:
            # Of a shorter word the other form has an "s" more, or less.
            beginnings |= {f"{wanted}s", wanted[:-1]}
        return any(_same(wanted, word) for one in beginnings for word in self._by_beginning.get(one, ()))


def words(task: memory.TaskMemory, text: str) -> Words:
    """The words of a task that a trigger may name: those of its facets, title and text."""
    said = [*category.facets(task, text), task.title, text, *(str(tag) for tag in _tags(task))]
    return Words(word for part in said for word in tokens(part))


def fits(trigger: str, of_task: Words) -> bool:
    """Whether the task has every word of the trigger, in any form."""
    wanted = tokens(trigger)
    return bool(wanted) and all(of_task.has(one) for one in wanted)


def shares(trigger: str, words: Iterable[str]) -> bool:
    """Whether the trigger has one of these words, in any form."""
    own = tokens(trigger)
    return any(_same(one, word) for one in own for word in words)


def trigger(task: memory.TaskMemory, text: str) -> str:
    """The trigger of what is learned from this task, such as `email_deadline_question`."""
    return "_".join(category.facets(task, text))


def drafts(procedure: api.Procedure, agents: registry.Registry, question: str) -> list[plans.Wanted]:
    """The steps as delegations, one after another. An agent that does not exist, or that rules leave no tool, is
    replaced by the LegacyAgent. What a user defined is whole; the question has the rest of `plans.WORDS` bytes, and
    parameters that are long together are shortened, each with a line that says so."""
    made = []
    for number, raw in enumerate(procedure.procedure_steps, start=1):
        step = models.ProcedureStep.model_validate(raw)
        try:
            name = agents.agent(step.agent).name
        except KeyError:
            name = agents.legacy.name
        head = f"{step.action}\nThis is a step of the procedure {procedure.trigger_pattern!r} for: "
        summary = head + excerpt.ends(question, max(_QUESTION, plans.WORDS - excerpt.size(head)))
        made.append(
            plans.Wanted(
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
    task: memory.TaskMemory, text: str, plan: models.ExecutionPlan, agents: registry.Registry
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


async def written(
    store: artifacts.Artifacts, round_number: int, lesson: api.Use | api.ProcedureDraft
) -> dict[str, JsonValue]:
    """The state's `lesson`."""
    kind = "use" if isinstance(lesson, api.Use) else "draft"
    key = await store.put({kind: lesson.model_dump(mode="json", by_alias=True)}, round_number)
    return {"round": round_number, "key": key}


class Learning:
    """Learns what a round teaches, once it has ended."""

    def __init__(
        self, kb: kb_client.Client, viewer: scope.Scope, store: artifacts.Artifacts, book: ledger.Ledger
    ) -> None:
        self._kb = kb
        self._viewer = viewer
        self._store = store
        self._book = book

    async def after(self, state: Mapping[str, Any], *, answered: bool) -> None:
        """Of a round whose answer was given, and of which a person rejected nothing, what its plan teaches is saved;
        else the use of a procedure has failed, and nothing is saved. It never fails the task."""
        lesson = state.get("lesson") or {}
        if lesson.get("round") != state["round"]:
            return
        given: Any = await self._store.get(lesson["key"])
        well = answered and not await self._book.rejects(state["round"])
        teaches: api.Use | api.ProcedureDraft
        if "use" in given:
            use = api.Use.model_validate(given["use"])
            teaches = use.model_copy(update={"succeeded": use.succeeded and well})
        elif well:
            teaches = api.ProcedureDraft.model_validate(given["draft"])
        else:
            return
        try:
            await self._book.settle(f"r{state['round']}.learn", 0, Lesson(self._kb, self._viewer, teaches))
        except (kb_client.Unavailable, kb_client.Rejected) as error:
            _log.warning("nothing was learned", reason=error.message)


class Lesson:
    """The effect that saves what was learned or what the user has defined, or counts that a procedure was followed.
    Done twice after a crash, a procedure is the same, and a count is one too high."""

    repeatable = True

    def __init__(self, kb: kb_client.Client, viewer: scope.Scope, lesson: api.ProcedureDraft | api.Use) -> None:
        self._kb = kb
        self._viewer = viewer
        self._lesson = lesson

    def intent(self) -> Mapping[str, Any]:
        """Trigger, or id and how it went."""
        if isinstance(self._lesson, api.Use):
            return {"procedure": self._lesson.id, "succeeded": self._lesson.succeeded}
        return {"trigger": self._lesson.trigger_pattern}

    async def find(self, key: str) -> ledger.Receipt | None:
        """Never: the knowledge base does not know keys."""
        return None

    async def perform(self, key: str) -> ledger.Receipt:
        """Raises what the knowledge base raises."""
        if isinstance(self._lesson, api.Use):
            return {"id": (await self._kb.memory.use_procedure(self._lesson)).id}
        lesson = self._lesson
        if lesson.source != "learned":
            return {"id": (await self._kb.memory.save_procedure(lesson)).id}
        every = await self._kb.memory.procedures(lesson.client_id, lesson.trigger_pattern, viewer=self._viewer)
        known = next((one for one in every if one.source == "learned"), None)
        if known is None:
            known = await self._kb.memory.save_procedure(lesson)
        elif [step.get("agent") for step in known.procedure_steps] != [one.agent for one in lesson.procedure_steps]:
            # Another way that worked, perhaps one that a person approved: it stays.
            return {"id": known.id}
        used = api.Use(client_id=lesson.client_id, id=known.id, succeeded=True)
        return {"id": (await self._kb.memory.use_procedure(used)).id}


def shown(learned: Sequence[api.Procedure]) -> str:
    """Learned procedures as lines."""
    lines = []
    for one in learned:
        steps = " -> ".join(f"{step.get('agent', '')}: {step.get('action', '')}" for step in one.procedure_steps)
        lines.append(f"{one.trigger_pattern} ({one.usage_count} times, {one.success_rate:.0%} well): {steps}")
    return "\n".join(lines)


def tokens(text: str) -> list[str]:
    """The words of a trigger or a text that say something."""
    return [word for word in _TOKEN.findall(text.casefold()) if word not in _FILLERS]


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if len(short) < _PREFIX:
        return long == f"{short}s"
    pairs = enumerate(zip(short, long, strict=False))
    common = next((place for place, (left, right) in pairs if left != right), len(short))
    return common >= max(_PREFIX, len(short) - 3)


def _tags(task: memory.TaskMemory) -> Sequence[object]:
    tags = task.structured_data.get("tags")
    return tags if isinstance(tags, list | tuple) else [tags] if tags else []
