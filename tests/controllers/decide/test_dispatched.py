"""DispatchedGpu: crash points, failed dispatches, pods that cannot start."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from controllers.pendingtask import decision
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, TokenNotWritten, Trouble
from controllers.pendingtask.policy import dispatched
from crds.pendingtask import UserTaskKind
from crds.phases import Phase
from tests.controllers.build import GPU, NOW, after, apply, decided, job, pod, present, routed

OPEN = ObservedState(slots=GPU)
AWAY = Trouble("away", operational=True)
WRONG = Trouble("kind is wrong", operational=False, field="kind", remedy="Choose another.")


def test_every_crash_point_replays_to_the_same_job() -> None:
    current = routed(Phase.DISPATCHED_GPU)
    assert decide(current, ObservedState(), NOW).effects == (decision.Launch(1, "mail-1-0f9a1c2e-1"),)
    assert decide(current, ObservedState(job=job()), NOW).effects == ()
    assert decide(current, ObservedState(working=True), NOW).effects == ()


@pytest.mark.parametrize("around", [ObservedState(job=job(), pods=(pod(),)), ObservedState(job=job(JobState.COMPLETE))])
def test_orchestrating_once_the_pod_runs_or_the_job_is_over(around: ObservedState) -> None:
    assert decide(routed(Phase.DISPATCHED_GPU), around, NOW).phase is Phase.ORCHESTRATING


def test_failed_dispatches_step_back_and_keep_the_attempt() -> None:
    current, waits, told = routed(Phase.DISPATCHED_GPU), [], list[str]()
    for count in range(6):
        made = decide(current, ObservedState(observed=AWAY, dispatch_open=count < 4), NOW)
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        assert current.status.phase is Phase.READY_FOR_GPU
        assert current.status.retry is not None
        assert current.status.retry.next_at is not None
        waits.append((current.status.retry.next_at - NOW).total_seconds())
        later = current.status.retry.next_at
        assert decide(current, OPEN, NOW).requeue_after == waits[-1]
        assert current.status.conditions[0].reason == ("DispatchFailed" if count < 4 else "CircuitOpen")
        made = decide(current, OPEN, later)
        told += [made.note.reason] if made.note else []
        current = apply(current, made.status_patch)
        assert current.status.attempt == 1
    assert waits == [5, 15, 30, 60, 300, 300]
    assert told == ["DispatchFailed"], "one Event for a row of failures, none for a retry"
    made = decide(current, ObservedState(job=job(), pods=(pod(),)), NOW)
    assert after(current, made).retry is None, "a successful dispatch forgets the failed ones (seed 000)"


def test_a_job_that_can_never_be_created_asks_a_person() -> None:
    status = decided(routed(Phase.DISPATCHED_GPU), ObservedState(observed=WRONG)).status
    assert status.phase is Phase.USER_TASK
    assert present(status.user_task).kind is UserTaskKind.FAILURE


def test_a_token_that_cannot_be_written_is_tried_again_in_the_steps_of_a_failed_dispatch() -> None:
    current, waits, told, now = routed(Phase.DISPATCHED_GPU), [], list[str](), NOW
    waiting = pod(started=False, waiting_reason="ContainerCreating", waiting_message="secret not found")
    around = ObservedState(job=job(), pods=(waiting,))
    away = TokenNotWritten(Trouble("exceeded quota", operational=True, remedy="See the quota."))
    for _ in range(6):
        made = decide(current, replace(around, observed=away), now)
        assert (made.phase, made.effects) == (None, ()), "the pod waits in its slot"
        told += [made.note.reason] if made.note else []
        waits.append(made.requeue_after)
        current = apply(current, made.status_patch)
        (said,) = current.status.conditions
        assert (said.type, said.reason) == ("Dispatched", "TokenNotWritten")
        assert said.message == "The run's token could not be written: exceeded quota. See the quota."
        assert current.status.retry is not None
        assert current.status.retry.next_at is not None
        assert current.status.retry.reason.startswith("TokenNotWritten: ")
        assert dispatched.token_postponed(current, now)
        seen = decide(current, around, now)
        assert (seen.status_patch, seen.requeue_after) == ({}, min(waits[-1] or 0, 60)), "an event changes nothing"
        now = current.status.retry.next_at
        assert not dispatched.token_postponed(current, now)
        # Or it would be stale: that is another story.
        current = apply(current, {"phaseTimes": {"DispatchedGpu": now.isoformat()}})
    assert waits == [5, 15, 30, 60, 300, 300]
    assert told == ["TokenNotWritten"], "one Event for a row of failures"
    status = decided(current, replace(around, pods=(pod(),)), now).status
    assert (status.phase, status.retry, status.conditions[0].reason) == (Phase.ORCHESTRATING, None, "Running")


def test_a_token_that_can_never_be_written_asks_a_person() -> None:
    current = routed(Phase.DISPATCHED_GPU, spec={"type": "UserInputProcessing"})
    status = decided(current, ObservedState(job=job(), observed=TokenNotWritten(WRONG))).status
    assert (status.phase, status.dispatch) == (Phase.USER_TASK, None), "its Job is superseded and goes"
    assert present(status.user_task).kind is UserTaskKind.FAILURE
    assert {one.type: one.reason for one in status.conditions}["Dispatched"] == "TokenNotWritten"


def test_a_pod_that_cannot_start_says_why() -> None:
    stuck = pod(started=False, waiting_reason="ImagePullBackOff", waiting_message="no such image")
    current = routed(Phase.DISPATCHED_GPU)
    made = decide(current, ObservedState(job=job(), pods=(stuck,)), NOW)
    condition = after(current, made).conditions[0]
    assert (condition.reason, condition.message) == ("ImagePullBackOff", "ImagePullBackOff: no such image")


def test_background_gives_its_slot_back_after_ten_minutes_and_counts_the_attempt_once() -> None:
    current, later = routed(Phase.DISPATCHED_GPU), NOW + timedelta(minutes=10)
    assert decide(current, ObservedState(job=job()), later).effects == (decision.DeleteJob("mail-1-0f9a1c2e-1"),)
    assert decide(current, ObservedState(job=job(JobState.DELETING)), later).requeue_after == 5
    assert decide(current, ObservedState(pods=(pod(),)), later).requeue_after == 5
    status = decided(current, ObservedState(), later).status
    assert (status.phase, status.attempt, status.dispatch) == (Phase.READY_FOR_GPU, 1, None)
    user = routed(Phase.DISPATCHED_GPU, spec={"mode": "Foreground"})
    assert decide(user, ObservedState(job=job()), later).effects == ()


def test_a_chat_message_is_never_stale_whatever_its_mode_says() -> None:
    chat = {"type": "UserInputProcessing", "mode": "Background"}
    current = routed(Phase.DISPATCHED_GPU, spec=chat, phaseTimes={"DispatchedGpu": "2027-03-01T11:00:00Z"})
    made = decide(current, ObservedState(job=job()), NOW)
    assert made.effects == ()
    soon = routed(Phase.DISPATCHED_GPU, spec=chat, phaseTimes={"DispatchedGpu": "2027-03-01T11:50:30Z"})
    assert decide(soon, ObservedState(job=job()), NOW).requeue_after == ObservedState().limits.recheck.total_seconds()
