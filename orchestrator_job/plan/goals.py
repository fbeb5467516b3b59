"""What a model says of a design, of goals and of a goal's steps: prompts, and what is read out of the answers. Pure.

Goals are in the order in which they are worked on: one depends on earlier ones alone, so there is no circle. The steps
of a goal are delegations as those of `plan.execution_plan`. Nothing of it opens anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines
from orchestrator_job.agents import registry
from orchestrator_job.answer import answer_prompt, evidence_pack
from orchestrator_job.model import excerpt, prompt_budget, prompt_escape, prompts, rules_context
from orchestrator_job.plan import execution_plan, goal_paths, planner_prompt
from router.client import reading
from router.client import schema as schemas

MOST_GOALS = 7
MOST_STEPS = 5
DESIGN, GOALS, STEPS = "design", "goals", "plan_steps"
"""Names of the prompts; the tag of one is `[prompt:job.NAME/v1]`."""
_FREE = enforce_lines.Provisions()


def _text(most: int) -> Any:
    return StringConstraints(strip_whitespace=True, min_length=1, max_length=most)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Goal(_Model):
    """One goal. `depends_on` are numbers of earlier ones, from 1."""

    title: Annotated[str, _text(200)]
    description: Annotated[str, _text(4000)]
    done_when: Annotated[str, _text(1000)]
    depends_on: Annotated[tuple[int, ...], Field(max_length=MOST_GOALS)]

    def text(self) -> str:
        """For a model."""
        return f"{self.title}: {self.description}\nDone when: {self.done_when}"


class Goals(schemas.Shape):
    """The answer to `job.goals/v1`. Goals name each other by their numbers."""

    model_config = ConfigDict(frozen=True)
    numbered: ClassVar[frozenset[str]] = frozenset({"goals"})

    goals: Annotated[tuple[Goal, ...], Field(min_length=1, max_length=MOST_GOALS)]


class Design(schemas.Shape):
    """The answer to `job.design/v1`."""

    model_config = ConfigDict(frozen=True)

    design: Annotated[str, _text(20_000)]


_STORED = TypeAdapter(tuple[Goal, ...])


def dump(goals: Sequence[Goal]) -> Any:
    """For an artifact."""
    return _STORED.dump_python(tuple(goals), mode="json", by_alias=True)


def load(value: Any) -> tuple[Goal, ...]:
    """From the value of `dump`."""
    return _STORED.validate_python(value)


def designed(made: Design, held: enforce_lines.Provisions = _FREE) -> str:
    """The design. Raises `reading.Unusable` where a rule forbids its words."""
    return _permitted(reading.plain(made.design), held)


def ordered(made: Goals, held: enforce_lines.Provisions = _FREE) -> tuple[Goal, ...]:
    """The goals. Raises `reading.Unusable` for one that depends on itself or a later one, and for forbidden words."""
    for number, one in enumerate(made.goals, start=1):
        if any(not 1 <= each < number for each in one.depends_on):
            raise reading.Unusable(
                f"dependsOn of goal {number}: {list(one.depends_on)} must be numbers of goals before it; put a goal"
                " behind those that it depends on"
            )
    _permitted(" ".join(one.text() for one in made.goals), held)
    return made.goals


def stepped(
    answer: execution_plan.Answer, agents: Sequence[registry.Agent], held: enforce_lines.Provisions = _FREE
) -> tuple[execution_plan.Draft, ...]:
    """The steps in the order in which they are done. Raises `reading.Unusable`."""
    _, drafts = execution_plan.judged(answer, agents, held)
    if len(drafts) > MOST_STEPS:
        raise reading.Unusable(f"delegations: {len(drafts)} are too many; a goal has at most {MOST_STEPS} steps")
    return tuple(drafts[number - 1] for group in execution_plan.levels(drafts) for number in group)


def following(goals: Sequence[Goal], ended: Mapping[int, str]) -> tuple[int, dict[int, str]]:
    """Number of the goal to work on now (0: there is none), and how goals ended, with those left out that wait for one
    which was not done."""
    known = dict(ended)
    for number, one in enumerate(goals, start=1):
        if number in known:
            continue
        if all(known.get(each) == goal_paths.DONE for each in one.depends_on):
            return number, known
        known[number] = goal_paths.LEFT_OUT
    return 0, known


def listed(goals: Sequence[Goal]) -> str:
    """Goals with their numbers, as text."""
    return "\n".join(f"{number}. {one.text()}" for number, one in enumerate(goals, start=1))


def messages(
    name: str,
    asked: excerpt.Parts | str,
    items: Sequence[evidence_pack.Item],
    now: datetime,
    held: rules_context.Standing,
    num_ctx: int,
    *,
    blocks: Mapping[str, str],
    agents: Sequence[registry.Agent] = (),
) -> list[dict[str, str]]:
    """System and user message of that prompt, within `num_ctx` tokens with the answer. `blocks` are what is known by
    its name (`design`, `goal`, `work`), each whole, and so is the question where it fits; evidence, best first, has the
    room that is left.

    Raises `reading.Unusable` when rules and blocks leave no room.
    """
    system = f"{prompts.tagged(f'{name}.v1')}{answer_prompt.about(held)}{answer_prompt.rules(held)}"
    listing = "\n".join(f"{one.name}: {one.capability.description}" for one in agents)
    parts = [
        held.today(now),
        f"Agents:\n{listing}" if listing else "",
        answer_prompt.background(held).rstrip(),
    ]
    parts += [
        f'<document source="{key}">\n{prompt_escape.defuse(text)}\n</document>' for key, text in blocks.items() if text
    ]
    fitted = prompt_budget.fit(asked, (system, *parts), num_ctx - planner_prompt.ANSWER_TOKENS)
    if fitted.left < prompt_budget.LEAST:
        raise reading.Unusable("The rules and what was done leave no room in the planner's window.")
    shown = answer_prompt.chosen(answer_prompt.unrepeated(items, asked, fitted.question), fitted.left)
    user = "\n".join(part for part in (*parts, answer_prompt.evidence(shown), fitted.block) if part)
    return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def _permitted(text: str, held: enforce_lines.Provisions) -> str:
    if (objection := held.objection(text, cites=True, final=False)) is not None:
        raise reading.Unusable(objection)
    return text
