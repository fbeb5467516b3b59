"""From what a model or a procedure wants done to an ExecutionPlan. Pure.

The groups that run side by side follow from `dependsOn`, never from the model: a delegation is in the first group after
those of all that it depends on. A plan gives no rights: an agent has the tools that it has, whatever a plan says.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic.alias_generators import to_camel

from crds import provisions, scope
from orchestrator_job import errors
from orchestrator_job.delegation import models, progress, registry

MOST = 10
"""Delegations of one plan; agents may delegate in turn."""
WORDS = 4000
"""Most characters of what one delegation is to do."""
_SHOWN_PROBLEMS = 5
_Words = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=WORDS)]
_FREE = provisions.Provisions()


class Unusable(errors.InvalidOutput):
    """The answer is no plan; the text says what to correct."""


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


class _Answer(_Model):
    domain: models.DomainType
    delegations: Annotated[tuple[Draft, ...], Field(min_length=1, max_length=MOST)]


def schema(agents: Sequence[registry.Agent]) -> dict[str, Any]:
    """The JSON schema of the model's answer, with these agents."""
    made = _Answer.model_json_schema(by_alias=True)
    draft = made["$defs"]["Draft"]
    draft["properties"]["agent"] = {"type": "string", "enum": [one.name for one in agents]}
    # A model that may leave them out does not think of them.
    draft["required"] = ["agent", "task", "expectedOutput", "constraints", "dependsOn"]
    return made


def parse(
    text: str, agents: Sequence[registry.Agent], held: provisions.Provisions = _FREE
) -> tuple[models.DomainType, tuple[Draft, ...]]:
    """Domain and delegations. Raises Unusable for what is no answer of the schema, for agents that are not there, for
    dependencies that cannot be met, and for words that a rule forbids."""
    try:
        answer = _Answer.model_validate_json(text)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[:_SHOWN_PROBLEMS]
        problems = [f"{'.'.join(str(part) for part in each['loc']) or 'plan'}: {each['msg']}" for each in found]
        raise Unusable("; ".join(problems)) from error
    names = {one.name for one in agents}
    unknown = sorted({one.agent for one in answer.delegations} - names)
    if unknown:
        raise Unusable(f"agent: there is no {', '.join(unknown)[:200]!r}; choose from {', '.join(sorted(names))}")
    said = " ".join(f"{one.task} {one.expected_output} {' '.join(one.constraints)}" for one in answer.delegations)
    if (objection := held.objection(said, cites=True, final=False)) is not None:
        raise Unusable(f"delegations: {objection}")
    levels(answer.delegations)
    return answer.domain, answer.delegations


def levels(drafts: Sequence[Wanted]) -> tuple[tuple[int, ...], ...]:
    """Numbers of the delegations, from 1, in the groups that follow from what they depend on. Raises Unusable for a
    number that is not there and for a circle."""
    count = len(drafts)
    for number, one in enumerate(drafts, start=1):
        wrong = sorted({each for each in one.depends_on if not 1 <= each <= count or each == number})
        if wrong:
            raise Unusable(f"dependsOn of delegation {number}: {wrong} must be numbers of others, from 1 to {count}")
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
            raise Unusable(f"dependsOn: the delegations {left} wait for each other; none of them could begin")
        groups.append(free)
        placed.update(free)
    return tuple(groups)


def plan(
    drafts: Sequence[Wanted],
    domain: models.DomainType,
    round_number: int,
    *,
    viewer: scope.Scope,
    language: str,
    contexts: Sequence[str],
    side_by_side: bool,
) -> models.ExecutionPlan:
    """The plan; `contexts` are those of `drafts`. Without `side_by_side` each group has one delegation."""
    name = functools.partial(progress.delegation_id, round_number)
    groups = levels(drafts)
    if not side_by_side:
        groups = tuple((number,) for group in groups for number in group)
    return models.ExecutionPlan(
        delegations=tuple(
            models.DelegationMessage(
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
