"""The phases that wait: when a task starts, which start on a GPU, what a claim books; suspend in every phase."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contracts.api.queue_api import Reason
from controllers.pendingtask import decision, observed, transitions
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, Limits, ObservedState, Outcome
from crds.exit_reasons import ExitReason
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, apply, changed, decided, job, pod, present, routed, task

OPEN = ObservedState(slots=GPU)


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


@pytest.mark.parametrize(
    "phase", [Phase.NEW, Phase.SCHEDULED, Phase.READY_FOR_QUALIFICATION, Phase.READY_FOR_GPU, Phase.USER_TASK]
)
def test_suspend_holds_and_says_so_and_resume_goes_on(phase: Phase) -> None:
    held = task(phase, spec={"suspend": True})
    made = decide(held, OPEN, NOW)
    assert made.phase is None
    held = apply(held, made.status_patch)
    assert decide(held, OPEN, NOW).status_patch == {}
    free = changed(held, spec={"suspend": False})
    resumed = decided(free, OPEN)
    assert resumed.status.conditions[0].status.value == "False"


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_suspend_drains_a_run_and_the_same_job_is_resumed_later(phase: Phase) -> None:
    held = routed(phase, spec={"suspend": True})
    quiet = () if phase is Phase.DISPATCHED_GPU else (pod(),)
    assert decide(held, ObservedState(job=job(), pods=quiet), NOW).effects == (
        decision.SuspendJob("mail-1-0f9a1c2e-1"),
    )
    assert (
        decide(held, ObservedState(job=job(JobState.SUSPENDED), pods=(pod(),)), NOW).requeue_after == 5 or quiet == ()
    )
    back = decided(held, ObservedState(job=job(JobState.SUSPENDED)))
    assert back.status.phase is Phase.READY_FOR_GPU
    assert back.status.dispatch is not None
    free = changed(back, spec={"suspend": False})
    made = decide(free, OPEN, NOW)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    again = apply(free, made.status_patch)
    assert decide(again, ObservedState(job=job(JobState.SUSPENDED)), NOW).effects == made.effects


def test_a_job_that_is_suspended_without_a_reason_goes_on() -> None:
    around = ObservedState(job=job(JobState.SUSPENDED))
    assert decide(routed(Phase.ORCHESTRATING), around, NOW).effects == (decision.ResumeJob("mail-1-0f9a1c2e-1"),)
    launch = decision.Launch(1, "mail-1-0f9a1c2e-1")
    assert decide(routed(Phase.DISPATCHED_GPU), around, NOW).effects == (launch,)


@pytest.mark.parametrize("phase", [Phase.DONE, Phase.COMPLETED, Phase.ERROR])
def test_finished_tasks_are_left_alone(phase: Phase) -> None:
    assert decide(task(phase), OPEN, NOW) == decision.Decision()
    assert decide(task(phase), ObservedState(job=job(JobState.COMPLETE)), NOW) == decision.Decision()


def test_limits_are_settings() -> None:
    around = ObservedState(limits=Limits(qualifying_at_once=1), qualifying=1)
    assert decide(task(Phase.READY_FOR_QUALIFICATION), around, NOW).wait_for is decision.WaitFor.QUALIFIER


def test_foreground_is_dispatched_at_once() -> None:
    waiting = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    for around in (OPEN, ObservedState(slots=GPU, user_active=True, last_user=NOW)):
        assert decide(waiting, around, NOW).phase is Phase.DISPATCHED_GPU


def test_without_any_gpu_foreground_goes_all_the_same_and_books_no_backend() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    status = decided(current, ObservedState(slots=observed.Slots(without_gpu=1))).status
    assert (status.phase, present(status.dispatch).backend) == (Phase.DISPATCHED_GPU, "")


def test_without_any_gpu_and_with_enough_runs_without_one_foreground_waits_and_says_so_once() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    made = decide(current, ObservedState(), NOW)
    assert (made.phase, made.wait_for) == (None, decision.WaitFor.GPU)
    assert present(made.note).reason == "NoGpuBackend"
    assert "at most 2 (operator.settings.runsWithoutGpu)" in present(made.note).message
    assert decide(apply(current, made.status_patch), ObservedState(), NOW) == decision.Decision(
        wait_for=decision.WaitFor.GPU
    )


def test_foreground_without_a_free_slot_waits_and_says_so_once() -> None:
    current, taken = (
        routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"}),
        ObservedState(slots=observed.Slots(total=1)),
    )
    made = decide(current, taken, NOW)
    assert (made.phase, made.wait_for) == (None, decision.WaitFor.GPU)
    assert (present(made.note).reason, present(made.note).warning) == ("NoFreeSlot", False)
    assert decide(apply(current, made.status_patch), taken, NOW) == decision.Decision(wait_for=decision.WaitFor.GPU)


@pytest.mark.parametrize(
    "around",
    [
        ObservedState(slots=GPU, user_active=True),
        ObservedState(slots=GPU, last_user=NOW - timedelta(seconds=29)),
        ObservedState(slots=GPU, in_doubt_since=NOW - timedelta(seconds=29)),
        ObservedState(slots=observed.Slots(total=2)),
        ObservedState(slots=GPU, dispatch_open=False),
    ],
)
def test_background_waits_for_quiet_a_slot_and_the_breaker(around: ObservedState) -> None:
    assert decide(routed(Phase.READY_FOR_GPU), around, NOW) == decision.Decision(wait_for=decision.WaitFor.GPU)


def test_background_goes_after_thirty_seconds_of_quiet_or_of_doubt() -> None:
    long_ago = NOW - timedelta(seconds=30)
    around = ObservedState(slots=GPU, last_user=long_ago, in_doubt_since=long_ago)
    assert decide(routed(Phase.READY_FOR_GPU), around, NOW).phase is Phase.DISPATCHED_GPU


def test_without_any_backend_the_task_says_so_once() -> None:
    current = routed(Phase.READY_FOR_GPU)
    made = decide(current, ObservedState(), NOW)
    assert made.wait_for is decision.WaitFor.GPU
    current = apply(current, made.status_patch)
    assert current.status.conditions[0].reason == "NoGpuBackend"
    assert decide(current, ObservedState(), NOW) == decision.Decision(wait_for=decision.WaitFor.GPU)


def test_a_claim_books_slot_attempt_and_name() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"messages": [{"id": "m1", "text": "hi"}]})
    made = decide(current, OPEN, NOW)
    status = after(current, made)
    assert made.effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    assert status.dispatch is not None
    assert (status.attempt, status.dispatch.job_name, status.dispatch.backend) == (1, "mail-1-0f9a1c2e-1", "gpu-0")
    assert (status.dispatch.thread_id, status.messages_seen) == (current.metadata.uid, 1)


def test_an_attempt_that_was_not_seen_to_end_is_taken_up_again_under_the_same_name() -> None:
    """And its messagesSeen stays: the Job that may exist has read no more than that."""
    current = routed(
        Phase.READY_FOR_GPU,
        spec={"messages": [{"id": "m1", "text": "hi"}, {"id": "m2", "text": "ho"}]},
        attempt=3,
        messagesSeen=1,
        dispatch={"jobName": "mail-1-0f9a1c2e-3"},
    )
    made = decide(current, OPEN, NOW)
    assert made.effects == (decision.Launch(3, "mail-1-0f9a1c2e-3"),)
    assert after(current, made).messages_seen == 1


def test_no_new_run_while_a_pod_of_an_old_one_lives() -> None:
    current = routed(Phase.READY_FOR_GPU, attempt=1)
    assert decide(current, ObservedState(slots=GPU, pods=(pod(1),)), NOW).requeue_after == 5
    assert decide(current, ObservedState(slots=GPU, pods=(pod(1, live=False),)), NOW).phase is Phase.DISPATCHED_GPU


@pytest.mark.parametrize("state", [observed.JobState.COMPLETE, observed.JobState.FAILED])
def test_a_run_that_ended_unheard_waits_for_no_backoff_slot_or_breaker(state: observed.JobState) -> None:
    """Its Job was let go, the answer to that was lost, and dispatching it failed again and again until it was over."""
    current = routed(
        Phase.READY_FOR_GPU,
        retry={
            "count": 5,
            "nextAt": (NOW + timedelta(minutes=5)).isoformat(),
            "reason": "DispatchFailed: reset",
        },
        attempt=1,
        dispatch={"jobName": "mail-1-0f9a1c2e-1", "backend": "gpu-0"},
    )
    said = pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED))
    ended = ObservedState(job=job(state), pods=(said,), dispatch_open=False, user_active=True)
    passed, task = [], current
    for _ in range(2):
        batch = transitions.batched(task, ended, NOW)
        assert batch.decision.effects == (), "nothing is launched"
        passed += [step.made.phase for step in batch.steps]
        task = apply(task, batch.decision.status_patch)
    assert passed == [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING, Phase.COMPLETED]
    assert (task.status.attempt, task.status.dispatch, task.status.retry) == (1, None, None)
    runs = replace(ended, job=job())
    assert decide(current, runs, NOW).effects == (decision.SuspendJob("mail-1-0f9a1c2e-1"),), (
        "one that runs needs a slot"
    )
    other = replace(ended, job=replace(job(state), name="mail-1-0f9a1c2e-2"))
    assert decide(current, other, NOW).status_patch == {}, "that is not the run that is to go on"


def test_the_condition_says_what_the_open_breaker_asks_of_an_administrator() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    around = ObservedState(slots=GPU, dispatch_open=False, dispatch_cause="See the quota.")
    made = decide(current, around, NOW)
    assert (made.phase, made.wait_for, made.requeue_after) == (None, decision.WaitFor.GPU, None)
    (said,) = after(current, made).conditions
    assert (said.type, said.reason) == ("Dispatched", "CircuitOpen")
    assert said.message.endswith(" See the quota.")
    background = decide(routed(Phase.READY_FOR_GPU), replace(around, waits=Reason.CIRCUIT_OPEN), NOW)
    assert after(current, background).conditions[0].message == said.message
    assert background.note is None


def test_an_annotation_that_does_not_count_is_named_when_the_run_starts_and_taken_back_when_it_does() -> None:
    current = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    odd = replace(OPEN, ignored_flags=("jervis.dev/use-dag-execution is 'yes'; write true or false.",))
    status = decided(current, odd).status
    (said,) = (one for one in status.conditions if one.type == "FlagsApplied")
    assert (said.status, said.reason, said.message) == ("False", "AnnotationIgnored", odd.ignored_flags[0])
    again = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"}, conditions=[said.wire()])
    right = decided(again, OPEN).status
    assert [one.status for one in right.conditions if one.type == "FlagsApplied"] == ["True"]
    assert not [one for one in decided(current, OPEN).status.conditions if one.type == "FlagsApplied"]
