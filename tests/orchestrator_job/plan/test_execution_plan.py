"""From a model's choice of agents to groups that run side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contracts.rules import enforce_lines
from crds import scope
from orchestrator_job.agents import registry
from orchestrator_job.plan import execution_plan
from orchestrator_job.store import delegation_models
from router.client import reading


def parsed(
    text: str, agents: Sequence[registry.Agent], held: enforce_lines.Provisions | None = None
) -> tuple[delegation_models.DomainType, tuple[execution_plan.Draft, ...]]:
    """Domain and delegations in a model's text."""
    answer = reading.read(text, execution_plan.Answer).value
    return execution_plan.judged(answer, agents, held or enforce_lines.Provisions())


AGENTS = registry.Registry.load().specialists
VIEWER = scope.Scope(client_id="acme", project_id="jervis")


def wanted(agent: str = "Research", task: str = "Find the date.", *depends_on: int, **fields: Any) -> dict[str, Any]:
    given = {"agent": agent, "task": task, "expectedOutput": "A date.", "constraints": [], **fields}
    return {**given, "dependsOn": list(depends_on)}


def said(*delegations: dict[str, Any], domain: str = "RESEARCH") -> str:
    return json.dumps({"domain": domain, "delegations": list(delegations)})


def drafts(*depends_on: tuple[int, ...]) -> list[execution_plan.Draft]:
    return [
        execution_plan.Draft(agent="Research", task=f"Part {n}", depends_on=on) for n, on in enumerate(depends_on, 1)
    ]


def test_a_choice_is_read() -> None:
    domain, found = parsed(said(wanted(), wanted("Email", "Answer it.", 1), domain="COMMUNICATION"), AGENTS)
    assert domain is delegation_models.DomainType.COMMUNICATION
    assert [(one.agent, one.depends_on) for one in found] == [("Research", ()), ("Email", (1,))]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("no", "the answer has no JSON object"),
        (said(), "delegations: Tuple should have at least 1 item"),
        (said(*[wanted()] * 11), "delegations: too many"),
        (said(wanted(), wanted(task=" ")), "delegations.1.task: "),
        (said(wanted("Sales")), "agent: there is no 'Sales'; choose from Administrative, "),
        (said(wanted("LegacyAgent")), "agent: there is no 'LegacyAgent'"),
        (said(wanted("Research", "a", 2)), "dependsOn of delegation 1: [2] must be numbers of others, from 1 to 1"),
        (said(wanted("Research", "a", 0)), "dependsOn of delegation 1: [0]"),
        (said(wanted("Research", "a", 1)), "dependsOn of delegation 1: [1]"),
        (
            said(wanted("Research", "a"), wanted("Git", "b", 3), wanted("Test", "c", 2)),
            "dependsOn: the delegations [2, 3] wait for each other",
        ),
        (said(wanted(task="Write to Globex.")), "delegations: a rule forbids to say 'Globex'"),
    ],
)
def test_what_is_no_plan_says_what_to_correct(text: str, problem: str) -> None:
    held = enforce_lines.Provisions.together(["enforce: never-say Globex"])
    with pytest.raises(reading.Unusable) as caught:
        parsed(text, AGENTS, held)
    assert caught.value.message.startswith(problem)


def test_a_domain_that_there_is_not_is_no_reason_to_refuse_a_plan() -> None:
    domain, found = parsed(said(wanted(), domain="SALES"), AGENTS)
    assert (domain, len(found)) == (delegation_models.DomainType.RESEARCH, 1)


def test_the_schema_has_the_agents_that_are_there_and_asks_for_every_field() -> None:
    schema = execution_plan.wire(AGENTS[:2])["properties"]["delegations"]["items"]
    assert schema["properties"]["agent"]["enum"] == ["Research", "Coding"]
    assert set(schema["required"]) == set(schema["properties"])


@pytest.mark.parametrize(
    ("depends_on", "groups"),
    [
        ([()], [(1,)]),
        ([(), (), ()], [(1, 2, 3)]),
        ([(), (1,), (2,)], [(1,), (2,), (3,)]),
        ([(), (), (1, 2), (1,)], [(1, 2), (3, 4)]),
        ([(2,), (3,), ()], [(3,), (2,), (1,)]),
        ([(), (1,), (1, 1), (2, 3)], [(1,), (2, 3), (4,)]),
    ],
)
def test_groups_follow_from_what_depends_on_what(
    depends_on: list[tuple[int, ...]], groups: list[tuple[int, ...]]
) -> None:
    assert list(execution_plan.levels(drafts(*depends_on))) == groups


@given(st.integers(1, 10).flatmap(lambda n: st.lists(st.lists(st.integers(1, n), max_size=4), min_size=n, max_size=n)))
def test_every_group_comes_after_all_that_it_depends_on(depends_on: list[list[int]]) -> None:
    made = drafts(*map(tuple, depends_on))
    try:
        groups = execution_plan.levels(made)
    except reading.Unusable:
        return
    assert sorted(number for group in groups for number in group) == list(range(1, len(made) + 1))
    done: set[int] = set()
    for group in groups:
        for number in group:
            assert set(made[number - 1].depends_on) <= done
        done.update(group)


def plan(side_by_side: bool) -> delegation_models.ExecutionPlan:
    made = drafts((), (), (1, 2))
    return execution_plan.plan(
        made,
        delegation_models.DomainType.CODE,
        2,
        viewer=VIEWER,
        language="cs",
        contexts=["a", "b", "c"],
        side_by_side=side_by_side,
    )


def test_the_plan_names_round_scope_and_language() -> None:
    made = plan(side_by_side=True)
    assert made.parallel_groups == (("r2.d1", "r2.d2"), ("r2.d3",))
    third = made.message("r2.d3")
    assert (third.depth, third.client_id, third.project_id, third.group_id) == (1, "acme", "jervis", None)
    assert (third.response_language, third.context, third.task_summary) == ("cs", "c", "Part 3")


def test_without_dag_execution_each_group_has_one_delegation() -> None:
    assert plan(side_by_side=False).parallel_groups == (("r2.d1",), ("r2.d2",), ("r2.d3",))
