"""Each agent in a whole run: the Job as a process, the knowledge base and the sources process with all their tools.

The models are scripted; what their calls are answered, and what has happened afterwards, is real. `cases` has the
table.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kb import metrics as kb_metrics
from kb import mongo as kb_mongo
from orchestrator_job.delegation import registry
from router import client as router_client
from tests.fakes.ollama import process
from tests.kb import clock as clocks
from tests.kb.conftest import clock, database, meters
from tests.orchestrator_job import job
from tests.orchestrator_job.delegation import cases, office, workbench
from tests.orchestrator_job.delegation.test_runs import PLAN, SYNTHESIS, decided, planned

__all__ = ["clock", "database", "meters"]
pytestmark = pytest.mark.services


@pytest.fixture
async def place(
    task: job.Job, store: job.Store, router: router_client.Client, clock: clocks.Clock, meters: kb_metrics.Metrics,
    database: kb_mongo.Database, tmp_path: Path,
) -> AsyncIterator[office.Office]:  # fmt: skip
    async with office.opened(task, store, router, clock, meters, database, tmp_path) as made:
        yield made


ACTIONS = {"ProjectManagement": "tracker_ops", "Email": "respond", "LegacyAgent": "mixed"}
"""What the outcome says of what these did; of the last, a comment and changed files."""


def tag(agent: str) -> str:
    return f"job.agent.{agent}/v1"


def script(asked: cases.Round, commit: str) -> dict[str, list[Any]]:
    """The answers of all models in a round."""
    drafts = [(one.agent, f"{one.agent} does it.", [n] if n else []) for n, one in enumerate(asked.parts)]
    made: dict[str, list[Any]] = {PLAN: [planned(*drafts)]}
    for one in asked.all():
        turns = [workbench.calls((each.tool, each.arguments)) for each in one.calls]
        made[tag(one.agent)] = [*turns, workbench.report(one.report)]
    if len(asked.parts) > 1:
        made[SYNTHESIS] = [job.reply(answer=asked.parts[-1].report)]
    given: dict[str, list[Any]] = json.loads(json.dumps(made).replace(cases.COMMIT, commit))
    return given


def counted(number: int, parts: tuple[cases.Part, ...]) -> dict[str, tuple[str, bool, int, int]]:
    """delegation_metrics of a round: agent, success, model calls and sub-delegations by the delegation's id."""
    found = {}
    for at, one in enumerate(parts, start=1):
        found[f"r{number}.d{at}"] = (one.agent, True, len(one.calls) + 1, len(one.subs))
        for sub_at, sub in enumerate(one.subs, start=1):
            found[f"r{number}.d{at}.{sub_at}"] = (sub.agent, True, len(sub.calls) + 1, 0)
    return found


def heard(fake: process.Fake, part: cases.Part) -> list[tuple[str, str]]:
    """Each call of an agent's loop with what it was answered, as its model saw them at the end."""
    said = fake.requests(tag=tag(part.agent))[-1]["body"]["messages"]
    return [(one["tool_name"], one["content"]) for one in said if one["role"] == "tool"]


async def carried_out(
    place: office.Office, fake: process.Fake, asked: cases.Round, said: dict[str, Any]
) -> dict[str, Any]:
    """Run a round to its answer, with a person's decision where it waits for one; the result. `said` are the fields of
    the task's memory."""
    fake.forget()
    fake.set_script(script(asked, place.commit()))
    place.remember(**said)
    ended = await place.run()
    if asked.held is not None:
        assert ended.message["exitReason"] == "NeedsApproval", ended
        assert ended.message["action"]["tool"] == asked.held.tool
        assert asked.held.why in ended.message["action"]["why"]
        verdict = decided(place.attempt, asked.held.verdict, comment="not to them")
        place.remember(**said, approvals=[verdict])
        ended = await place.run()
    assert (ended.status, ended.message["exitReason"]) == (0, "Answered"), ended
    [result] = place.made.store.all("task_results", _id=place.task.uid)
    return result


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
        place.task.environment["JERVIS_USE_SPECIALIST_AGENTS"] = "false"
    expected: dict[str, tuple[str, bool, int, int]] = {}
    result: dict[str, Any] = {}
    first, *later = case.rounds
    for number, asked in enumerate(case.rounds, start=1):
        said = [{"id": f"m{at}", "text": one.said} for at, one in enumerate(later[: number - 1], start=1)]
        result = await carried_out(place, fake, asked, {"content": first.said, "messages": said})
        for part in asked.all():
            answers = heard(fake, part)
            assert [name for name, _ in answers] == [each.tool for each in part.calls]
            for each, (_, answer) in zip(part.calls, answers, strict=True):
                assert each.said in answer, (each, answer)
        expected |= counted(number, asked.parts)
        assert fake.count(tag=PLAN) == 1
        # The report of one agent is the answer, without another model.
        assert fake.count(tag=SYNTHESIS) == (len(asked.parts) > 1)
    # Where the report names a source, the answer has the number of the evidence.
    report = case.rounds[-1].parts[-1].report
    for urn in case.sources:
        assert f"[{urn}]" in report
        report = report.replace(f"[{urn}]", "[*]")
    assert re.sub(r"\[\d+\]", "[*]", result["answer"]) == report
    metrics = place.made.store.all("delegation_metrics", taskUid=place.task.uid)
    fields = ("agentName", "success", "llmCalls", "subDelegationCount")
    assert {one["delegationId"]: tuple(one[name] for name in fields) for one in metrics} == expected
    assert place.outside() == {**office.QUIET, **case.outside}
    assert tuple(result["changedFiles"]) == case.changed
    assert result["taskAction"] == ACTIONS.get(case.agent, result["taskAction"])
    assert result["stepResults"][0]["action"].startswith(f"{case.agent}: ")
    patched = [one["patch"] for one in result["changes"] if one["patch"]]
    assert bool(patched) == bool(case.changed)
    assert len(result["artifacts"]) == case.artifacts + len(patched)
