"""Tasks whose reconciliation fails end in a status that a person sees, and do not block other tasks."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from kubernetes import client as kubernetes_client

import kube
from controllers import breaker
from controllers.pendingtask import decision, failures, job, observed
from controllers.pendingtask.decide import decide
from crds import pendingtask
from kube import lease
from tests.operator import unwatched
from tests.operator.conftest import Space
from tests.operator.knowledge import Knowledge
from tests.operator.process import Start
from tests.operator.proxy import Proxy
from tests.waiting import until

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
NEVER = "9999-12-31T00:00:00Z"


def conditions(space: Space, name: str) -> dict[str, tuple[str, str]]:
    found = space.get(name).get("status", {}).get("conditions", ())
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def test_an_object_that_cannot_be_parsed_says_so_and_is_served_once_it_can(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    space.submit("odd", "INFO")
    space.edit_status("odd", {"scheduledFor": NEVER})
    with start() as operator:
        space.bring("Done", "fine", "INFO")
        until(lambda: conditions(space, "odd") == {"Accepted": ("False", "Unreadable")}, "it says so")
        (accepted,) = space.status("odd")["conditions"]
        assert accepted["message"].startswith("Field: status.scheduledFor. ")
        assert operator.metric('jervis_operator_undecided_total{why="unreadable"}') == 1
        version = space.get("odd")["metadata"]["resourceVersion"]
        space.bring("Done", "later", "INFO")
        assert space.get("odd")["metadata"]["resourceVersion"] == version, "it is written once"
        space.edit_status("odd", {"scheduledFor": None})
        until(lambda: space.phase("odd") == "Done", "it is served now")
        assert conditions(space, "odd")["Accepted"] == ("True", "Readable")


def test_facts_that_are_not_flat_are_named_in_the_condition(space: Space, start: Start, knowledge: Knowledge) -> None:
    nested = {"nodes": [{"key": "jira::JERV-1", "type": "jira_issue", "properties": {"x": {"y": 1}}}]}
    many = {"nodes": [{"key": f"user:u{number}", "type": "user"} for number in range(65)]}
    with start():
        with pytest.raises(kubernetes_client.ApiException, match=r"spec\.facts\.nodes"):
            space.submit("many", "INFO", facts=many)
        space.bring("Error", "nested", "INFO", facts=nested)
        said = space.condition("nested", "Qualified")["message"]
        assert "Field: spec.facts.nodes.0.properties." in said
        assert "'x' holds an object" in said


def test_an_object_with_a_forged_epoch_is_not_served_and_costs_the_others_nothing(space: Space, start: Start) -> None:
    space.submit("forged", "INFO")
    space.edit_status("forged", {"leaderEpoch": lease.MOST_HEEDED + 1})
    version = space.get("forged")["metadata"]["resourceVersion"]
    with start() as operator:
        space.bring("Done", "fine", "INFO")
        assert operator.metric('jervis_operator_undecided_total{why="forged"}') >= 1
        assert operator.metric("jervis_operator_reconcile_failures_total") == 0, "it is not tried again and again"
        assert operator.metric("jervis_operator_leader_epoch") < lease.MOST_HEEDED
        assert space.get("forged")["metadata"]["resourceVersion"] == version
        space.delete("forged")
        space.bring("Done", "forged", "INFO")


async def test_the_report_of_an_object_that_cannot_be_parsed_outlives_a_lost_write(
    space: Space, local: dict[str, Any], kubeconfig: Path, tmp_path: Path
) -> None:
    space.submit("odd", "INFO")
    space.edit_status("odd", {"scheduledFor": NEVER})
    at = urlsplit(kube.configuration(str(kubeconfig)).host)
    with Proxy(at.hostname or "", at.port or 443) as proxy:
        local["kubeconfig"] = str(unwatched.behind(proxy.address, kubeconfig, tmp_path))
        async with unwatched.working(space, **local) as here:
            proxy.cut()
            here.hear(space.get("odd"))
            await here.until(lambda: here.calls("PATCH", 0) >= 1, "the report finds no apiserver")
            assert conditions(space, "odd") == {}
            proxy.repair()
            await here.until(lambda: conditions(space, "odd") == {"Accepted": ("False", "Unreadable")}, "it says so")
            await here.until(lambda: here.wiring.cache.work.active == 0, "that look has ended")
            assert here.wiring.cache.unreadable == {}
            assert here.metrics.undecided.labels("unreadable")._value.get() == 1


def stumbling(task: pendingtask.PendingTask, state: observed.ObservedState, now: datetime) -> decision.Decision:
    """The decision function with an error in it."""
    if task.metadata.name == "odd":
        raise KeyError("the text of a task")
    return decide(task, state, now)


async def test_a_task_that_trips_an_error_of_ours_is_handed_to_a_person(
    space: Space, start: Start, knowledge: Knowledge, local: dict[str, Any]
) -> None:
    raw = space.submit("odd", "INFO", messages=[{"id": "m1", "text": "hello"}], approval={"verdict": "Approved"})
    async with unwatched.working(space, judge=stumbling, **local) as here:
        work, measured = here.wiring.cache.work, here.metrics
        here.hear(raw)
        for number in range(1, failures.MOST_FAILURES + 2):
            await here.until(lambda at=number: measured.failures._value.get() == at, "a look fails")  # type: ignore[misc]  # mypy infers no type for the default
            await here.until(lambda: work.active == 0, "it has ended")
            assert (len(work), work.sleeping) == (0, 1), "the next one comes later"
            given_up = number >= failures.MOST_FAILURES
            assert space.status("odd").get("phase") == ("UserTask" if given_up else None)
            here.wiring.cache.enqueue(raw["metadata"]["uid"])
        assert measured.undecided.labels("failed")._value.get() == 1, "it is said once"
        here.hear(space.submit("other", "INFO"))
        await here.until(lambda: space.phase("other") == "Done", "the others go on")
    raw = space.get("odd")
    task = pendingtask.PendingTask.model_validate(raw)
    assert task.status.user_task is not None
    assert task.status.user_task.kind == "Failure"
    assert task.status.user_task.request_id == task.status.request_id
    assert conditions(space, "odd")["WaitingForUser"] == ("True", "Failure")
    assert "KeyError in stumbling, line " in raw["status"]["result"]["summary"]
    assert "the text of a task" not in str(raw["status"])
    with start():
        space.bring("Done", "next", "INFO")
        assert space.phase("odd") == "UserTask", "neither the message nor the approval that were there decide"
        given: dict[str, Any] = {"verdict": "Approved", "requestId": task.status.request_id}
        space.edit("odd", {"approval": given})
        until(lambda: space.phase("odd") == "Done", "it is tried again, from qualification")
        assert [one.content for one in knowledge.requests].count("INFO") == 3


async def test_a_dispatch_of_a_task_that_is_being_deleted_is_none(space: Space, local: dict[str, Any]) -> None:
    """It says nothing of whether dispatching works: the circuit breaker counts it neither way. Nor does it go round."""
    made = space.submit("gone", "A question.", type="UserInputProcessing", mode="Foreground")
    name = job.name("gone", made["metadata"]["uid"], 1)
    route = {"decision": "Execute", "reason": "user input"}
    dispatch = {"jobName": name, "backend": "", "threadId": made["metadata"]["uid"]}
    space.edit_status("gone", {"phase": "DispatchedGpu", "attempt": 1, "route": route, "dispatch": dispatch})
    old = space.get("gone")
    space.mark("gone", {"finalizers": ["example.com/keep"]})
    space.delete("gone")
    async with unwatched.working(space, **local) as here:
        circuit, work = here.wiring.cache.scheduler.breaker, here.wiring.cache.work
        for _ in range(circuit.threshold - 1):
            circuit.failed(time.monotonic())
        here.hear(old)
        await here.until(lambda: here.calls("GET", 200) > 0 and work.active == len(work) == 0, "it is looked at")
        assert space.jobs() == []
        assert here.calls("GET", 404) == 2, "its Job was asked for before and after the task was found to leave"
        circuit.failed(time.monotonic())
        assert circuit.state(time.monotonic()) is breaker.State.OPEN, "the failures before it still count"
    space.mark("gone", {"finalizers": None})
