"""The warm pool when something fails: pods that do not reach the operator, keys, refusals, a pool that is gone."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

import kube
from contracts.tokens import runtoken
from controllers.pendingtask import decision, job, observed, warm, workloads
from controllers.pendingtask import handover as handing
from controllers.pendingtask.effects import executor, run_token
from crds import labels, pendingtask
from tests import httpserver
from tests.operator import accounts
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, Work
from tests.operator.pods import (
    CHAT,
    Asking,
    ask,
    asking,
    bound,
    claimed,
    leading,
    pod_of,
    pool_of,
    ready,
    running,
    start,
    waiting,
)
from tests.operator.process import Start
from tests.waiting import until

__all__ = ["asking", "start"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def test_a_pod_that_never_reached_the_operator_gets_no_run(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    work.done.add("ask")
    asking.cut = True
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(WARM_POOL=1) as operator:
        until(lambda: [one.status.phase for one in kubelet.pods()] == ["Running"], "its container runs")
        space.bring("Completed", "ask", **CHAT)
        assert claimed(space) == []
        assert operator.metric("jervis_warm_pool_misses_total") == 1
        assert operator.metric("jervis_warm_pool_idle") == 0
        asking.cut = False
        ready(operator, 1)


def test_a_run_whose_pod_does_not_take_it_is_launched_without_the_pool(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    work.done |= {"ask", "next"}
    asking.mute = True  # it has reached the operator once
    with (
        Kubelet(space.api, space.name, work, asking) as kubelet,
        start(WARM_POOL=2, HANDOVER_SECONDS=0.5) as operator,
    ):
        ready(operator, 2)
        space.bring("Completed", "ask", **CHAT)
        assert space.status("ask")["attempt"] == 1, "no run was lost"
        assert claimed(space) == []
        assert operator.metric("jervis_warm_pool_untaken_total") == 1
        space.bring("Completed", "next", **CHAT)
        assert operator.metric("jervis_warm_pool_claimed_total") == 1
        assert kubelet.order.count("next") == 1


def _no_keys() -> runtoken.Ring:
    raise runtoken.Unusable("there is no key")


async def test_keys_that_sign_nothing_claim_no_pod_and_are_no_error_of_the_server(
    space: Space, local: dict[str, Any]
) -> None:
    async with leading(space, run_token_keys="unused", **local) as (config, to):
        template, signer = config.template(), runtoken.Signer(_no_keys, lambda: datetime.now(UTC))
        pool = pool_of(to, template)
        known = workloads.Workloads(space.name)
        effects = executor.ClusterEffects(
            to.api,
            to.memory,
            known,
            template,
            tokens=run_token.RunTokens(to.api, known, template, signer),
            clock=lambda: datetime.now(UTC),
            created=lambda: None,
            token=lambda: to.lease.token,
            pool=pool,
        )
        await pool.reconcile_once()
        (made,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        pod = await to.api.create(kube.PODS, space.name, pod_of(made))
        pool.observe_job(made)
        pool.observe_pod(running(made, pod))
        assert len(pool.idle()) == 1
        name = space.submit("ask", **CHAT)["metadata"]["name"]
        space.edit_status(name, {"phase": "DispatchedGpu", "attempt": 1, "dispatch": {"jobName": "", "backend": ""}})
        task = pendingtask.PendingTask.model_validate(space.get(name))
        named = job.name(name, task.metadata.uid, 1)
        found = await effects.launch(task, decision.Launch(1, named), again=False)
        assert isinstance(found, observed.TokenNotWritten), "the task says why"
        assert {one.metadata.name for one in space.jobs()} == {made["metadata"]["name"], named}
        assert [one.metadata.name for one in waiting(space)] == [made["metadata"]["name"]]
        await to.api.delete(kube.JOBS, space.name, named)
        # Keys that become unusable after the claim.
        run = await pool.claim(task, 1)
        assert run is not None
        space.edit_status(name, {"dispatch": {"jobName": run["metadata"]["name"]}})
        asked = handing.Handover(
            to.api, pool, template, account="default", signer=signer, admitted=None, monotonic=time.monotonic
        )
        application = web.Application()
        asked.serve(application)
        token = bound(space, pod["metadata"]["name"], pod["metadata"]["uid"])
        async with httpserver.serving(application) as url:
            answer = await asyncio.to_thread(ask, int(url.rpartition(":")[2]), token)
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "there is no key"
        seen = await to.api.get(kube.PODS, space.name, pod["metadata"]["name"])
        assert seen["metadata"]["annotations"][labels.HANDOVER] == warm.ASKED, "it has no task"


async def test_a_refused_object_is_logged_and_pauses_grow(
    space: Space, local: dict[str, Any], kubeconfig: Path, tmp_path: Path
) -> None:
    account = accounts.Account(space.api, space.name)
    kept = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "patch"]}
    account.allow(space.name, [one for one in accounts.RULES if one["apiGroups"] != ["batch"]] + [kept])
    local["kubeconfig"] = str(account.kubeconfig(kubeconfig, tmp_path / "limited"))
    now = 0.0
    async with leading(space, **local) as (config, to):
        refused = replace(config.template(), labels={"team": "no label value"})
        pool = pool_of(to, refused, monotonic=lambda: now)
        tries = list[float]()
        for second in range(400):
            now = float(second)
            with capture_logs() as logs:
                await pool.reconcile_once()
            tries += [now] if [one for one in logs if "not complete" in one["event"]] else []
        assert tries == [0, 5, 15, 35, 75, 155, 315]
        # What cannot be marked or deleted keeps nothing from being created.
        pool = pool_of(to, config.template(), monotonic=lambda: now)
        other = warm.manifest("0" * 10, config.template(), "http://another", to.lease.token)
        old = await to.api.create(kube.JOBS, space.name, other)
        pod = await to.api.create(kube.PODS, space.name, pod_of(old))
        claimed_ = {
            **old,
            "metadata": {**old["metadata"], "name": "claimed", "labels": dict(old["metadata"]["labels"])},
        }
        claimed_["metadata"]["labels"] |= {job.UID_LABEL: "u-1", job.TASK_LABEL: "no label value"}
        pool.observe_job(claimed_)
        pool.observe_pod(pod)
        pool.observe_job(old)
        with capture_logs() as logs:
            await pool.reconcile_once()
        assert [one["event"] for one in logs if one["log_level"] == "warning"] == [
            "a pod does not get the labels of its run",
            "a warm Job is not deleted",
        ]
        assert len(space.jobs()) == 2, "one is created"


def test_a_suspended_run_goes_on_without_the_pool_that_is_gone(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet:
        with start(WARM_POOL=1, IDENTITY="operator-0") as operator:
            ready(operator, 1)
            space.bring("Orchestrating", "ask", **CHAT)
            space.edit("ask", {"suspend": True})
            until(lambda: space.phase("ask") == "ReadyForGpu", "it is suspended")
        work.done.add("ask")
        asking.cut = True  # the NetworkPolicy of the pool is gone, too
        with start(IDENTITY="operator-0"):
            space.edit("ask", {"suspend": False})
            until(lambda: space.phase("ask") == "Completed", "it goes on")
            assert space.status("ask")["attempt"] == 1
            assert [one for one in space.jobs() if warm.named(one.metadata.name)] == []
        assert len(kubelet.seen) == 2
