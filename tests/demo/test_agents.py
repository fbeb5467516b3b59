"""The demonstration's order for an agent: it may choose its flags, its script works, and a person decides."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from crds import flags, pendingtask
from hack.cluster import layout
from hack.demo import agents, connected, release, servers, settings
from tests.fakes.ollama import process
from tests.orchestrator_job import job, sources
from tests.orchestrator_job.conftest import fake, known, mongodb_uri, simulator, store, task
from tests.orchestrator_job.run.test_delegation_runs import decided

__all__ = ["fake", "known", "mongodb_uri", "simulator", "store", "task"]


@pytest.fixture
async def outside() -> AsyncIterator[sources.Sources]:
    """Where effects happen."""
    async with sources.serving() as made:
        yield made


def test_the_task_chooses_flags_that_its_namespace_permits() -> None:
    made = pendingtask.PendingTask.model_validate(agents.manifest("120000"))
    assert made.metadata.name == "order-120000"
    assert made.metadata.labels[settings.LABEL] == "true", "the next run removes it"
    values = agents.values("jervis")
    permitted = values["admission"]["namespaces"]["jervis"]["taskFlags"]
    annotations: dict[str, str] = agents.manifest("120000")["metadata"]["annotations"]
    chosen = flags.chosen(annotations, "jervis", made.spec.type, permitted=permitted)
    assert (chosen.ignored, chosen.values) == (
        (),
        {flags.Flag.DELEGATION_GRAPH: True, flags.Flag.SPECIALIST_AGENTS: True},
    )


def test_the_release_has_what_the_order_needs() -> None:
    chart = yaml.safe_load((layout.CHECKOUT / "charts/jervis/values-demo.yaml").read_text())
    defaults = yaml.safe_load((layout.CHECKOUT / "charts/jervis/values.yaml").read_text())
    whole = release.overlaid(release.overlaid(defaults, chart), connected.values())
    assert (whole["admission"]["enabled"], whole["sources"]["enabled"]) == (True, True)
    there = servers.Servers("198.18.0.2", Path("/nowhere"), "word", "token")
    connections = {one["metadata"]["name"] for one in connected.manifests(there, "demo")}
    assert agents.values("jervis")["job"]["tools"]["trackerConnection"] in connections


@pytest.mark.services
async def test_the_script_of_the_models_files_the_issue_after_an_approval(
    task: job.Job, store: job.Store, fake: process.Fake, outside: sources.Sources
) -> None:
    token = task.folder / f"token-{task.uid}"
    token.write_text(task.uid)
    tools: dict[str, str] = agents.values("jervis")["job"]["tools"]
    task.environment.update(
        JERVIS_USE_DELEGATION_GRAPH="true",
        JERVIS_USE_SPECIALIST_AGENTS="true",
        JERVIS_SOURCES_URL=outside.url,
        JERVIS_TRACKER_CONNECTION=tools["trackerConnection"],
        JERVIS_RUN_TOKEN_FILE=str(token),
    )
    fake.set_script(agents.script())
    spec = agents.manifest("120000")["spec"]
    store.remember(task.memory(content=spec["content"], type=spec["type"], mode=spec["mode"]))
    held = await task.run()
    assert held.message["exitReason"] == "NeedsApproval", held
    assert held.message["waiting"] == 1
    [wanted] = store.all("task_results", _id=task.uid)[0]["waiting"]
    assert (wanted["tool"], wanted["agent"]) == ("createIssue", "IssueTracker")
    assert outside.effects == {}
    store.remember(
        task.memory(content=spec["content"], type=spec["type"], mode=spec["mode"], approvals=[decided(1, "Approved")])
    )
    ended = await task.run(attempt=2)
    assert (ended.message["exitReason"], agents.TITLE in ended.message["summary"]) == ("Answered", True), ended
    assert list(outside.effects.values()) == [1]
    [sent] = outside.arguments.values()
    assert sent["title"] == agents.TITLE
    # The agent goes on once its effect waits for a person; the report is the answer.
    agent = "job.agent.IssueTracker/v1"
    assert [one["tag"] for one in fake.requests(path="/api/chat")] == ["job.plan_delegations/v1", agent, agent, agent]
