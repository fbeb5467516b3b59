"""From what a model or a procedure wants done to an ExecutionPlan. Pure.

The groups that run side by side follow from `dependsOn`, never from the model: a delegation is in the first group after
those of all that it depends on. A plan gives no rights: an agent has the tools that it has, whatever a plan says.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

from contracts.rules import enforce_lines
from crds import scope
from orchestrator_job.agents import registry
from orchestrator_job.model import intent
from orchestrator_job.store import delegation_models, delegation_progress
from router.client import reading, schema

MOST = 10
"""Delegations of one plan; agents may delegate in turn."""
WORDS = 4000
"""Most characters of what one delegation is to do."""
_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=WORDS)]
_FREE = enforce_lines.Provisions()


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class Wanted(_Model):
    """One delegation as it is wanted. `depends_on` are numbers of others, from 1."""

    agent: str
    task: str
    expected_output: str = ""
    constraints: tuple[str, ...] = ()
    depends_on: tuple[int, ...] = ()


class Draft(Wanted):
    """One delegation of a model, which is refused what is too long."""

    agent: Annotated[str, Field(min_length=1, max_length=60)]
    task: _Words
    expected_output: Annotated[str, StringConstraints(strip_whitespace=True, max_length=1000)] = ""
    constraints: Annotated[tuple[str, ...], Field(max_length=60)] = ()
    depends_on: Annotated[tuple[int, ...], Field(max_length=60)] = ()

    # A model that may leave them out does not think of them.
    model_config = ConfigDict(
        json_schema_extra={"required": ["agent", "task", "expectedOutput", "constraints", "dependsOn"]}
    )


class Answer(schema.Shape):
    """The answer to the prompt of a plan. What depends on what goes by numbers, so no delegation is left out."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)
    cautious: ClassVar[dict[str, Any]] = {"domain": delegation_models.DomainType.RESEARCH}
    numbered: ClassVar[frozenset[str]] = frozenset({"delegations"})

    domain: delegation_models.DomainType
    delegations: Annotated[tuple[Draft, ...], Field(min_length=1, max_length=MOST)]


class Planned(Answer, intent.Worded):
    """The answer to the prompt of a task's plan: what is wanted, and who does it. Nothing is delegated where one look
    into what the team knows answers it."""

    delegations: Annotated[tuple[Draft, ...], Field(max_length=MOST)] = ()

    # A model that may leave them out does not think of them.
    model_config = ConfigDict(
        json_schema_extra={"required": ["intent", "sentence", "effects", "notBefore", "domain", "delegations"]}
    )


class ByProcedure(Planned):
    """The same with the name of the procedure by which the question wants it done; "": it names none."""

    procedure: str = ""

    model_config = ConfigDict(
        json_schema_extra={
            "required": ["intent", "sentence", "effects", "notBefore", "procedure", "domain", "delegations"]
        }
    )


def wire(agents: Sequence[registry.Agent], shape: type[Answer] = Answer) -> schema.Wire:
    """What is sent as the shape of a plan, with these agents."""
    return schema.wire(shape, choices={"agent": [agent.name for agent in agents], "effects": intent.EFFECTS})


def judged(
    answer: Answer, agents: Sequence[registry.Agent], held: enforce_lines.Provisions = _FREE
) -> tuple[delegation_models.DomainType, tuple[Draft, ...]]:
    """Domain and delegations. Raises Unusable for agents that are not there, for dependencies that cannot be met, and
    for words that a rule forbids."""
    names = {one.name for one in agents}
    unknown = sorted({one.agent for one in answer.delegations} - names)
    if unknown:
        raise reading.Unusable(
            f"agent: there is no {', '.join(unknown)[:200]!r}; choose from {', '.join(sorted(names))}"
        )
    said = " ".join(f"{one.task} {one.expected_output} {' '.join(one.constraints)}" for one in answer.delegations)
    if (objection := held.objection(said, cites=True, final=False)) is not None:
        raise reading.Unusable(f"delegations: {objection}")
    levels(answer.delegations)
    return answer.domain, answer.delegations


def levels(drafts: Sequence[Wanted]) -> tuple[tuple[int, ...], ...]:
    """Numbers of the delegations, from 1, in the groups that follow from what they depend on. Raises Unusable for a
    number that is not there and for a circle."""
    count = len(drafts)
    for number, one in enumerate(drafts, start=1):
        wrong = sorted({each for each in one.depends_on if not 1 <= each <= count or each == number})
        if wrong:
            raise reading.Unusable(
                f"dependsOn of delegation {number}: {wrong} must be numbers of others, from 1 to {count}"
            )
    groups: list[tuple[int, ...]] = []
    placed: set[int] = set()
    while len(placed) < count:
        free = tuple(
            number
            for number, one in enumerate(drafts, start=1)
            if number not in placed and placed.issuperset(one.depends_on)
        )
        if not free:
            left = [number for number in range(1, count + 1) if number not in placed]
            raise reading.Unusable(f"dependsOn: the delegations {left} wait for each other; none of them could begin")
        groups.append(free)
        placed.update(free)
    return tuple(groups)


def plan(
    drafts: Sequence[Wanted],
    domain: delegation_models.DomainType,
    round_number: int,
    *,
    viewer: scope.Scope,
    language: str,
    contexts: Sequence[str],
    side_by_side: bool,
) -> delegation_models.ExecutionPlan:
    """The plan; `contexts` are those of `drafts`. Without `side_by_side` each group has one delegation."""
    name = functools.partial(delegation_progress.delegation_id, round_number)
    groups = levels(drafts)
    if not side_by_side:
        groups = tuple((number,) for group in groups for number in group)
    return delegation_models.ExecutionPlan(
        delegations=tuple(
            delegation_models.DelegationMessage(
                delegation_id=name(number),
                depth=1,
                agent_name=one.agent,
                task_summary=one.task,
                context=context,
                constraints=one.constraints,
                expected_output=one.expected_output,
                response_language=language,
                client_id=viewer.client_id,
                project_id=viewer.project_id or None,
                group_id=viewer.group_id or None,
            )
            for number, (one, context) in enumerate(zip(drafts, contexts, strict=True), start=1)
        ),
        parallel_groups=tuple(tuple(name(number) for number in group) for group in groups),
        domain=domain,
    )
