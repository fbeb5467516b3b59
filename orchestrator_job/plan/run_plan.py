"""The plan of a run: 3 to 7 steps, what a model may say of them, and how they are amended. Pure.

A plan is advice to the run's own model. It opens nothing: the tools of a step are those of a run that no rule forbids,
and every other name is dropped and recorded. Source: seed 002 "Koog Planner Integration".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines
from crds import pendingtask
from orchestrator_job.model import intent, prompt_escape, step_tools
from router.client import reading, schema

LEAST_STEPS, MOST_STEPS = 3, 7
_KEPT = 20
"""Amendments and notes that a plan keeps: the latest."""
_NAME_CHARS = 60
_FREE = enforce_lines.Provisions()


def allowed(held: enforce_lines.Provisions) -> tuple[str, ...]:
    """The tools that no rule forbids."""
    return tuple(tool.value for tool in step_tools.Tool if held.permits_tool(tool.value))


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Step(_Model):
    """One step. `tools` are names of `Tool`; none means that the evidence has to suffice."""

    description: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=300)]
    tools: Annotated[tuple[str, ...], Field(max_length=10)]
    success_criteria: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]


class Amendment(_Model):
    """Why the plan became this version."""

    version: int
    reason: str


class Plan(_Model):
    """The plan of `round`. Without steps it failed, and `failure` says why; the version is then the one before.

    `notes` say what was dropped from the model's answer.
    """

    round: int
    version: int
    model: str
    steps: tuple[Step, ...] = ()
    amendments: tuple[Amendment, ...] = ()
    notes: tuple[str, ...] = ()
    failure: str | None = None


class Draft(schema.Shape):
    """The answer to the plan's prompt."""

    steps: Annotated[tuple[Step, ...], Field(min_length=LEAST_STEPS, max_length=MOST_STEPS)]


def wire(tools: Collection[str], kinds: Collection[intent.Kind] = ()) -> schema.Wire:
    """What is sent as the shape of a plan, with these tools; `kinds` are what can be worked on without one."""
    plan = schema.wire(Draft, choices={"tools": list(tools)})
    return schema.either(plan, intent.order(kinds)) if kinds else plan


def judged(draft: Draft, held: enforce_lines.Provisions = _FREE) -> tuple[tuple[Step, ...], tuple[str, ...]]:
    """The steps with tools that exist and are allowed, and what was dropped. Raises Unusable."""
    said = " ".join(f"{step.description} {step.success_criteria}" for step in draft.steps)
    if (objection := held.objection(said, cites=True, final=False)) is not None:
        raise reading.Unusable(f"steps: {objection}")
    usable, notes = allowed(held), []
    steps = []
    for number, step in enumerate(draft.steps, start=1):
        for name in dict.fromkeys(step.tools):
            if name not in usable:
                why = "a rule forbids it" if name in set(step_tools.Tool) else "no run has it"
                notes.append(f"Step {number}: the tool {name[:_NAME_CHARS]!r} was dropped, {why}.")
        kept = tuple(name for name in dict.fromkeys(step.tools) if name in usable)
        steps.append(step.model_copy(update={"tools": kept}))
    return tuple(steps), tuple(notes[:_KEPT])


def outcome(made: Plan | None) -> pendingtask.PlanOutcome | None:
    """What became of it; None without one."""
    if made is None:
        return None
    if made.failure is not None:
        return pendingtask.PlanOutcome.FAILED
    return pendingtask.PlanOutcome.AMENDED if made.amendments else pendingtask.PlanOutcome.MADE


def load(stored: Mapping[str, Any] | None) -> Plan | None:
    """The plan in a state; None without one."""
    return Plan.model_validate(stored) if stored else None


def of_round(stored: Mapping[str, Any] | None, round_number: int) -> Plan | None:
    """The plan that a round made, a failed one included; that of an earlier round does not count."""
    found = load(stored)
    return found if found is not None and found.round == round_number else None


def made(
    steps: tuple[Step, ...], notes: tuple[str, ...], earlier: Plan | None, round_number: int, model: str, reason: str
) -> Plan:
    """The plan of a round. After one of an `earlier` round it is its next version, for `reason`."""
    if earlier is None or earlier.version == 0:
        return Plan(round=round_number, version=1, model=model, steps=steps, notes=notes)
    version = earlier.version + 1
    amendments = (*earlier.amendments, Amendment(version=version, reason=reason))[-_KEPT:]
    return Plan(round=round_number, version=version, model=model, steps=steps, amendments=amendments, notes=notes)


def failed(reason: str, earlier: Plan | None, round_number: int, model: str) -> Plan:
    """A round without a plan. What an earlier round planned does not fit it any more."""
    kept = (0, ()) if earlier is None else (earlier.version, earlier.amendments)
    return Plan(round=round_number, version=kept[0], model=model, amendments=kept[1], failure=reason[:500])


def searches(plan: Plan, held: enforce_lines.Provisions = _FREE) -> dict[int, str]:
    """Number of the step -> what the knowledge base is searched for, of the steps that search."""
    if not held.permits_tool(step_tools.Tool.SEARCH):
        return {}
    return {n: step.description for n, step in enumerate(plan.steps, start=1) if step_tools.Tool.SEARCH in step.tools}


def amended(plan: Plan, found: Mapping[int, int], held: enforce_lines.Provisions = _FREE) -> Plan:
    """The plan after its searches; `found` are the passages of each step that searched.

    A step whose search found nothing asks the user instead, if no rule forbids to ask. The next version says so.
    """
    empty = [number for number, count in found.items() if not count]
    if not empty:
        return plan
    instead = (step_tools.Tool.ASK.value,) if held.permits_tool(step_tools.Tool.ASK) else ()
    steps = list(plan.steps)
    for number in empty:
        step = steps[number - 1]
        left = (name for name in step.tools if name != step_tools.Tool.SEARCH)
        steps[number - 1] = step.model_copy(update={"tools": tuple(dict.fromkeys((*left, *instead)))})
    which = f"Step {empty[0]}" if len(empty) == 1 else f"Steps {', '.join(map(str, empty))}"
    then = "what is missing is asked of the user" if instead else "it has to do with the evidence at hand"
    amendment = Amendment(version=plan.version + 1, reason=f"{which} found nothing in the knowledge base: {then}.")
    return plan.model_copy(
        update={
            "version": amendment.version,
            "steps": tuple(steps),
            "amendments": (*plan.amendments, amendment)[-_KEPT:],
        }
    )


def dump(plan: Plan) -> dict[str, Any]:
    """For a state and for `task_results`."""
    return plan.model_dump(mode="json", by_alias=True)


def block(made: Plan | None) -> str:
    """A plan for a prompt, each step in its block; empty without steps."""
    if made is None or not made.steps:
        return ""
    blocks = "\n".join(
        f'<step number="{number}" tools="{prompt_escape.attribute(", ".join(step.tools))}">'
        f"{prompt_escape.defuse(step.description)}"
        f" Done when: {prompt_escape.defuse(step.success_criteria)}</step>"
        for number, step in enumerate(made.steps, start=1)
    )
    return f'<plan version="{made.version}">\n{blocks}\n</plan>'
