"""The index of tasks: start of wait and reasons of waiting tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from controllers.pendingtask import task_index
from crds.phases import Phase
from tests.controllers import build


def known(*rows: tuple[str, Phase, int, dict[str, Any]]) -> task_index.Tasks:
    """Tasks as (uid, phase, seconds in it, spec)."""
    tasks = task_index.Tasks(lambda: build.NOW)
    for uid, phase, seconds, spec in rows:
        entered = (build.NOW - timedelta(seconds=seconds)).isoformat()
        one = build.task(phase, spec=spec, status={"phaseTimes": {phase.value: entered}}, uid=uid, name=uid)
        assert tasks.observe(one.wire())
    return tasks


def ages(tasks: task_index.Tasks, phase: Phase) -> list[int | None]:
    """Seconds for Foreground and Background."""
    return [None if since is None else int(build.NOW.timestamp()) - since for since in tasks.oldest(phase)]


def test_the_oldest_of_each_lane_in_each_phase() -> None:
    chat = {"type": "UserInputProcessing"}
    tasks = known(
        ("a", Phase.READY_FOR_GPU, 10, {}),
        ("b", Phase.READY_FOR_GPU, 70, {}),
        ("c", Phase.READY_FOR_GPU, 5, chat),
        ("d", Phase.READY_FOR_QUALIFICATION, 300, {"mode": "Foreground"}),
    )
    assert ages(tasks, Phase.READY_FOR_GPU) == [5, 70]
    assert ages(tasks, Phase.READY_FOR_QUALIFICATION) == [300, None]
    assert ages(tasks, Phase.NEW) == [None, None]
    tasks.forget("b")
    assert ages(tasks, Phase.READY_FOR_GPU) == [5, 10]


def test_a_task_that_its_user_holds_is_not_waiting_for_us() -> None:
    tasks = known(("a", Phase.READY_FOR_GPU, 10, {}), ("b", Phase.READY_FOR_GPU, 70, {"suspend": True}))
    assert ages(tasks, Phase.READY_FOR_GPU) == [None, 10]


def test_a_new_task_waits_since_it_was_created() -> None:
    tasks = task_index.Tasks(lambda: build.NOW)
    tasks.observe(build.task().wire())
    assert ages(tasks, Phase.NEW) == [None, 3600]


def test_every_phase_that_waits_for_us_is_measured() -> None:
    for_others = {Phase.SCHEDULED, Phase.USER_TASK, Phase.DONE, Phase.COMPLETED, Phase.ERROR}
    at_work = {Phase.QUALIFYING, Phase.DISPATCHED_GPU, Phase.ORCHESTRATING}
    assert set(task_index.WAITING) == set(Phase) - for_others - at_work


def test_links_that_are_not_finished_are_counted_by_client() -> None:
    index = task_index.Tasks(lambda: build.NOW)
    phases = [Phase.NEW, Phase.READY_FOR_QUALIFICATION, Phase.QUALIFYING, Phase.USER_TASK, Phase.READY_FOR_GPU]
    for number, (phase, client) in enumerate([(one, "acme") for one in phases] + [(Phase.NEW, "globex")]):
        for type_ in ("LinkProcessing", "EmailProcessing"):
            raw = build.task(phase, spec={"type": type_, "clientId": client}, uid=f"{type_}-{number}").wire()
            assert index.observe(raw)
    assert (index.links("acme"), index.links("globex"), index.links("x")) == (4, 1, 0)
