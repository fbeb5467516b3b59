"""New and Scheduled: when a task starts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from controllers.pendingtask import decision
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import ObservedState
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, routed, task

OPEN = ObservedState(slots=GPU)


def test_new_goes_to_qualification() -> None:
    assert decide(task(), ObservedState(), NOW).phase is Phase.READY_FOR_QUALIFICATION


def test_a_task_that_is_being_deleted_is_left_alone() -> None:
    assert decide(task(deletionTimestamp="2027-03-01T11:59:00Z"), OPEN, NOW) == decision.Decision()


@pytest.mark.parametrize(("minutes", "phase"), [(9, Phase.READY_FOR_QUALIFICATION), (11, Phase.SCHEDULED)])
def test_scheduled_tasks_start_ten_minutes_ahead(minutes: int, phase: Phase) -> None:
    at = (NOW + timedelta(minutes=minutes)).isoformat()
    assert decide(task(spec={"schedule": {"at": at}}), ObservedState(), NOW).phase is phase


def test_a_scheduled_task_sleeps_until_ten_minutes_ahead_and_follows_an_edit_of_at() -> None:
    planned = {"scheduledFor": "2027-03-01T14:00:00Z"}
    waiting = task(Phase.SCHEDULED, spec={"schedule": {"at": "2027-03-01T14:00:00Z"}}, status=planned)
    assert decide(waiting, ObservedState(), NOW).requeue_after == timedelta(minutes=110).total_seconds()
    moved = task(Phase.SCHEDULED, spec={"schedule": {"at": "2027-03-01T12:00:00Z"}})
    assert decide(moved, ObservedState(), NOW).phase is Phase.READY_FOR_QUALIFICATION


def test_a_deferred_task_goes_to_the_gpu_when_due_never_to_qualification_again() -> None:
    due = routed(Phase.SCHEDULED, scheduledFor="2027-03-01T12:05:00Z")
    made = decide(due, OPEN, NOW)
    assert made.phase is Phase.READY_FOR_GPU
    assert after(due, made).scheduled_for is None


@pytest.mark.parametrize("plan", [{"cron": "0 0 31 2 *"}, {"cron": "0 0 * * *", "timeZone": "Middle/Earth"}])
def test_an_impossible_cron_runs_once_and_says_why(plan: dict[str, str]) -> None:
    odd = task(spec={"schedule": plan})
    made = decide(odd, ObservedState(), NOW)
    assert made.phase is Phase.READY_FOR_QUALIFICATION
    condition = after(odd, made).conditions[0]
    assert (condition.reason, condition.status.value) == ("InvalidCron", "False")
    assert "spec.schedule" in condition.message
