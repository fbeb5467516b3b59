"""What a cluster does to a run behind the operator's back, and backends that are taken out of service."""

from __future__ import annotations

import pytest

from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, answered, never
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]


def reasons(space: Space) -> set[str]:
    """Of the backend's conditions."""
    return {one["reason"] for one in space.get("gpu-0", "gpubackends")["status"]["conditions"]}


def test_a_job_that_is_deleted_by_hand_is_requeued_and_counts_once(space: Space, start: Start, gpu: str) -> None:
    with Kubelet(space.api, space.name, never) as kubelet, start():
        space.backend(gpu, slots=1)
        space.bring("Orchestrating", "run")
        (first,) = space.jobs()
        space.batch.delete_namespaced_job(first.metadata.name, space.name, propagation_policy="Background")
        until(lambda: space.status("run")["attempt"] == 2, "the next run follows")
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert space.status("run")["attempt"] == 2
        assert [attempt for _, attempt in kubelet.seen.values()] == ["1", "2"]
        assert space.events("run").count("Drained") == 1, "its pod could save its checkpoint"


def test_a_job_that_is_deleted_before_it_runs_is_made_again_as_the_same_run(
    space: Space, start: Start, gpu: str
) -> None:
    with Kubelet(space.api, space.name) as kubelet, start():
        kubelet.absent = True
        space.backend(gpu, slots=1)
        space.submit("run")
        until(lambda: space.phase("run") == "DispatchedGpu" and space.jobs() != [], "its Job waits for a node")
        (first,) = space.jobs()
        space.batch.delete_namespaced_job(first.metadata.name, space.name, propagation_policy="Background")
        until(lambda: [one.metadata.uid for one in space.jobs()] not in ([], [first.metadata.uid]), "it is there again")
        kubelet.absent = False
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert space.status("run")["attempt"] == 1, "it was not seen to run before"


def test_a_pod_that_is_evicted_is_replaced_within_the_same_run(space: Space, start: Start, gpu: str) -> None:
    """By the Job, whose policy ignores disruptions; the checkpoint is that of the run."""
    with Kubelet(space.api, space.name, never) as kubelet, start():
        space.backend(gpu, slots=1)
        space.bring("Orchestrating", "run")
        (pod,) = kubelet.pods()
        space.core.delete_namespaced_pod(pod.metadata.name, space.name, grace_period_seconds=0)
        until(lambda: [one.metadata.uid for one in kubelet.pods()] not in ([], [pod.metadata.uid]), "another pod")
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it is completed")
        assert (space.status("run")["attempt"], len(kubelet.seen)) == (1, 1)


def test_background_that_never_came_to_life_gives_its_slot_back_and_a_users_task_keeps_it(
    space: Space, start: Start, gpu: str
) -> None:
    """Also when the time was over while no operator was there."""
    with Kubelet(space.api, space.name) as kubelet:
        kubelet.absent = True
        with start(IDENTITY="operator-0") as operator:
            space.backend(gpu, slots=2)
            space.bring("DispatchedGpu", "mail")
            space.submit("user", type="UserInputProcessing", mode="Foreground")
            until(lambda: space.phase("user") == "DispatchedGpu" and len(space.jobs()) == 2, "so does the user's task")
            kept = {one.metadata.uid for one in space.jobs() if one.metadata.name.startswith("user-")}
            operator.kill()
        with start(IDENTITY="operator-0", STALE_SECONDS=1):
            until(lambda: space.phase("mail") == "ReadyForGpu", "it goes back, and waits for the user")
            assert (space.status("mail")["attempt"], "dispatch" in space.status("mail")) == (1, False)
            assert space.conditions("mail")["Dispatched"] == "Stale"
            until(lambda: {one.metadata.uid for one in space.jobs()} == kept, "the user's task keeps slot and Job")
            assert space.phase("user") == "DispatchedGpu"
        # Without the second after which a busy machine would take each of its runs for one that never came to life.
        with start(IDENTITY="operator-0"):
            kubelet.absent = False
            until(lambda: set(space.phases().values()) == {"Completed"}, "both are completed")
            assert {name: space.status(name)["attempt"] for name in ("user", "mail")} == {"user": 1, "mail": 2}
            assert kubelet.duplicates() == []


def test_a_backend_that_drains_keeps_its_run_and_gets_no_other(space: Space, start: Start, gpu: str) -> None:
    soon = {"BACKEND_GONE_SECONDS": 1, "WAIT_REASON_SECONDS": 1}
    with Kubelet(space.api, space.name, never) as kubelet, start(**soon):
        space.backend(gpu, slots=2)
        space.bring("Orchestrating", "run")
        space.edit("gpu-0", {"drain": True}, "gpubackends")
        space.submit("next")
        until(lambda: space.conditions("next").get("Dispatched") == "NoGpuBackend", "nothing is on offer")
        assert space.phase("run") == "Orchestrating"
        kubelet.says = answered
        until(lambda: space.phase("run") == "Completed", "it ends where it is")
        assert (space.status("run")["attempt"], kubelet.drained) == (1, [])
        assert space.phase("next") == "ReadyForGpu"
        space.edit("gpu-0", {"drain": False}, "gpubackends")
        until(lambda: space.phase("next") == "Completed", "the backend serves again")


def test_a_backends_status_is_written_when_it_says_something_new(space: Space, start: Start, gpu: str) -> None:
    with start(PROBE_SECONDS=0.1) as operator:
        space.backend(gpu, slots=1)
        written = space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"]
        probes = "jervis_operator_backend_probes_total"
        before = operator.metric(probes)
        until(lambda: operator.metric(probes) >= before + 10, "it is asked again and again")
        assert space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"] == written
        space.edit("gpu-0", {"url": "http://127.0.0.1:1"}, "gpubackends")
        until(lambda: "Unreachable" in reasons(space), "it says that there is no answer")
        written = space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"]
        before = operator.metric(probes)
        until(lambda: operator.metric(probes) >= before + 2, "it is tried again")
        assert space.get("gpu-0", "gpubackends")["metadata"]["resourceVersion"] == written
