"""Tasks whose reconciliation fails end in a status that a person sees, and do not block other tasks."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

import kube
from controllers import events, metrics, queue
from controllers.pendingtask import cache, failures, observed, task_index
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.slots import router_use, scheduler
from crds import pendingtask
from tests.operator.conftest import Space, until
from tests.operator.knowledge import Knowledge
from tests.operator.process import Operator

pytestmark = [pytest.mark.apiserver, pytest.mark.services]
Start = Callable[..., AbstractContextManager[Operator]]
NEVER = "9999-12-31T00:00:00Z"


def wall() -> datetime:
    return datetime.now(UTC)


def conditions(space: Space, name: str) -> dict[str, tuple[str, str]]:
    found = space.get(name).get("status", {}).get("conditions", ())
    return {one["type"]: (one["status"], one["reason"]) for one in found}


def test_an_object_that_cannot_be_parsed_says_so_and_is_served_once_it_can(
    space: Space, start: Start, knowledge: Knowledge
) -> None:
    space.submit("odd", "INFO")
    space.edit_status("odd", {"scheduledFor": NEVER})
    with start() as operator:
        space.submit("fine", "INFO")
        until(lambda: space.phase("fine") == "Done", "the other one is served")
        until(lambda: conditions(space, "odd") == {"Accepted": ("False", "Unreadable")}, "it says so")
        (accepted,) = space.status("odd")["conditions"]
        assert accepted["message"].startswith("Field: status.scheduledFor. ")
        assert operator.metric('jervis_operator_undecided_total{why="unreadable"}') == 1
        version = space.get("odd")["metadata"]["resourceVersion"]
        space.submit("later", "INFO")
        until(lambda: space.phase("later") == "Done", "others go on")
        assert space.get("odd")["metadata"]["resourceVersion"] == version, "it is written once"
        space.edit_status("odd", {"scheduledFor": None})
        until(lambda: space.phase("odd") == "Done", "it is served now")
        assert conditions(space, "odd")["Accepted"] == ("True", "Readable")


async def failing(space: Space, kubeconfig: Path, name: str, times: int) -> tuple[list[float], metrics.Metrics]:
    """So many looks at the task end in an error of ours."""
    loaded = kube.configuration(str(kubeconfig))
    measured = metrics.Metrics(prometheus_client.CollectorRegistry())
    async with kube.session(loaded, fence=lambda: None) as http:
        api = kube.Kube(loaded, http, fence=lambda: None)
        tasks, workloads = task_index.Tasks(wall), loads.Workloads(space.name)
        users = router_use.UserActivity(
            None,
            needed=lambda: False,
            changed=lambda: None,
            answered=lambda _: None,
            wall=wall,
            monotonic=time.monotonic,
        )
        book = scheduler.SlotScheduler(
            tasks,
            observed.Limits(),
            list,
            workloads=workloads,
            readings=(),
            users=users,
            wall=wall,
            monotonic=time.monotonic,
        )
        work: queue.WorkQueue[str] = queue.WorkQueue(time.monotonic)
        known = cache.TaskCache(
            api,
            members={space.name},
            work=work,
            tasks=tasks,
            workloads=workloads,
            book=book,
            cancel_reading=lambda uid: None,
            monotonic=time.monotonic,
        )
        recorder = events.Recorder(api, clock=wall, monotonic=time.monotonic, dropped=lambda _: None)
        edge = failures.Failures(api, known, recorder=recorder, measured=measured, epoch=lambda: 0, wall=wall)
        raw = await api.get(kube.TASKS, space.name, name)
        known.take(raw)
        waits = []
        for _ in range(times):
            try:
                raise KeyError("the text of a task")
            except KeyError as error:
                waits.append(await edge.failed(raw["metadata"]["uid"], error))
    return waits, measured


async def test_a_task_that_trips_an_error_of_ours_is_handed_to_a_person(
    space: Space, start: Start, knowledge: Knowledge, kubeconfig: Path
) -> None:
    space.submit("odd", "INFO", messages=[{"id": "m1", "text": "hello"}], approval={"verdict": "Approved"})
    waits, _ = await failing(space, kubeconfig, "odd", 4)
    assert waits == [5, 15, 30, 60]
    assert "status" not in space.get("odd")
    waits, measured = await failing(space, kubeconfig, "odd", 6)
    raw = space.get("odd")
    task = pendingtask.PendingTask.model_validate(raw)
    assert (task.status.phase, task.status.user_task.kind if task.status.user_task else "") == ("UserTask", "Failure")
    assert task.status.user_task is not None
    assert task.status.user_task.request_id == task.status.request_id
    assert conditions(space, "odd")["WaitingForUser"] == ("True", "Failure")
    assert "KeyError in failing, line " in raw["status"]["result"]["summary"]
    assert "the text of a task" not in str(raw["status"])
    assert measured.undecided.labels("failed")._value.get() == 1
    with start():
        space.submit("other", "INFO")
        until(lambda: space.phase("other") == "Done", "the others go on")
        assert space.phase("odd") == "UserTask", "neither the message nor the approval that were there decide"
        decision: dict[str, Any] = {"verdict": "Approved", "requestId": task.status.request_id}
        space.edit("odd", {"approval": decision})
        until(lambda: space.phase("odd") == "Done", "it is tried again, from qualification")
        assert [one.content for one in knowledge.requests].count("INFO") == 2
