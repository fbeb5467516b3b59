"""What a run asks where it has no procedure, and what it makes of the answer (seed 001 "Missing procedure").

The user is asked in a round of its own, before anything was done: the question ends the round as any other does, and
the answer begins the next one. A step is what the user wrote, word for word; a model only chooses who does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, JsonValue

from kb import api
from orchestrator_job.agents import registry
from orchestrator_job.answer import model_answer
from orchestrator_job.effects import trigger_words
from orchestrator_job.model import intent, prompt_escape, prompts, repetition
from orchestrator_job.plan import execution_plan, procedures
from orchestrator_job.store import artifacts, task_memory
from orchestrator_job.store.graph_state import State
from router.client import reading, schema

PROMPT = "procedure_steps.v1"
DECLINED = "declined"
"""In the details of a session entry: the user wants no procedure for its pattern."""
PATTERN = "pattern"
_NAME_CHARS = 120
_ACTION_CHARS = 2000
_TELLING = frozenset(("bug_report", "deadline"))
"""Facets that make a kind of task: where it came from, and whether it asks something, do not."""

_BULLET = re.compile(r"^[ \t]*(?:[-*•]|\d{1,2}[.)])[ \t]*")
_BREAKS = re.compile(r"(?:->|→|;)\s*|(?<!\d\.)(?<=[.!])\s+")
_NAMES_AGENT = re.compile(r"^(?P<agent>[A-Za-z][A-Za-z ]{1,40}):\s+(?P<action>\S.*)$", re.DOTALL)

_QUESTIONS = {
    "en": 'There is no procedure "{name}" yet. How is it done? Write one step in a line, in their order; an agent may '
    'stand before it, as in "Research: find the invoice". What you answer is kept as the procedure for such tasks of '
    'this client. Answer "no" to have it done without one.',
    "de": 'Es gibt noch kein Verfahren „{name}“. Wie wird es gemacht? Schreiben Sie einen Schritt je Zeile, der Reihe '
    "nach; davor darf ein Agent stehen, wie in „Research: suche die Rechnung“. Ihre Antwort wird als Verfahren für "
    "solche Aufgaben dieses Kunden behalten. Antworten Sie „nein“, damit es ohne Verfahren gemacht wird.",
    "cs": 'Postup „{name}“ zatím neexistuje. Jak se to dělá? Napište každý krok na jeden řádek, v pořadí; před ním smí '
    "stát agent, třeba „Research: najdi fakturu“. Odpověď se uloží jako postup pro takové úkoly tohoto klienta. "
    "Odpovězte „ne“, má-li se to udělat bez postupu.",
    "sk": 'Postup „{name}“ zatiaľ neexistuje. Ako sa to robí? Napíšte každý krok na jeden riadok, v poradí; pred ním '
    "smie stáť agent, napríklad „Research: nájdi faktúru“. Odpoveď sa uloží ako postup pre takéto úlohy tohto klienta. "
    "Odpovedzte „nie“, ak sa to má urobiť bez postupu.",
}  # fmt: skip


class Chosen(schema.Shape):
    """The model's answer. `procedure`: the lines say how something is done. The agents are by the numbers of lines."""

    model_config = ConfigDict(frozen=True)
    numbered: ClassVar[frozenset[str]] = frozenset({"agents"})

    agents: Annotated[tuple[str, ...], Field(max_length=execution_plan.MOST)]
    procedure: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A step as the user wrote it. `agent`: the one that the user named, or nothing."""

    action: str
    agent: str = ""


def missing(
    task: task_memory.TaskMemory, text: str, every: Iterable[api.Procedure], session: Iterable[api.SessionEntry]
) -> str | None:
    """The trigger of the procedure to ask for, because a task of this kind comes again, with none that fits, the user's
    or learned; None where none is missing. A task is of a kind if its facets say more than where it came from."""
    if not _TELLING & set(procedures.facets(task, text)):
        return None
    pattern = procedures.trigger(task, text)
    of_kind = [one for one in session if (one.details or {}).get(PATTERN) == pattern and one.task_id != task.task_uid]
    if not of_kind or any((one.details or {}).get(DECLINED) for one in of_kind):
        return None
    of_task = procedures.words(task, text)
    return None if any(trigger_words.fits(one.trigger_pattern, of_task) for one in every) else pattern


def named(name: str, task: task_memory.TaskMemory, written: str, every: Iterable[api.Procedure]) -> str | None:
    """The procedure that a model says the user names, if it is missing: `written` is what the user wrote, and has it.
    What others wrote names none."""
    plain = " ".join(name.split())
    if not task.asked_by_user or not trigger_words.tokens(plain) or len(plain) > _NAME_CHARS:
        return None
    words = trigger_words.Words(trigger_words.tokens(plain))
    known = any(trigger_words.fits(one.trigger_pattern, words) for one in every)
    return None if known or not intent.rests(plain, written) else plain


def question(pattern: str, language: str) -> str:
    """For the user, in their language where it is one of four."""
    return _QUESTIONS.get(language, _QUESTIONS["en"]).format(name=" ".join(pattern.split("_")))


def answered(state: Mapping[str, Any], task: task_memory.TaskMemory) -> tuple[str, str] | None:
    """The pattern that an earlier round asked about, and what the user has answered."""
    asked = state.get("asked_procedure") or {}
    given = next((one.text for one in task.answers if one.id == f"r{asked.get('round')}-q1"), None)
    return None if given is None else (str(asked[PATTERN]), given)


def lines(text: str, agents: registry.Registry) -> list[Line]:
    """The steps of an answer, if it is one: whether it is says a model."""
    written = [line for line in text.splitlines() if line.strip()]
    parts = written if len(written) > 1 else [part for line in written for part in _BREAKS.split(line)]
    found = []
    for part in parts:
        action = _BULLET.sub("", part).strip()[:_ACTION_CHARS]
        if not action:
            continue
        match = _NAMES_AGENT.match(action)
        try:
            found.append(Line(match["action"], agents.agent(match["agent"].strip()).name) if match else Line(action))
        except KeyError:
            found.append(Line(action))
    return found[: execution_plan.MOST]


def messages(steps: Sequence[Line], agents: Sequence[registry.Agent]) -> list[dict[str, str]]:
    """Asks for the agent of each step."""
    listed = "\n".join(f"{one.name}: {one.capability.description}" for one in agents)
    said = prompt_escape.defuse("\n".join(f"{number}. {one.action}" for number, one in enumerate(steps, 1)))
    return [
        {"role": "system", "content": prompts.tagged(PROMPT)},
        {"role": "user", "content": f"Agents:\n{listed}\n<answer>\n{said}\n</answer>"},
    ]


def wire(steps: Sequence[Line], agents: Sequence[registry.Agent]) -> schema.Wire:
    """What is sent as the shape of the answer: an agent for each line."""
    return schema.wire(Chosen, choices={"agents": [agent.name for agent in agents]}, counts={"agents": len(steps)})


def judged(chosen: Chosen, steps: Sequence[Line], agents: Sequence[registry.Agent]) -> Chosen:
    """Raises Unusable for another number of agents, and for those that are not there."""
    if len(chosen.agents) != len(steps) or set(chosen.agents) - {agent.name for agent in agents}:
        raise reading.Unusable(f"agents must be {len(steps)} of those that are listed")
    return chosen


def draft(client_id: str, pattern: str, steps: Sequence[Line], names: Sequence[str]) -> api.ProcedureDraft:
    """The procedure as the user defines it; what the user named comes before `names`."""
    made = [api.Step(agent=one.agent or name, action=one.action) for one, name in zip(steps, names, strict=True)]
    return api.ProcedureDraft(client_id=client_id, trigger_pattern=pattern, procedure_steps=made, source="user_defined")


class AskProcedure:
    """The node `ask_procedure`: the round's answer is a question to the user. It has no effect."""

    def __init__(self, store: artifacts.Artifacts) -> None:
        self._store = store

    async def __call__(self, state: State) -> State:
        """Writes answer and trail. Raises Stuck."""
        asked = question(state["asked_procedure"][PATTERN], state["response_language"])
        given = model_answer.Answer(answer="", citations=[], confidence=0, needs_input=True, questions=[asked])
        stored: JsonValue = given.model_dump(by_alias=True)
        return {
            "answer": await self._store.put(stored, state["round"]),
            "trail": repetition.note(state.get("trail", []), "ask", [asked]),
        }
