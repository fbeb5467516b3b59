"""The tools that look at what runs: checks of commits through the sources process, a namespace through the operator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from contracts.api import cluster_state
from orchestrator_job.effects.tools import cluster, port
from sources import client as sources_client
from tests.controllers.clusterstate import wire
from tests.orchestrator_job.effects.tools import parts
from tests.sources.api import serving
from tests.sources.effects.rig import Rig, running

pytestmark = pytest.mark.services
SHA = "6dcb09b5b57875f334f61aebed695e2e4193db5e"
REPOSITORY = "/api/v1/repos/o/r"


class Run:
    """The tools of a run, with what it looks at."""

    def __init__(self, made: parts.Parts, rig: Rig, server: wire.Apiserver, shown: wire.Place) -> None:
        self.made, self.rig, self.server, self.shown = made, rig, server, shown

    async def call(self, tool: str, settings: dict[str, Any] | None = None, /, **given: object) -> port.Result:
        tools, _ = await self.made.box(cluster_state_url=self.shown.url, cluster_state_logs=True, **(settings or {}))
        return await parts.called(tools, tool, **given)


@pytest.fixture
async def run(opening: parts.Opening) -> AsyncIterator[Run]:
    server = wire.Apiserver()
    async with (
        running() as rig,
        opening(rig.uid) as made,
        server.client() as api,
        wire.opened(api, logs=(wire.NAMESPACE,), keys=serving.KEYS) as shown,
        parts.sourced(made, rig.checks()),
    ):
        rig.world.connect()
        rig.world.answers |= {
            REPOSITORY: {"default_branch": "main"},
            f"{REPOSITORY}/branches/main": {"commit": {"id": SHA}},
            f"{REPOSITORY}/commits/{SHA}/status": {"statuses": []},
        }
        yield Run(made, rig, server, shown)


async def test_checks_are_shown_with_what_they_say_and_where_it_is_from(run: Run) -> None:
    said = {"context": "unit", "status": "failure", "description": "see x@evil.example"}
    said["target_url"] = "https://ci.example/1"
    run.rig.world.answers[f"{REPOSITORY}/commits/{SHA}/status"] = {"statuses": [said]}
    found = await run.call("ci_status", connection="tracker")
    assert found.text == (
        f"Failed: commit {SHA} of o/r, branch main\n"
        "- Failed: unit (status, https://ci.example/1)\n"
        "    see x@evil.example"
    )
    assert found.data == {
        "repository": "o/r", "commit": SHA, "state": "Failed", "failed": ["unit"], "provenance": "retrieved",
    }  # fmt: skip
    assert found.sources == (f"ci::tracker/o/r@{SHA[:12]}",)


async def test_the_connection_of_checks_is_a_setting_and_refusals_are_answers(run: Run) -> None:
    with pytest.raises(port.Misused, match="name the Connection"):
        await run.call("ci_status")
    quiet = await run.call("ci_status", {"tracker_connection": "tracker"})
    assert quiet.text.splitlines() == [f"NoChecks: commit {SHA} of o/r, branch main", "Nothing checks this commit."]
    chosen = await run.call("ci_status", {"tracker_connection": "absent", "ci_connection": "tracker"}, branch="main")
    assert not chosen.failed
    for given in ({"connection": "absent"}, {"connection": "tracker", "branch": "gone"}):
        assert (await run.call("ci_status", **given)).failed
    with pytest.raises(port.Misused, match="not both"):
        await run.call("ci_status", branch="main", commit=SHA)
    run.made.rules = "enforce: never-use-kind ci"
    assert (await run.call("ci_status", connection="tracker")).text == "A hard rule keeps this back."
    run.rig.world.connect()
    run.made.rules = ""
    run.rig.world.connections["tracker"]["status"]["conditions"] = []
    with pytest.raises(sources_client.Unavailable):
        await run.call("ci_status", connection="tracker")


async def test_a_namespace_is_shown_in_lines(run: Run) -> None:
    waiting = {"reason": "CrashLoopBackOff", "message": "back-off with value-of-key"}
    last = {"reason": "OOMKilled", "exitCode": 137, "finishedAt": "2026-11-26T10:00:00Z"}
    run.server.lists[f"{wire.TEAM}/pods"] = [
        {
            **wire.POD,
            "status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
                "containerStatuses": [
                    {
                        "name": "router", "restartCount": 9, "state": {"waiting": waiting},
                        "lastState": {"terminated": last},
                    }
                ],
            },
        }
    ]  # fmt: skip
    event = {"type": "Warning", "reason": "BackOff", "message": "again", "count": 4}
    about = {
        "lastTimestamp": "2026-11-26T11:00:00Z",
        "involvedObject": {"kind": "Pod", "name": "router-1"},
        "source": {"component": "kubelet"},
    }
    run.server.lists[f"{wire.TEAM}/events"] = [{**event, **about}]
    found = await run.call("cluster_state", name="router")
    assert found.text.splitlines() == [
        "Namespace team-a",
        "pods:",
        "- router-1: Running, 0/1 ready",
        "    Ready False, reason: ContainersNotReady",
        "    container router: waiting (CrashLoopBackOff), 9 restarts, message: back-off with ***",
        "      before the last restart: OOMKilled, exit code: 137, at: 2026-11-26T10:00:00Z",
        "workloads: none",
        "events:",
        "- 2026-11-26T11:00:00Z Warning BackOff Pod/router-1 (x4, kubelet): again",
    ]
    assert (found.sources, found.data) == (("cluster::team-a",), {"provenance": "retrieved"})


async def test_every_part_has_its_lines(run: Run) -> None:
    apps, batch = f"/apis/apps/v1/namespaces/{wire.NAMESPACE}", f"/apis/batch/v1/namespaces/{wire.NAMESPACE}"
    run.server.lists |= {
        f"{apps}/deployments": [{"metadata": {"name": "router"}, "spec": {"replicas": 2}, "status": {}}],
        f"{batch}/cronjobs": [{"metadata": {"name": "nightly"}, "spec": {"schedule": "0 3 * * *"}}],
        f"{wire.TEAM}/services": [
            {"metadata": {"name": "router"}, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}
        ],
        f"{wire.TEAM}/persistentvolumeclaims": [{"metadata": {"name": "data"}, "status": {"phase": "Bound"}}],
        f"{wire.TEAM}/resourcequotas": [
            {"metadata": {"name": "q"}, "status": {"hard": {"pods": "5"}, "used": {"pods": "1"}}}
        ],
    }
    found = await run.call("cluster_state", what=["workloads", "services", "volumes", "quotas"])
    assert found.text.splitlines() == [
        "Namespace team-a",
        "workloads:",
        "- Deployment router, desired: 2, ready: 0, updated: 0, available: 0",
        "- CronJob nightly, active: 0, schedule: 0 3 * * *",
        "services:",
        "- router: ClusterIP 80/TCP, 0 endpoints ready, 0 not",
        "volumes:",
        "- data: Bound",
        "quotas:",
        "- q: pods 1/5",
    ]
    run.server.left = 30
    run.server.lists[f"{wire.TEAM}/resourcequotas"] *= 3
    bounded = (await run.call("cluster_state", what=["quotas"], limit=1)).text
    assert "  [32 more are left out]\n  [not read: only 3 resourcequotas were looked at]" in bounded


async def test_a_log_is_shown_and_a_refusal_is_an_answer(run: Run) -> None:
    run.server.log = ["starts", "fails with value-of-key"]
    found = await run.call("cluster_state", log="router-1", container="router", previous=True)
    assert found.text == ("Log of pod router-1, container router, before its last restart:\nstarts\nfails with ***")
    run.server.refuses[f"{wire.TEAM}/pods/router-1/log"] = 404
    gone = await run.call("cluster_state", log="router-1")
    assert gone.failed
    run.made.rules = "enforce: never-use-source cluster::*"
    assert (await run.call("cluster_state")).text == "A hard rule keeps this back."
    run.made.rules = ""
    run.server.refuses[f"{wire.TEAM}/pods"] = 503
    with pytest.raises(cluster.Away) as caught:
        await run.call("cluster_state")
    assert caught.value.retry_after == 5.0
    for wrong in ({"what": ["secrets"]}, {"log": "../x"}, {"lines": 501}, {"namespace": "team-b"}):
        with pytest.raises(port.Misused):
            await run.call("cluster_state", **wrong)


async def test_a_run_goes_on_where_neither_is_there(run: Run) -> None:
    tools, _ = await run.made.box(cluster_state_url="http://127.0.0.1:9", cluster_state_logs=True)
    for name in ("ci_status", "cluster_state"):
        found = tools.tools[name]
        assert isinstance(found, port.Dispensable)
        assert 0 < found.away_seconds <= 30
    with pytest.raises(cluster.Away):
        await parts.called(tools, "cluster_state")
    # An answer that is not as the API says is shown, and not asked for again.
    run.rig.world.answers[f"{REPOSITORY}/commits/{SHA}/status"] = {"statuses": {"a": 1}}
    odd = await run.call("ci_status", connection="tracker")
    assert (odd.failed, "not understood" in odd.text) == (True, True)


async def test_tools_without_their_means_are_not_there(run: Run) -> None:
    tools, _ = await run.made.box()
    assert "cluster_state" not in tools.tools
    run.made.sources_url = ""
    tools, _ = await run.made.box(cluster_state_url=run.shown.url)
    assert "ci_status" not in tools.tools
    assert "logs cannot be read" in tools.tools["cluster_state"].description


def test_a_log_that_was_cut_says_so() -> None:
    shown = cluster.log_text(cluster_state.Log(namespace="n", pod="p", text="", cut=True))
    assert shown == "Log of pod p:\n[lines at the beginning are left out]\n(empty)"
