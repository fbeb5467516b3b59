"""GPU slots on a real apiserver: who takes them, who gives them up, also when another client suspends a run's Job."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from controllers.pendingtask import job
from router import status
from tests import httpserver
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, Work, answered
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}


def test_a_user_takes_the_slot_of_a_background_run_which_resumes(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=2) as operator:
        space.submit("low", queuePosition=20)
        space.submit("high", queuePosition=10)
        until(lambda: set(space.phases().values()) == {"Orchestrating"}, "both slots are taken")
        kubelet.lingering.add("low")
        space.submit("user", **CHAT)
        until(lambda: space.conditions("low").get("Preempted") == "SlotClaimed", "the lower one is claimed")
        until(lambda: space.conditions("user").get("Dispatched") == "NoFreeSlot", "the user's task says that it waits")
        claim = space.status("low")["preemption"]
        assert (claim["by"], claim["name"]) == (space.get("user")["metadata"]["uid"], f"{space.name}/user")
        until(lambda: any(one.spec.suspend for one in space.jobs()), "its Job is suspended")
        assert space.phase("user") == "ReadyForGpu", "the slot is not free before the pod is gone"
        kubelet.lingering.clear()
        until(lambda: space.phase("user") == "Orchestrating", "the user's task runs")
        assert space.phase("high") == "Orchestrating"
        assert (space.phase("low"), space.conditions("low")["Dispatched"]) == ("ReadyForGpu", "Preempted")
        assert space.status("user")["dispatch"]["backend"] == "gpu-0"
        work.done |= {"user", "low", "high"}
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        assert {t["metadata"]["name"]: t["status"]["attempt"] for t in space.every()} == dict.fromkeys(
            ("user", "low", "high"), 1
        )
        assert space.status("low")["preemptions"] == 1
        assert "preemption" not in space.status("low")
        assert space.conditions("low")["Preempted"] == "Resumed"
        assert kubelet.drained == ["low"]
        assert len(kubelet.seen) == 3, "the same Job went on"
        assert [reason for reason in space.events("low") if reason == "Preempted"] == ["Preempted"] * 2
        assert operator.metric("jervis_operator_preemptions_total") == 1
        assert operator.metric("jervis_operator_preemption_issue_seconds_count") == 1


def test_the_slot_of_a_deleted_task_is_taken_until_its_pod_is_gone(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1, IDENTITY="operator-0") as operator:
        space.bring("Orchestrating", "gone", **CHAT)
        kubelet.lingering.add("gone")
        assert "finalizers" not in space.get("gone")["metadata"]
        space.delete("gone")
        until(lambda: space.phases() == {}, "the task is gone at once")
        space.bring("ReadyForGpu", "next", **CHAT)
        free = 'jervis_operator_gpu_slots{state="free"}'
        until(lambda: operator.metric(free) == 0, "the pod holds the slot")
        operator.kill()
        with start(IDENTITY="operator-0") as operator:
            until(lambda: operator.metric('jervis_operator_waiting{queue="Gpu"}') == 1, "it waits after a restart too")
            assert operator.metric(free) == 0
            assert space.phase("next") == "ReadyForGpu"
            kubelet.lingering.clear()
            work.done.add("next")
            until(lambda: space.phase("next") == "Completed", "the slot is free")


def test_after_kill_9_at_any_step_of_a_preemption_it_goes_on(space: Space, start: Start, work: Work) -> None:
    steps: list[Callable[[], bool]] = [
        lambda: "preemption" in space.status("low"),
        lambda: any(one.spec.suspend for one in space.jobs()),
        lambda: space.phase("low") == "ReadyForGpu",
    ]
    with Kubelet(space.api, space.name, work) as kubelet:
        with start(slots=1, IDENTITY="operator-0") as operator:
            space.bring("Orchestrating", "low")
            kubelet.lingering.add("low")
            space.submit("user", **CHAT)
            until(steps[0], "the intent is written")
            operator.kill()
        for step in steps[1:]:
            with start(IDENTITY="operator-0") as operator:
                until(step, "the next step is made")
                operator.kill()
            kubelet.lingering.clear()
        with start(IDENTITY="operator-0"):
            until(lambda: space.phase("user") == "Orchestrating", "the user's task runs")
            work.done |= {"user", "low"}
            until(lambda: set(space.phases().values()) == {"Completed"}, "both are completed")
        assert space.status("low")["preemptions"] == 1
        assert kubelet.duplicates() == []
        assert len(kubelet.seen) == 2


def test_a_claim_lapses_with_its_owner_and_the_run_goes_on(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1) as operator:
        space.bring("Orchestrating", "low")
        kubelet.lingering.add("low")
        space.submit("user", **CHAT)
        until(lambda: any(one.spec.suspend for one in space.jobs()), "its Job is suspended")
        space.delete("user")
        until(lambda: not any(one.spec.suspend for one in space.jobs()), "it is let go on")
        assert space.phase("low") == "Orchestrating"
        assert space.conditions("low")["Preempted"] == "Withdrawn"
        assert operator.metric('jervis_operator_preemptions_total{outcome="withdrawn"}') == 1
        work.done.add("low")
        until(lambda: space.phase("low") == "Completed", "it is completed")
        assert space.status("low")["attempt"] == 1


def test_a_run_that_was_claimed_often_enough_is_left_alone(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work), start(slots=1, MAX_PREEMPTIONS=1) as operator:
        space.bring("Orchestrating", "low")
        work.done.add("first")
        space.bring("Completed", "first", **CHAT)
        until(lambda: space.phase("low") == "Orchestrating", "it runs again")
        space.submit("second", **CHAT)
        until(lambda: space.conditions("second").get("Dispatched") == "NoFreeSlot", "the second waits")
        assert operator.metric("jervis_operator_preemption_immune") == 1
        assert "preemption" not in space.status("low")
        work.done |= {"low", "second"}
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        assert space.status("low")["preemptions"] == 1


@pytest.mark.parametrize("how", ["deleted", "unreachable"])
def test_a_run_whose_backend_is_gone_is_requeued_once(
    space: Space, start: Start, gpu: str, work: Work, how: str
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1, BACKEND_GONE_SECONDS=2):
        space.bring("Orchestrating", "run")
        if how == "deleted":
            space.delete("gpu-0", "gpubackends")
        else:
            space.edit("gpu-0", {"url": "http://127.0.0.1:1"}, "gpubackends")
        until(lambda: space.phase("run") == "ReadyForGpu", "it is requeued")
        assert kubelet.drained == ["run"], "it could save its checkpoint"
        work.done.add("run")
        if how == "deleted":
            space.backend(gpu, slots=1)
        else:
            space.edit("gpu-0", {"url": gpu}, "gpubackends")
        until(lambda: space.phase("run") == "Completed", "it runs elsewhere")
        assert space.status("run")["attempt"] == 2


def router() -> AbstractContextManager[httpserver.Recorder]:
    """A router that serves gpu-0."""
    backend = status.Backend(
        name="gpu-0",
        kind="GPU",
        url="http://gpu-0",
        healthy=True,
        circuit="Closed",
        in_flight=1,
        num_parallel=1,
        models=[],
        loaded=[],
    )
    queue = status.Queue(waiting=0, by_priority={}, oldest_seconds=0)
    document = status.Status(backends=[backend], queue=queue).model_dump_json(by_alias=True)
    return httpserver.Recorder(httpserver.fixed(document), method="GET").in_thread()


def test_a_backend_that_only_the_operator_does_not_reach_costs_no_run(space: Space, start: Start, work: Work) -> None:
    with (
        router() as asked,
        Kubelet(space.api, space.name, work) as kubelet,
        start(slots=1, BACKEND_GONE_SECONDS=3, ROUTER_URL=asked.url, IDLE_SECONDS=0),
    ):
        space.bring("Orchestrating", "run")
        before = len(asked.requests)
        space.edit("gpu-0", {"url": "http://127.0.0.1:1"}, "gpubackends")
        until(lambda: len(asked.requests) >= before + 3, "the router was asked for longer than any patience")
        assert (space.phase("run"), kubelet.drained) == ("Orchestrating", [])
        work.done.add("run")
        until(lambda: space.phase("run") == "Completed", "it ends where it is")
        assert space.status("run")["attempt"] == 1


def test_a_pod_of_a_node_that_does_not_answer_is_given_up(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1):
        space.bring("Orchestrating", "run")
        kubelet.lingering.add("run")
        pod = kubelet.pods()[0].metadata.name
        space.core.delete_namespaced_pod(pod, space.name, grace_period_seconds=1)
        work.done.add("run")
        kubelet.says = lambda task, attempt: answered(task, attempt) if attempt == 2 else None
        until(lambda: space.phase("run") == "Completed", "the next attempt runs elsewhere")
        assert space.status("run")["attempt"] == 2
        assert kubelet.duplicates() == []


QUEUED = {"JOB_LABELS": json.dumps({job.QUEUE_LABEL: "gpus"})}


def job_of(space: Space, task: str) -> Any:
    (found,) = [one for one in space.jobs() if one.metadata.labels[job.TASK_LABEL] == task]
    return found


def suspend(space: Space, task: str, suspended: bool) -> None:
    """By hand, or as Kueue does it."""
    body = {"spec": {"suspend": suspended}}
    space.batch.patch_namespaced_job(job_of(space, task).metadata.name, space.name, body)


def dispatched(space: Space, task: str) -> str:
    return space.conditions(task).get("Dispatched", "")


def held(space: Space, task: str) -> bool:
    return (space.phase(task), dispatched(space, task)) == ("ReadyForGpu", "JobSuspended")


def test_it_stays_suspended_while_others_use_its_slot_and_goes_on_as_the_same_run(
    space: Space, start: Start, work: Work
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1, IDENTITY="operator-0") as operator:
        space.bring("Orchestrating", "first", **CHAT)
        suspend(space, "first", True)
        until(lambda: held(space, "first"), "it has given its slot up")
        space.submit("other")
        work.done.add("other")
        until(lambda: space.phase("other") == "Completed", "Background work has the slot and is not held up")
        assert job_of(space, "first").spec.suspend is True
        assert "spec.suspend of the Job is false" in space.condition("first", "Dispatched")["message"]
        operator.kill()
        with start(IDENTITY="operator-0"):
            space.submit("third")
            work.done.add("third")
            until(lambda: space.phase("third") == "Completed", "another operator works")
            assert held(space, "first"), "and leaves it alone as well"
            suspend(space, "first", False)
            until(lambda: space.phase("first") == "Orchestrating", "it runs again")
            work.done.add("first")
            until(lambda: space.phase("first") == "Completed", "it is completed")
        assert space.status("first")["attempt"] == 1
        assert "retry" not in space.status("first")
        assert (kubelet.duplicates(), len(kubelet.seen)) == ([], 3)


def test_let_go_while_the_slot_is_taken_it_waits_for_one(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1):
        space.bring("Orchestrating", "first", **CHAT)
        suspend(space, "first", True)
        until(lambda: held(space, "first"), "it has given its slot up")
        space.bring("Orchestrating", "second", **CHAT)
        suspend(space, "first", False)
        until(lambda: dispatched(space, "first") == "NoFreeSlot", "it waits like any other")
        until(lambda: job_of(space, "first").spec.suspend is True, "its Job does not run without a slot")
        assert job_of(space, "first").metadata.annotations[job.SUSPENDED_ANNOTATION] == job.OPERATOR
        work.done |= {"first", "second"}
        until(lambda: set(space.phases().values()) == {"Completed"}, "it is resumed by itself")
        assert space.status("first")["attempt"] == 1
        assert (kubelet.duplicates(), len(kubelet.seen)) == ([], 2)


def test_a_queued_job_is_created_suspended_and_runs_when_kueue_says_so(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1, **QUEUED):
        for name in ("one", "two"):
            space.submit(name, **CHAT)
        until(lambda: held(space, "one") and held(space, "two"), "both are queued, one slot or not")
        assert [one.spec.suspend for one in space.jobs()] == [True, True]
        assert kubelet.pods() == []
        suspend(space, "two", False)
        until(lambda: space.phase("two") == "Orchestrating", "Kueue has let it go")
        suspend(space, "two", True)
        until(lambda: held(space, "two"), "Kueue has taken it back")
        suspend(space, "two", False)
        suspend(space, "one", False)
        work.done |= {"one", "two"}
        until(lambda: set(space.phases().values()) == {"Completed"}, "all are completed")
        assert [space.status(name)["attempt"] for name in ("one", "two")] == [1, 1]
        assert kubelet.duplicates() == []


def test_a_queued_run_that_is_held_loses_its_job_and_goes_on_in_another(space: Space, start: Start, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(slots=1, **QUEUED):
        space.submit("held", **CHAT)
        until(lambda: held(space, "held"), "it is queued")
        suspend(space, "held", False)
        until(lambda: space.phase("held") == "Orchestrating", "it runs")
        space.edit("held", {"suspend": True})
        until(lambda: space.phase("held") == "ReadyForGpu" and not space.jobs(), "it has stopped")
        space.edit("held", {"suspend": False})
        until(lambda: held(space, "held"), "another Job is queued")
        suspend(space, "held", False)
        work.done.add("held")
        until(lambda: space.phase("held") == "Completed", "it is completed")
        assert kubelet.duplicates() == []
