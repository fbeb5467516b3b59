"""A run's Job that somebody else suspends: a person, or Kueue (played here). Real apiserver, real operator process."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controllers.pendingtask import job
from tests.operator.conftest import Space
from tests.operator.kubelet import Kubelet, Work
from tests.operator.process import Start
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
CHAT = {"type": "UserInputProcessing", "mode": "Foreground"}
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
    space: Space, start: Start, gpu: str, work: Work
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(IDENTITY="operator-0") as operator:
        space.backend(gpu, slots=1)
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


def test_let_go_while_the_slot_is_taken_it_waits_for_one(space: Space, start: Start, gpu: str, work: Work) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start():
        space.backend(gpu, slots=1)
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


def test_a_queued_job_is_created_suspended_and_runs_when_kueue_says_so(
    space: Space, start: Start, gpu: str, work: Work
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(**QUEUED):
        space.backend(gpu, slots=1)
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


def test_a_queued_run_that_is_held_loses_its_job_and_goes_on_in_another(
    space: Space, start: Start, gpu: str, work: Work
) -> None:
    with Kubelet(space.api, space.name, work) as kubelet, start(**QUEUED):
        space.backend(gpu, slots=1)
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
