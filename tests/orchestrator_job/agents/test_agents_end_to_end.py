"""Each agent in a whole run: the Job as a process, the knowledge base and the sources process with all their tools.

The models are scripted; what their calls are answered, and what has happened afterwards, is real. `cases` has the
table.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from crds import permits
from orchestrator_job.agents import loop_state, registry
from tests.fakes.ollama import process
from tests.kb.conftest import clock, database, meters
from tests.orchestrator_job import cases, job, office, workbench
from tests.orchestrator_job.office import place
from tests.orchestrator_job.run.test_delegation_runs import PLAN, SYNTHESIS, decided, planned

__all__ = ["clock", "database", "meters", "place"]
pytestmark = pytest.mark.services


ACTIONS = {"ProjectManagement": "tracker_ops", "Email": "respond", "LegacyAgent": "mixed"}
"""What the outcome says of what these did; of the last, a comment and changed files."""


def tag(agent: str) -> str:
    return f"job.agent.{agent}/v1"


def script(asked: cases.Round, commit: str) -> dict[str, list[Any]]:
    """The answers of all models in a round."""
    drafts = [(one.agent, f"{one.agent} does it.", [n] if n else []) for n, one in enumerate(asked.parts)]
    made: dict[str, list[Any]] = {PLAN: [planned(*drafts)]}
    for one in asked.all():
        turns: list[Any] = []
        for each in one.calls:
            turns.append(workbench.calls((each.tool, each.arguments)))
            # Nothing else is left to do: what follows depends on what a person decides.
            turns += [workbench.report("It waits.")] if each is asked.holds(one) else []
        made[tag(one.agent)] = [*turns, workbench.report(one.report)]
    if len(asked.parts) > 1:
        made[SYNTHESIS] = [job.reply(answer=asked.parts[-1].report)]
    given: dict[str, list[Any]] = json.loads(json.dumps(made).replace(cases.COMMIT, commit))
    return given


def counted(number: int, asked: cases.Round) -> dict[str, tuple[str, bool, int, int]]:
    """delegation_metrics of a round: agent, success, model calls and sub-delegations by the delegation's id."""
    found = {}
    for at, one in enumerate(asked.parts, start=1):
        reports = 2 if asked.holds(one) else 1
        found[f"r{number}.d{at}"] = (one.agent, True, len(one.calls) + reports, len(one.subs))
        for sub_at, sub in enumerate(one.subs, start=1):
            found[f"r{number}.d{at}.{sub_at}"] = (sub.agent, True, len(sub.calls) + 1, 0)
    return found


async def carried_out(
    place: office.Office, fake: process.Fake, asked: cases.Round, said: dict[str, Any]
) -> dict[str, Any]:
    """Run a round to its answer, with a person's decision where it waits for one; the result. `said` are the fields of
    the task's memory."""
    fake.forget()
    fake.set_script(script(asked, place.commit()))
    place.remember(**{"approvals": None, **said})
    if asked.held is not None:
        ended = await place.desk.ends("NeedsApproval")
        assert ended.message["waiting"] == 1
        [waiting] = place.desk.result()["waiting"]
        assert waiting["tool"] == permits.tool_name(asked.held.tool)
        assert asked.held.why in waiting["why"]
        verdict = decided(place.desk.attempt, asked.held.verdict, comment="not to them", about=waiting["id"])
        place.remember(approvals=[verdict])
    await place.desk.ends("Answered")
    return place.desk.result()


def test_every_agent_has_a_case() -> None:
    agents = registry.Registry.load()
    assert [one.agent for one in cases.CASES] == [one.name for one in (*agents.specialists, agents.legacy)]
    for case in cases.CASES:
        offered = set(agents.agent(case.agent).capability.tool_names)
        used = {
            each.tool for one in case.rounds for part in one.parts if part.agent == case.agent for each in part.calls
        }
        assert len(used & offered) >= 2, case.agent


@pytest.mark.parametrize("case", cases.CASES, ids=lambda one: one.agent)
async def test_an_agent_works_on_a_task_of_its_own(place: office.Office, fake: process.Fake, case: cases.Case) -> None:
    if case.agent == registry.LEGACY:
        place.desk.task.environment["JERVIS_USE_SPECIALIST_AGENTS"] = "false"
    expected: dict[str, tuple[str, bool, int, int]] = {}
    result: dict[str, Any] = {}
    first, *later = case.rounds
    for number, asked in enumerate(case.rounds, start=1):
        said = [{"id": f"m{at}", "text": one.said} for at, one in enumerate(later[: number - 1], start=1)]
        result = await carried_out(place, fake, asked, {"content": first.said, "messages": said})
        for part in asked.all():
            answers = workbench.heard(fake, tag(part.agent))
            awaited = [
                (each.tool, said)
                for each in part.calls
                for said in (*([loop_state.WAITS] if each is asked.holds(part) else []), each.said)
            ]
            assert [name for name, _ in answers] == [name for name, _ in awaited]
            for (name, said_), (_, answer) in zip(awaited, answers, strict=True):
                assert said_ in answer, (name, answer)
        expected |= counted(number, asked)
        assert fake.count(tag=PLAN) == 1
        # The report of one agent is the answer, without another model.
        assert fake.count(tag=SYNTHESIS) == (len(asked.parts) > 1)
    # Where the report names a source, the answer has the number of the evidence.
    report = case.rounds[-1].parts[-1].report
    for urn in case.sources:
        assert f"[{urn}]" in report
        report = report.replace(f"[{urn}]", "[*]")
    assert re.sub(r"\[\d+\]", "[*]", result["answer"]) == report
    metrics = place.made.store.all("delegation_metrics", taskUid=place.desk.task.uid)
    fields = ("agentName", "success", "llmCalls", "subDelegationCount")
    assert {one["delegationId"]: tuple(one[name] for name in fields) for one in metrics} == expected
    assert place.outside() == {**office.QUIET, **case.outside}
    assert tuple(result["changedFiles"]) == case.changed
    assert result["taskAction"] == ACTIONS.get(case.agent, result["taskAction"])
    assert result["stepResults"][0]["action"].startswith(f"{case.agent}: ")
    patched = [one["patch"] for one in result["changes"] if one["patch"]]
    assert bool(patched) == bool(case.changed)
    assert len(result["artifacts"]) == case.artifacts + len(patched)
