"""The warm pool on a real apiserver: Jobs in advance, one write that claims one, one pod for one run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import web
from kubernetes import client
from structlog.testing import capture_logs

import kube
from controllers import settings
from controllers.pendingtask import decision, job, observed, warm, warm_pool, workloads
from controllers.pendingtask import handover as handing
from controllers.pendingtask.effects import executor, run_token
from controllers.runtime import clients
from crds import handover, keyring, labels, pendingtask, runtoken
from tests.controllers import build
from tests.operator import accounts
from tests.operator.conftest import Space, until
from tests.operator.kubelet import Kubelet, answered
from tests.operator.process import Operator

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}


class Work:
    """What runs say: nothing, until their task is let go."""

    def __init__(self) -> None:
        self.done: set[str] = set()

    def __call__(self, task: str, attempt: int) -> dict[str, Any] | None:
        return answered(task, attempt) if task in self.done else None


@pytest.fixture
def work() -> Work:
    return Work()


class Asking:
    """Asks for the task of each pod, as the program in it does; `mute` pods ask once, and those of `cut` never."""

    def __init__(self, space: Space) -> None:
        self._space, self._tokens = space, dict[str, str]()
        self.port, self.mute, self.cut = 0, False, False

    def __call__(self, pod: dict[str, Any]) -> None:
        asked = labels.HANDOVER in pod["metadata"].get("annotations", {})
        if not self.port or self.cut or (asked and self.mute):
            return
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if uid not in self._tokens:
            self._tokens[uid] = bound(self._space, name, uid)
        with contextlib.suppress(httpx.HTTPError):  # an operator that is gone: it asks again
            ask(self.port, self._tokens[uid])


@pytest.fixture
def asking(space: Space) -> Asking:
    return Asking(space)


@pytest.fixture
def start(start: Start, asking: Asking) -> Start:
    """The operator, which the pods ask."""

    @contextlib.contextmanager
    def begin(**own: object) -> Iterator[Operator]:
        with start(**{"JOB_SERVICE_ACCOUNT": "default", **own}) as operator:
            asking.port = operator.history_port
            yield operator

    return begin


def bound(space: Space, name: str, uid: str) -> str:
    """A token for the handover that is bound to a pod, as the kubelet gets one."""
    pod = client.V1BoundObjectReference(kind="Pod", api_version="v1", name=name, uid=uid)
    wanted = client.V1TokenRequestSpec(audiences=[handover.AUDIENCE], bound_object_ref=pod)
    made: Any = space.core.create_namespaced_service_account_token(
        "default", space.name, client.AuthenticationV1TokenRequest(spec=wanted)
    )
    return str(made.status.token)


def ask(port: int, token: str, wait: int = 0) -> httpx.Response:
    """One request of a pod."""
    url, headers = f"http://127.0.0.1:{port}{handover.PATH}", {"Authorization": f"Bearer {token}"}
    return httpx.get(url, headers=headers, params={"wait": wait}, timeout=120, verify=False)


def waiting(space: Space) -> list[Any]:
    """Jobs that no run has."""
    return [one for one in space.jobs() if one.metadata.labels[labels.TASK_UID] == labels.NO_TASK]


def claimed(space: Space) -> list[Any]:
    """Warm Jobs that a run has."""
    return [
        one
        for one in space.jobs()
        if warm.named(one.metadata.name) and one.metadata.labels[labels.TASK_UID] != labels.NO_TASK
    ]


def ready(operator: Operator, size: int) -> None:
    """Return once so many pods wait."""
    until(lambda: operator.metric("jervis_warm_pool_idle") == size, f"{size} pods wait")


def test_a_run_gets_a_waiting_pod_and_is_a_run_as_any(
    space: Space, start: Start, gpu: str, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(WARM_POOL=2) as operator:
        space.backend(gpu, slots=1)
        ready(operator, 2)
        assert operator.metric('jervis_operator_gpu_slots{state="free"}') == 1, "a waiting pod takes no slot"
        before = {one.metadata.name for one in waiting(space)}
        space.submit("ask", **CHAT, activeDeadlineSeconds=100)
        until(lambda: space.phase("ask") == "Orchestrating", "it runs")
        (run,) = claimed(space)
        assert run.metadata.name in before
        assert run.metadata.labels[job.TASK_LABEL] == "ask"
        assert run.metadata.labels[job.ATTEMPT_LABEL] == "1"
        assert run.metadata.annotations[job.BACKEND_ANNOTATION] == "gpu-0"
        waited = datetime.now(UTC) - run.status.start_time
        assert 100 <= run.spec.active_deadline_seconds <= 101 + waited.total_seconds()
        assert space.status("ask")["dispatch"]["jobName"] == run.metadata.name
        (pod,) = [one for one in kubelet.pods() if one.metadata.labels[job.UID_LABEL] != labels.NO_TASK]
        assert pod.metadata.labels[job.TASK_NAMESPACE_LABEL] == space.name
        assert pod.metadata.owner_references[0].uid == run.metadata.uid
        assert operator.metric('jervis_operator_gpu_slots{state="free"}') == 0
        ready(operator, 2)  # filled again
        assert not {one.metadata.name for one in waiting(space)} & {run.metadata.name}
        work.done.add("ask")
        until(lambda: space.phase("ask") == "Completed", "it has answered")
        assert operator.metric("jervis_warm_pool_claimed_total") == 1
        assert operator.metric("jervis_warm_pool_misses_total") == 0
        assert operator.metric("jervis_operator_jobs_created_total") == 0
        assert kubelet.duplicates() == []
        assert len(kubelet.seen) == 1


def test_without_a_waiting_pod_a_job_is_created(space: Space, start: Start, work: Work, asking: Asking) -> None:
    work.done |= {"a", "b", "c"}
    with Kubelet(space.api, space.name, work, asking) as kubelet:
        kubelet.absent = True  # no node takes a pod: those of the pool do not wait for a task yet
        with start(WARM_POOL=1) as operator:
            until(lambda: len(waiting(space)) == 1, "the Job of the pool is there")
            space.submit("a", **CHAT)
            until(lambda: operator.metric("jervis_warm_pool_misses_total") == 1, "no pod waits")
            kubelet.absent = False
            until(lambda: space.phase("a") == "Completed", "it ran without the pool")
        assert claimed(space) == []
        assert kubelet.duplicates() == []


def test_no_size_has_no_pool_and_removes_what_another_size_left(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet:
        with start(WARM_POOL=2, IDENTITY="operator-0") as operator:
            ready(operator, 2)
            space.submit("ask", **CHAT)
            until(lambda: space.phase("ask") == "Orchestrating", "one has a task")
            ready(operator, 2)
        with start(IDENTITY="operator-0") as operator:
            until(lambda: waiting(space) == [], "the others are gone")
            assert space.phase("ask") == "Orchestrating"
            work.done.add("ask")
            until(lambda: space.phase("ask") == "Completed", "the run of the claimed one ends as any")
            assert operator.metric("jervis_warm_pool_misses_total") == 0
        assert len(kubelet.seen) == 1


def test_a_change_of_the_template_replaces_those_that_wait(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking):
        with start(WARM_POOL=2, IMAGE="localhost/jervis:1", IDENTITY="operator-0") as operator:
            ready(operator, 2)
            space.submit("ask", **CHAT)
            until(lambda: space.phase("ask") == "Orchestrating", "one has a task")
            ready(operator, 2)
        with start(WARM_POOL=2, IMAGE="localhost/jervis:2", IDENTITY="operator-0") as operator:
            ready(operator, 2)

            def images() -> set[str]:
                return {one.spec.template.spec.containers[0].image for one in waiting(space)}

            until(lambda: images() == {"localhost/jervis:2"}, "those that wait have the new image")
            (run,) = claimed(space)
            assert run.spec.template.spec.containers[0].image == "localhost/jervis:1", "a run keeps its own"
            work.done.add("ask")
            until(lambda: space.phase("ask") == "Completed", "it ends as any")


def test_a_pod_that_dies_is_replaced_and_one_with_a_task_is_a_lost_run(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(WARM_POOL=1) as operator:
        ready(operator, 1)
        (first,) = waiting(space)
        kubelet.killed.add(first.metadata.name)
        until(lambda: first.metadata.name not in {one.metadata.name for one in space.jobs()}, "the dead one is deleted")
        ready(operator, 1)
        space.submit("ask", **CHAT)
        until(lambda: space.phase("ask") == "Orchestrating", "it runs")
        (run,) = claimed(space)
        work.done.add("ask")
        kubelet.killed.add(run.metadata.name)
        until(lambda: space.phase("ask") == "Completed", "the next attempt does it")
        assert space.status("ask")["attempt"] == 2
        assert kubelet.duplicates() == []


def test_a_run_that_is_suspended_goes_on_in_the_same_job(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(WARM_POOL=1) as operator:
        ready(operator, 1)
        space.submit("ask", **CHAT, activeDeadlineSeconds=100)
        until(lambda: space.phase("ask") == "Orchestrating", "it runs")
        (run,) = claimed(space)
        space.edit("ask", {"suspend": True})
        until(lambda: space.phase("ask") == "ReadyForGpu", "it is suspended")
        assert space.batch.read_namespaced_job(run.metadata.name, space.name).spec.suspend
        space.edit("ask", {"suspend": False})
        until(lambda: space.phase("ask") == "Orchestrating", "it goes on")
        again = space.batch.read_namespaced_job(run.metadata.name, space.name)
        assert (again.metadata.uid, again.spec.suspend) == (run.metadata.uid, False)
        assert again.spec.active_deadline_seconds == 100, "the time that it waited for a task is over"
        work.done.add("ask")
        until(lambda: space.phase("ask") == "Completed", "it has answered")
        assert space.status("ask")["attempt"] == 1
        assert len(kubelet.seen) == 1


def test_the_job_of_a_task_that_is_deleted_goes(space: Space, start: Start, work: Work, asking: Asking) -> None:
    with Kubelet(space.api, space.name, work, asking), start(WARM_POOL=1) as operator:
        ready(operator, 1)
        space.submit("ask", **CHAT)
        until(lambda: space.phase("ask") == "Orchestrating", "it runs")
        space.delete("ask")
        until(lambda: claimed(space) == [], "its Job is deleted")
        ready(operator, 1)


def test_kill_9_claims_no_two_jobs_for_one_attempt(space: Space, start: Start, asking: Asking) -> None:
    with Kubelet(space.api, space.name, asks=asking) as kubelet:
        with start(WARM_POOL=6, IDENTITY="operator-0") as operator:
            ready(operator, 6)
        for number in range(12):
            space.submit(f"t{number:02}", **CHAT)
        for number in range(4):
            with start(WARM_POOL=6, IDENTITY="operator-0") as operator:
                until(lambda number=number: len(kubelet.seen) > number, "it dispatches")  # type: ignore[misc]
                operator.kill()
        with start(WARM_POOL=6, IDENTITY="operator-0") as operator:
            until(lambda: set(space.phases().values()) == {"Completed"}, "every task ends")
            ready(operator, 6)
        assert kubelet.duplicates() == []
        assert len(kubelet.seen) == 12
        assert claimed(space), "some of them were taken from the pool"


async def test_of_two_claims_of_one_job_one_alone_succeeds(space: Space, local: dict[str, Any]) -> None:
    config = settings.Settings(namespace=space.name, warm_pool=1, **local)
    to = clients.Clients(config)
    to.lease.start()
    await to.acquired.wait()
    try:
        pools = [pool_of(to, config.template()) for _ in range(2)]
        await pools[0].tend()
        (made,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        for pool in pools:
            pool.observe_job(made)
            pool.observe_pod(_running(made))
        assert [len(pool.idle()) for pool in pools] == [1, 1]
        first = await pools[0].claim(build.task(name="one", namespace=space.name, uid="u-1"), 1)
        second = await pools[1].claim(build.task(name="two", namespace=space.name, uid="u-2"), 1)
        assert first is not None
        assert second is None
        (now,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        assert now["metadata"]["labels"][job.UID_LABEL] == "u-1"
        # A deletion with an older version leaves it alone, too.
        pools[1].size = 0
        await pools[1].tend()
        assert [raw async for raw in to.api.each(kube.JOBS, space.name)]
    finally:
        await to.close()


def pool_of(
    to: clients.Clients, template: job.Template, monotonic: Callable[[], float] = lambda: 0.0
) -> warm_pool.WarmPool:
    """A pool of one pod."""
    return warm_pool.WarmPool(
        to.api,
        template,
        size=1,
        url="http://operator",
        token=lambda: to.lease.token,
        measured=to.metrics,
        wall=lambda: datetime.now(UTC),
        monotonic=monotonic,
    )


def _pod_of(made: dict[str, Any]) -> dict[str, Any]:
    """The pod of a warm Job as the Job controller creates it."""
    meta = made["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "metadata": {
            "name": f"{meta['name']}-abcde",
            "labels": made["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [owner],
        },
        "spec": {"containers": [{"name": job.CONTAINER, "image": "fake"}], "nodeName": "fake-node"},
    }


def _running(made: dict[str, Any], pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """The pod of a warm Job as the kubelet reports it, once it has asked."""
    meta = made["metadata"]
    new = {
        "namespace": meta["namespace"],
        "uid": "pod",
        "resourceVersion": "1",
        "creationTimestamp": meta["creationTimestamp"],
    }
    known = pod or {"metadata": {**_pod_of(made)["metadata"], **new}}
    return {
        "metadata": {**known["metadata"], "annotations": {labels.HANDOVER: warm.ASKED}},
        "status": {"phase": "Running", "containerStatuses": [{"name": job.CONTAINER, "state": {"running": {}}}]},
    }


def test_a_pod_that_never_reached_the_operator_gets_no_run(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    work.done.add("ask")
    asking.cut = True
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(WARM_POOL=1) as operator:
        until(lambda: [one.status.phase for one in kubelet.pods()] == ["Running"], "its container runs")
        space.submit("ask", **CHAT)
        until(lambda: space.phase("ask") == "Completed", "it ran without the pool")
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
        space.submit("ask", **CHAT)
        until(lambda: space.phase("ask") == "Completed", "another Job ran it")
        assert space.status("ask")["attempt"] == 1, "no run was lost"
        assert claimed(space) == []
        assert operator.metric("jervis_warm_pool_untaken_total") == 1
        space.submit("next", **CHAT)
        until(lambda: space.phase("next") == "Completed", "the pool gives nothing for a while")
        assert operator.metric("jervis_warm_pool_claimed_total") == 1
        assert kubelet.order.count("next") == 1


def _no_keys() -> runtoken.Ring:
    raise runtoken.Unusable("there is no key")


async def test_keys_that_sign_nothing_claim_no_pod_and_are_no_error_of_the_server(
    space: Space, local: dict[str, Any]
) -> None:
    config = settings.Settings(namespace=space.name, warm_pool=1, run_token_keys="unused", **local)
    template, signer = config.template(), runtoken.Signer(_no_keys, lambda: datetime.now(UTC))
    to = clients.Clients(config)
    to.lease.start()
    await to.acquired.wait()
    runner = web.AppRunner(web.Application())
    try:
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
        await pool.tend()
        (made,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        pod = await to.api.create(kube.PODS, space.name, _pod_of(made))
        pool.observe_job(made)
        pool.observe_pod(_running(made, pod))
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
        asked.serve(runner.app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        token = bound(space, pod["metadata"]["name"], pod["metadata"]["uid"])
        answer = await asyncio.to_thread(ask, runner.addresses[0][1], token)
        assert answer.status_code == 503
        assert answer.json()["error"]["message"] == "there is no key"
        seen = await to.api.get(kube.PODS, space.name, pod["metadata"]["name"])
        assert seen["metadata"]["annotations"][labels.HANDOVER] == warm.ASKED, "it has no task"
    finally:
        await runner.cleanup()
        await to.close()


async def test_a_refused_object_is_logged_and_pauses_grow(
    space: Space, local: dict[str, Any], kubeconfig: Path, tmp_path: Path
) -> None:
    account = accounts.Account(space.api, space.name)
    kept = {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "list", "watch", "create", "patch"]}
    account.allow(space.name, [one for one in accounts.RULES if one["apiGroups"] != ["batch"]] + [kept])
    local["kubeconfig"] = str(account.kubeconfig(kubeconfig, tmp_path / "limited"))
    config = settings.Settings(namespace=space.name, warm_pool=1, **local)
    to = clients.Clients(config)
    to.lease.start()
    await to.acquired.wait()
    now = 0.0
    try:
        refused = replace(config.template(), labels={"team": "no label value"})
        pool = pool_of(to, refused, monotonic=lambda: now)
        tries = list[float]()
        for second in range(400):
            now = float(second)
            with capture_logs() as logs:
                await pool.tend()
            tries += [now] if [one for one in logs if "not complete" in one["event"]] else []
        assert tries == [0, 5, 15, 35, 75, 155, 315]
        # What cannot be marked or deleted keeps nothing from being created.
        pool = pool_of(to, config.template(), monotonic=lambda: now)
        other = warm.manifest("0" * 10, config.template(), "http://another", to.lease.token)
        old = await to.api.create(kube.JOBS, space.name, other)
        pod = await to.api.create(kube.PODS, space.name, _pod_of(old))
        claimed_ = {
            **old,
            "metadata": {**old["metadata"], "name": "claimed", "labels": dict(old["metadata"]["labels"])},
        }
        claimed_["metadata"]["labels"] |= {job.UID_LABEL: "u-1", job.TASK_LABEL: "no label value"}
        pool.observe_job(claimed_)
        pool.observe_pod(pod)
        pool.observe_job(old)
        with capture_logs() as logs:
            await pool.tend()
        assert [one["event"] for one in logs if one["log_level"] == "warning"] == [
            "a pod does not get the labels of its run",
            "a warm Job is not deleted",
        ]
        assert len(space.jobs()) == 2, "one is created"
    finally:
        await to.close()


def test_a_suspended_run_goes_on_without_the_pool_that_is_gone(
    space: Space, start: Start, work: Work, asking: Asking
) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet:
        with start(WARM_POOL=1, IDENTITY="operator-0") as operator:
            ready(operator, 1)
            space.submit("ask", **CHAT)
            until(lambda: space.phase("ask") == "Orchestrating", "it runs")
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


class Asks:
    """A pod that asks the operator for its task, as the program in it does."""

    def __init__(self, space: Space, operator: Operator, pod: Any) -> None:
        self.pod = pod
        self._port = operator.history_port
        self._token = bound(space, pod.metadata.name, pod.metadata.uid)
        self.answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._ask)

    def begin(self) -> Asks:
        self._thread.start()
        return self

    def result(self) -> httpx.Response:
        self._thread.join()
        assert self.answer is not None
        return self.answer

    def ask(self, token: str = "", wait: int = 0) -> httpx.Response:
        return ask(self._port, token or self._token, wait)

    def _ask(self) -> None:
        self.answer = self.ask(wait=20)
        while self.answer.status_code == 204:
            self.answer = self.ask(wait=20)


def test_the_pod_of_a_claimed_job_alone_gets_the_task(
    space: Space, start: Start, work: Work, tmp_path: Path, asking: Asking
) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    (keys / "signing").write_text("signing-" * 8)
    own = {"WARM_POOL": 2, "JOB_SERVICE_ACCOUNT": "default", "RUN_TOKEN_KEYS": keys}
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(**own) as operator:
        ready(operator, 2)
        first, second = (Asks(space, operator, pod).begin() for pod in kubelet.pods())
        space.submit("ask", **CHAT, activeDeadlineSeconds=100)
        until(lambda: space.phase("ask") == "Orchestrating", "it runs")
        (run,) = claimed(space)
        got, other = sorted(
            (first, second), key=lambda one: one.pod.metadata.owner_references[0].uid != run.metadata.uid
        )
        answer = got.result()
        assert answer.status_code == 200
        given = handover.Given.model_validate_json(answer.content)
        assert given.environment["JERVIS_TASK_UID"] == space.get("ask")["metadata"]["uid"]
        assert given.environment["JERVIS_ATTEMPT"] == "1"
        assert given.environment["JERVIS_WALL_CLOCK_SECONDS"] == "100"
        ring = keyring.Keyring(keys, time.monotonic)
        signed = runtoken.Verifier(ring, lambda: datetime.now(UTC), runtoken.ROUTER).verify(given.token)
        assert (signed.task_uid, signed.attempt) == (given.environment["JERVIS_TASK_UID"], 1)
        assert space.core.list_namespaced_secret(space.name).items == [], "it is in no Secret"
        again = handover.Given.model_validate_json(got.ask().content)
        assert again.environment == given.environment, "an answer that was lost is given again"
        assert other.ask().status_code == 204, "nothing for the pod of another Job"
        # Tokens of the account that are for another audience, or for no pod, open nothing.
        for token in (space.ticket("default"), space.ticket("default", handover.AUDIENCE), "x"):
            assert got.ask(token).status_code == 401
        space.submit("next", **CHAT)  # ends the other's wait
        assert other.result().status_code == 200
        work.done.add("ask")
        until(lambda: space.phase("ask") == "Completed", "it has answered")
        assert got.ask().status_code in (204, 401), "nothing is given to a run that has ended"
