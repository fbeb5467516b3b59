"""The warm pool on a real apiserver: Jobs in advance, one write that claims one, one pod for one run."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import kube
from contracts.api import warm_assignment
from contracts.tokens import keyring, runtoken
from controllers.pendingtask import job
from crds import labels
from tests.controllers import build
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
    pool_of,
    ready,
    running,
    start,
    waiting,
)
from tests.operator.process import Operator, Start
from tests.waiting import until

__all__ = ["asking", "start"]
pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def test_a_run_gets_a_waiting_pod_and_is_a_run_as_any(space: Space, start: Start, work: Work, asking: Asking) -> None:
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(slots=1, WARM_POOL=2) as operator:
        ready(operator, 2)
        assert operator.metric('jervis_operator_gpu_slots{state="free"}') == 1, "a waiting pod takes no slot"
        before = {one.metadata.name for one in waiting(space)}
        space.bring("Orchestrating", "ask", **CHAT, activeDeadlineSeconds=100)
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
            space.bring("Orchestrating", "ask", **CHAT)
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
            space.bring("Orchestrating", "ask", **CHAT)
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
        space.bring("Orchestrating", "ask", **CHAT)
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
        space.bring("Orchestrating", "ask", **CHAT, activeDeadlineSeconds=100)
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
        space.bring("Orchestrating", "ask", **CHAT)
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
    async with leading(space, **local) as (config, to):
        pools = [pool_of(to, config.template()) for _ in range(2)]
        await pools[0].reconcile_once()
        (made,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        for pool in pools:
            pool.observe_job(made)
            pool.observe_pod(running(made))
        assert [len(pool.idle()) for pool in pools] == [1, 1]
        first = await pools[0].claim(build.task(name="one", namespace=space.name, uid="u-1"), 1)
        second = await pools[1].claim(build.task(name="two", namespace=space.name, uid="u-2"), 1)
        assert first is not None
        assert second is None
        (now,) = [raw async for raw in to.api.each(kube.JOBS, space.name)]
        assert now["metadata"]["labels"][job.UID_LABEL] == "u-1"
        # A deletion with an older version leaves it alone, too.
        pools[1].size = 0
        await pools[1].reconcile_once()
        assert [raw async for raw in to.api.each(kube.JOBS, space.name)]


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
    space: Space, start: Start, work: Work, keys: Path, asking: Asking
) -> None:
    own = {"WARM_POOL": 2, "JOB_SERVICE_ACCOUNT": "default", "RUN_TOKEN_KEYS": keys}
    with Kubelet(space.api, space.name, work, asking) as kubelet, start(**own) as operator:
        ready(operator, 2)
        first, second = (Asks(space, operator, pod).begin() for pod in kubelet.pods())
        space.bring("Orchestrating", "ask", **CHAT, activeDeadlineSeconds=100)
        (run,) = claimed(space)
        got, other = sorted(
            (first, second), key=lambda one: one.pod.metadata.owner_references[0].uid != run.metadata.uid
        )
        answer = got.result()
        assert answer.status_code == 200
        given = warm_assignment.Given.model_validate_json(answer.content)
        assert given.environment["JERVIS_TASK_UID"] == space.get("ask")["metadata"]["uid"]
        assert given.environment["JERVIS_ATTEMPT"] == "1"
        assert given.environment["JERVIS_WALL_CLOCK_SECONDS"] == "100"
        ring = keyring.Keyring(keys, time.monotonic)
        signed = runtoken.Verifier(ring, lambda: datetime.now(UTC), runtoken.ROUTER).verify(given.token)
        assert (signed.task_uid, signed.attempt) == (given.environment["JERVIS_TASK_UID"], 1)
        assert space.core.list_namespaced_secret(space.name).items == [], "it is in no Secret"
        again = warm_assignment.Given.model_validate_json(got.ask().content)
        assert again.environment == given.environment, "an answer that was lost is given again"
        assert other.ask().status_code == 204, "nothing for the pod of another Job"
        # Tokens of the account that are for another audience, or for no pod, open nothing.
        for token in (space.ticket("default"), space.ticket("default", warm_assignment.AUDIENCE), "x"):
            assert got.ask(token).status_code == 401
        space.submit("next", **CHAT)  # ends the other's wait
        assert other.result().status_code == 200
        work.done.add("ask")
        until(lambda: space.phase("ask") == "Completed", "it has answered")
        assert got.ask().status_code in (204, 401), "nothing is given to a run that has ended"
