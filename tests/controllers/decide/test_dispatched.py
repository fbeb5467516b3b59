"""DispatchedGpu: crash points, failed dispatches, pods that cannot start. Decisions at the edge of a rule: a second
kind of failure, a word of an earlier run, a claim that changes hands."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controllers.pendingtask import decision, observed
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState, Outcome, PodView, Slots, TokenNotWritten, Trouble
from controllers.pendingtask.policy import dispatched
from crds.exit_reasons import ExitReason
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


def over(*pods: observed.PodView, **more: object) -> ObservedState:
    """The Job of attempt 1 has failed."""
    return ObservedState(job=job(JobState.FAILED, **more), pods=pods)


def test_what_an_earlier_run_said_is_no_answer_of_this_one() -> None:
    first = pod(1, live=False, outcome=Outcome(ExitReason.ANSWERED, "the first"))
    again = routed(Phase.ORCHESTRATING, attempt=2)
    assert decide(again, over(first), NOW).phase is Phase.READY_FOR_GPU
    second = pod(2, live=False, outcome=Outcome(ExitReason.ANSWERED, "the second"))
    for pods in ((first, second), (second, first)):
        done = decided(again, over(*pods)).status
        assert present(done.result).summary == "the second"


def drained(at: datetime = NOW, name: str = "pod-1") -> PodView:
    return PodView(
        name, 1, live=False, started=True, exit_code=42, outcome=Outcome(ExitReason.DRAINED, "gave way"), created=at
    )


def test_the_last_pod_of_a_run_that_was_suspended_has_the_word() -> None:
    """Run 1 drained, its Job went on in a second pod; the order in which the API lists the two says nothing."""
    running, later = routed(Phase.ORCHESTRATING), NOW + timedelta(seconds=3)
    answered = replace(pod(live=False, exit_code=0, outcome=Outcome(ExitReason.ANSWERED, "an answer")), created=later)
    for pods in itertools.permutations((drained(), answered)):
        for state in (JobState.COMPLETE, JobState.FAILED):
            done = decided(running, ObservedState(job=job(state), pods=pods)).status
            assert (done.phase, done.result and done.result.summary) == (Phase.COMPLETED, "an answer")
    same = replace(answered, created=NOW)
    for pods in itertools.permutations((drained(), same)):
        assert decide(running, over(*pods), NOW).phase is Phase.COMPLETED


def test_a_stored_answer_counts_where_only_an_earlier_pod_of_the_run_said_something() -> None:
    running, later = routed(Phase.ORCHESTRATING), NOW + timedelta(seconds=3)
    silent = replace(pod(live=False, exit_code=0), created=later)
    stored = Outcome(ExitReason.ANSWERED, "stored")
    for pods in ((drained(), silent), (silent, drained()), (drained(),)):
        found = ObservedState(job=job(JobState.COMPLETE), pods=pods, recorded=stored)
        done = decided(running, found).status
        assert (done.phase, done.result and done.result.summary) == (Phase.COMPLETED, "stored")


def test_a_pod_that_died_after_one_that_drained_is_a_lost_worker() -> None:
    running, later = routed(Phase.ORCHESTRATING), NOW + timedelta(seconds=3)
    died = replace(pod(live=False, exit_code=137), created=later)
    status = decided(running, over(died, drained())).status
    assert (present(status.retry).count, present(status.retry).reason.split(":")[0]) == (1, "WorkerLost")


def test_a_pod_that_drained_after_one_that_was_evicted_is_no_lost_worker() -> None:
    running, earlier = routed(Phase.ORCHESTRATING), NOW - timedelta(seconds=3)
    evicted = replace(pod(live=False), created=earlier)
    status = decided(running, over(drained(), evicted)).status
    assert (present(status.retry).count, present(status.retry).reason.split(":")[0]) == (0, "Drained")


def test_a_run_that_drains_by_itself_pauses_before_it_goes_on() -> None:
    status = decided(routed(Phase.ORCHESTRATING), over(drained())).status
    assert present(status.retry).next_at == NOW + timedelta(seconds=5)


def test_a_job_whose_time_to_live_has_begun_is_left_alone() -> None:
    running, failed = routed(Phase.ORCHESTRATING), pod(live=False, exit_code=137)
    assert decide(running, over(failed), NOW).effects == (decision.ExpireJob("mail-1-0f9a1c2e-1", 600),)
    assert decide(running, over(failed, has_ttl=True), NOW).effects == ()


def test_failures_of_one_kind_in_a_row_are_counted_and_no_others() -> None:
    running = routed(Phase.ORCHESTRATING, retry={"count": 3, "reason": "WorkerLost: its pod is gone"})
    said = over(pod(live=False, exit_code=75, outcome=Outcome(ExitReason.UNAVAILABLE, "the router is away")))
    status = decided(running, said).status
    assert (present(status.retry).count, present(status.retry).next_at) == (1, NOW + timedelta(seconds=5))


def test_stale_after_exactly_ten_minutes() -> None:
    booked = routed(Phase.DISPATCHED_GPU, phaseTimes={"DispatchedGpu": "2027-03-01T11:50:00Z"})
    assert decide(booked, ObservedState(), NOW).phase is Phase.READY_FOR_GPU
    assert decide(booked, ObservedState(), NOW - timedelta(seconds=1)).effects == (
        decision.Launch(1, "mail-1-0f9a1c2e-1"),
    )


def test_a_run_that_is_about_to_be_stale_is_looked_at_then() -> None:
    """Nothing happens at that moment that would bring it up; the user's run, which is never stale, keeps its round."""
    booked = {"phaseTimes": {"DispatchedGpu": "2027-03-01T11:50:00Z"}}
    waits = ObservedState(job=job(JobState.ACTIVE))
    for mode, seconds in (("Background", 7), ("Foreground", 60)):
        run = routed(Phase.DISPATCHED_GPU, spec={"mode": mode}, **booked)
        assert decide(run, waits, NOW - timedelta(seconds=7)).requeue_after == seconds


def test_who_failed_himself_keeps_his_reason_while_the_circuit_is_open() -> None:
    failed = decided(routed(Phase.DISPATCHED_GPU, spec={"mode": "Foreground"}), ObservedState(observed=AWAY))
    later, shut = NOW + timedelta(seconds=5), ObservedState(slots=GPU, dispatch_open=False)
    assert decide(failed, shut, later) == decision.Decision(wait_for=decision.WaitFor.GPU)
    bystander = routed(Phase.READY_FOR_GPU, spec={"mode": "Foreground"})
    made = decide(bystander, shut, later)
    assert apply(bystander, made.status_patch).status.conditions[0].reason == "CircuitOpen"


def test_a_job_that_runs_already_is_not_taken_up_beside_a_pod_of_an_earlier_run() -> None:
    kept = routed(Phase.READY_FOR_GPU, attempt=2, dispatch={"jobName": "mail-1-0f9a1c2e-2", "backend": "gpu-0"})
    runs = replace(job(), name="mail-1-0f9a1c2e-2")
    assert decide(kept, ObservedState(slots=GPU, job=runs, pods=(pod(2),)), NOW).phase is Phase.DISPATCHED_GPU
    assert decide(kept, ObservedState(slots=GPU, job=runs, pods=(pod(1),)), NOW) == decision.wait(5)


def test_the_slot_of_a_run_is_claimed_for_the_next_run_of_the_same_user() -> None:
    running = routed(
        Phase.ORCHESTRATING, preemption={"by": "u", "name": "default/chat", "run": 1, "at": NOW.isoformat()}
    )
    around = ObservedState(slots=Slots(total=1), job=job(), pods=(pod(),))
    same, following = (observed.Claimant("u", run, "default/chat") for run in (1, 2))
    assert decide(running, replace(around, claimant=same), NOW).status_patch == {}
    made = decide(running, replace(around, claimant=following), NOW)
    status = apply(running, made.status_patch).status
    assert (present(status.preemption).run, status.preemptions, made.note) == (2, 0, None), "one preemption, not two"


def test_a_run_is_not_stranded_while_one_of_its_pods_lives() -> None:
    """An evicted pod whose node is silent, and the one that replaced it."""
    lost, alive = pod(given_up_at=NOW - timedelta(seconds=1)), pod()
    for current in (routed(Phase.ORCHESTRATING), routed(Phase.DISPATCHED_GPU)):
        made = decide(current, ObservedState(job=job(), pods=(lost, replace(alive, started=False))), NOW)
        assert made.effects == ()
        made = decide(current, ObservedState(job=job(), pods=(lost,)), NOW)
        assert made.effects == (decision.DeleteJob("mail-1-0f9a1c2e-1"),)


def test_a_run_without_a_backend_goes_elsewhere_only_when_its_pod_is_gone() -> None:
    booked = routed(Phase.DISPATCHED_GPU)
    assert decide(booked, ObservedState(pods=(pod(),), backend_gone_in=0.0), NOW) == decision.wait(5)
    assert decide(booked, ObservedState(backend_gone_in=0.0), NOW).phase is Phase.READY_FOR_GPU


def test_who_answers_a_person_waits_for_no_backoff_of_before() -> None:
    """Its dispatch had failed for a while before it failed for good."""
    waits = {"count": 5, "nextAt": (NOW + timedelta(minutes=4)).isoformat(), "reason": "DispatchFailed: away"}
    asked = routed(
        Phase.USER_TASK, spec={"approval": {"verdict": "Approved"}}, retry=waits, userTask={"kind": "Failure"}
    )
    again = decided(asked, ObservedState())
    assert (again.status.phase, again.status.retry) == (Phase.READY_FOR_GPU, None)
    assert decide(again, ObservedState(slots=GPU), NOW).phase is Phase.DISPATCHED_GPU
