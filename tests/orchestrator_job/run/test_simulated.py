"""The simulator without a script plans, reports and answers like a model that keeps to its prompts."""

from __future__ import annotations

from typing import Any

import pytest

from crds import pendingtask
from orchestrator_job.agents import registry
from orchestrator_job.store import delegation_models
from tests.orchestrator_job import rounds, workbench
from tests.orchestrator_job.workbench import Benches, Lookup

pytestmark = pytest.mark.services
PLAN = rounds.item("The release of the router is on Friday, 6 March. Ann tests the router before that.", "wiki::plan")
MAIL = "Subject: Release\n\nDear team,\n\nplease tell us when the release of the router is.\n\nKind regards, Eve"


@pytest.mark.parametrize(
    ("content", "kind", "agents", "said", "source", "calls"),
    [
        (
            "When is the release of the router?",
            pendingtask.Type.USER_INPUT,
            ["Research"],
            "The release of the router is on Friday, 6 March.",
            "wiki::plan",
            2,
        ),
        (MAIL, pendingtask.Type.EMAIL, ["Research", "Email"], "please tell us when", "email::<eve@example.org>", 4),
    ],
    ids=["one look", "a mail"],
)
async def test_a_whole_round(
    nodes: rounds.Nodes, content: str, kind: pendingtask.Type, agents: list[str], said: str, source: str, calls: int
) -> None:
    nodes.known.items = []
    async with nodes.opened(content, type=kind, source_urn="email::<eve@example.org>") as one:
        begun, plan = await one.planned(await one.begun(PLAN))
        assert [each.agent_name for each in plan.delegations] == agents
        outputs: list[Any] = [await one.bench.work(each) for each in plan.delegations]
        assert all(isinstance(each, delegation_models.AgentOutput) for each in outputs)
        given, items = await one.answered(await one.handed_back(begun, plan, outputs))
    assert said in given["answer"]
    assert source in [each.source for each in items if each.id in given["citations"]]
    assert not given["needsInput"]
    # A question that one look answers costs the planner's call more than without delegations.
    assert nodes.calls() == calls


async def test_each_agent_works_with_its_own_prompt_and_tools(benches: Benches) -> None:
    names = sorted(registry.KNOWN_TOOLS - {"delegate"})
    bench = benches.next(*(Lookup(name) for name in names))
    agents = (*bench.means.agents.specialists, bench.means.agents.legacy)
    first = {one.name: one.capability.tool_names[0] for one in agents}
    benches.fake.set_script(
        {
            f"job.agent.{one.name}/v1": [
                workbench.calls((first[one.name], {"query": f"what {one.name} needs"})),
                workbench.report(f"{one.name} has done it."),
            ]
            for one in agents
        }
    )
    for number, one in enumerate(agents, start=1):
        output = await bench.work(workbench.message(one.name, "Do it.", delegation_id=f"r1.d{number}"))
        assert isinstance(output, delegation_models.AgentOutput)
        assert (output.agent_name, output.success, output.result) == (one.name, True, f"{one.name} has done it.")
        assert output.structured_data["sources"] == [f"doc::what {one.name} needs"]
    opening = [each for each in benches.fake.requests(path="/api/chat") if len(each["body"]["messages"]) == 2]
    assert [each["tag"] for each in opening] == [f"job.agent.{one.name}/v1" for one in agents]
    for one, asked in zip(agents, opening, strict=True):
        assert asked["body"]["messages"][0]["content"].startswith(one.prompt)
        offered = {each["function"]["name"] for each in asked["body"]["tools"]}
        assert offered == set(one.capability.tool_names), one.name
        assert asked["priority"] == str(int(one.priority))
