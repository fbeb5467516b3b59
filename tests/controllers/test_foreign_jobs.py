"""Jobs whose suspension, resumption or creation was not the operator's decision at that moment."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from controllers.pendingtask import decision, job, task_index, transitions, views, workloads
from controllers.pendingtask.decide import decide
from controllers.pendingtask.observed import JobState, ObservedState
from crds import pendingtask
from crds.phases import Phase
from kube import lease
from tests.controllers import build
from tests.controllers.build import GPU, NOW, UID, pod, present, routed

NAME = "mail-1-0f9a1c2e-1"
FOREIGN = build.job(JobState.SUSPENDED, foreign=True)
KEPT: dict[str, Any] = {"attempt": 1, "dispatch": {"jobName": NAME, "backend": "gpu-0", "threadId": UID}}


def after(current: pendingtask.PendingTask, made: decision.Decision) -> pendingtask.PendingTask:
    return build.apply(current, made.status_patch)


def raw(name: str, *, attempt: int, suspend: bool = False, version: str = "1", **annotations: str) -> dict[str, Any]:
    labels = {job.UID_LABEL: UID, job.TASK_LABEL: "mail-1", job.ATTEMPT_LABEL: str(attempt)}
    meta = {"name": name, "namespace": "default", "uid": name, "resourceVersion": version, "labels": labels}
    return {"metadata": {**meta, "annotations": annotations}, "spec": {"suspend": suspend}}


# -- suspended by somebody else ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [Phase.DISPATCHED_GPU, Phase.ORCHESTRATING])
def test_it_gives_its_slot_up_once_its_pods_are_gone_and_keeps_its_attempt(phase: Phase) -> None:
    current = routed(phase)
    assert decide(current, ObservedState(job=FOREIGN, pods=(pod(),)), NOW).requeue_after == 5
    made = decide(current, ObservedState(job=FOREIGN), NOW)
    assert (made.phase, made.effects) == (Phase.READY_FOR_GPU, ())
    current = after(current, made)
    assert (current.status.attempt, current.status.next_attempt, current.status.retry) == (1, 1, None)
    (said,) = [one for one in current.status.conditions if one.type == "Dispatched"]
    assert (said.status, said.reason) == ("False", "JobSuspended")
    assert f"Job {NAME} was suspended" in said.message
    assert "spec.suspend of the Job is false" in said.message


def test_it_waits_without_a_slot_and_no_other_task_waits_for_it() -> None:
    held = after(routed(Phase.ORCHESTRATING, spec={"mode": "Foreground"}), _given_up())
    made = decide(held, ObservedState(job=FOREIGN, slots=GPU), NOW)
    assert (made.phase, made.effects, made.wait_for, made.requeue_after) == (None, (), None, 60)
    assert made.status_patch == {}, "it has been said"
    tasks = task_index.Tasks(lambda: NOW)
    tasks.observe(held.wire())
    assert not tasks.user_active, "Background work goes on meanwhile"
    assert not tasks.bookings.user_waiters, "no run is stopped for it"


@pytest.mark.parametrize(
    "around",
    [
        pytest.param(ObservedState(job=build.job(), pods=(pod(),), slots=GPU), id="a slot is free"),
        pytest.param(ObservedState(job=build.job(queued=True), pods=(pod(),)), id="Kueue has let it go"),
    ],
)
def test_once_it_is_let_go_it_is_booked_in_one_write(around: ObservedState) -> None:
    held = after(routed(Phase.ORCHESTRATING), _given_up())
    course = transitions.batched(held, around, NOW)
    assert course.decision.phase is Phase.DISPATCHED_GPU
    assert course.decision.effects == (decision.Launch(1, NAME),)
    booked = build.apply(held, course.decision.status_patch).status
    assert (booked.attempt, booked.dispatch and booked.dispatch.backend) == (1, "gpu-0")
    assert not pendingtask.held_by_job(booked)


def test_let_go_while_every_slot_is_taken_it_stops_until_there_is_one() -> None:
    held = after(routed(Phase.ORCHESTRATING), _given_up())
    course = transitions.batched(held, ObservedState(job=build.job(), pods=(pod(),)), NOW)
    assert (course.decision.phase, course.decision.effects) == (None, (decision.SuspendJob(NAME),))
    assert not pendingtask.held_by_job(build.apply(held, course.decision.status_patch).status)


def test_only_our_own_suspension_is_taken_back() -> None:
    current = routed(Phase.ORCHESTRATING)
    assert decide(current, ObservedState(job=build.job(JobState.SUSPENDED)), NOW).effects == (decision.ResumeJob(NAME),)
    assert decide(current, ObservedState(job=FOREIGN, pods=(pod(),)), NOW).effects == ()


def test_a_mark_that_somebody_elses_resumption_left_behind_is_taken_away() -> None:
    """Or the next suspension, by somebody else, would be taken for ours."""
    left = build.job(marked=True)
    assert decide(routed(Phase.ORCHESTRATING), ObservedState(job=left, pods=(pod(),)), NOW).effects == (
        decision.ResumeJob(NAME),
    )


def _given_up() -> decision.Decision:
    return decide(routed(Phase.ORCHESTRATING), ObservedState(job=FOREIGN), NOW)


# -- created, or released, when no task wanted it ----------------------------------------------


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param(routed(Phase.READY_FOR_GPU, spec={"suspend": True}, **KEPT), id="held"),
        pytest.param(
            routed(Phase.READY_FOR_GPU, **KEPT, preemption={"by": "u", "run": 1, "at": "2027-03-01T11:59:00Z"}),
            id="preempted",
        ),
    ],
)
def test_a_job_that_comes_late_stops_again(stopped: pendingtask.PendingTask) -> None:
    made = decide(stopped, ObservedState(job=build.job(), slots=GPU), NOW)
    assert (made.phase, made.effects) == (None, (decision.SuspendJob(NAME),))


def test_a_job_whose_creation_was_not_noticed_is_booked_before_its_backoff_is_over() -> None:
    retry = {"count": 1, "nextAt": "2027-03-01T12:00:05Z", "reason": "DispatchFailed: reset"}
    around = ObservedState(job=build.job(), pods=(pod(),), slots=GPU)
    made = decide(routed(Phase.READY_FOR_GPU, **KEPT, retry=retry), around, NOW)
    assert (made.phase, made.effects) == (Phase.DISPATCHED_GPU, (decision.Launch(1, NAME),))


@pytest.mark.parametrize("phase", [Phase.READY_FOR_GPU, Phase.DISPATCHED_GPU, Phase.ORCHESTRATING, Phase.USER_TASK])
def test_a_job_of_an_earlier_run_goes_before_anything_else_happens(phase: Phase) -> None:
    made = decide(routed(phase), ObservedState(strays=("mail-1-0f9a1c2e-0",), slots=GPU), NOW)
    assert (made.status_patch, made.effects) == ({}, (decision.DeleteJob("mail-1-0f9a1c2e-0"),))


def test_which_jobs_are_strays() -> None:
    known, current = workloads.Workloads("default"), routed(Phase.ORCHESTRATING)
    ended = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": "2027-03-01T12:00:00Z"}]}
    known.observe_job(raw(NAME, attempt=1))
    known.observe_job({**raw("mail-1-0f9a1c2e-2", attempt=2), "status": ended})
    known.observe_job(raw("somebody-elses", attempt=3))
    assert known.strays(current) == ()
    known.observe_job(raw("mail-1-0f9a1c2e-3", attempt=3, suspend=True))
    known.observe_job(raw("mail-1-0f9a1c2e-4", attempt=4))
    assert known.strays(current) == ("mail-1-0f9a1c2e-3", "mail-1-0f9a1c2e-4")


# -- Kueue -------------------------------------------------------------------------------------------------------------


def test_a_queued_job_is_created_suspended_and_its_pods_are_not_queued() -> None:
    labels = {job.QUEUE_LABEL: "gpus", "team": "red"}
    template = dataclasses.replace(TEMPLATE, labels=labels)
    body = job.manifest(routed(Phase.DISPATCHED_GPU), 1, NAME, template, token=lease.FencingToken(3))
    assert body["spec"]["suspend"] is True
    assert body["metadata"]["labels"][job.QUEUE_LABEL] == "gpus"
    assert job.QUEUE_LABEL not in body["spec"]["template"]["metadata"]["labels"]
    assert body["spec"]["template"]["metadata"]["labels"]["team"] == "red"
    seen = views.job_view({**body, "metadata": {**body["metadata"], "uid": "u"}})
    assert (seen.suspended, seen.foreign, seen.queued, seen.attempt) == (True, True, True, 1)


def test_a_queued_job_is_left_to_kueue_and_says_so() -> None:
    queued = build.job(JobState.SUSPENDED, foreign=True, queued=True)
    made = decide(routed(Phase.DISPATCHED_GPU), ObservedState(job=queued), NOW)
    assert made.phase is Phase.READY_FOR_GPU
    assert "a queue of Kueue's" in present(made.note).message


def test_a_queued_run_stops_by_losing_its_job_which_kueue_would_let_go_again() -> None:
    held = routed(Phase.ORCHESTRATING, spec={"suspend": True})
    made = decide(held, ObservedState(job=build.job(queued=True), pods=(pod(),)), NOW)
    assert made.effects == (decision.DeleteJob(NAME),)


# -- on the wire -------------------------------------------------------------------------------------------------------


def test_every_write_of_a_job_says_who_leads() -> None:
    token = lease.FencingToken(7, "2027-03-01T09:00:00Z")
    said = {job.EPOCH_ANNOTATION: "7", job.LEASE_ANNOTATION: "2027-03-01T09:00:00Z"}
    body = job.manifest(routed(Phase.DISPATCHED_GPU), 1, NAME, TEMPLATE, token=token)
    assert said.items() <= body["metadata"]["annotations"].items()
    for patch in (job.suspension(True, token), job.suspension(False, token), job.expiry(60, token)):
        assert said.items() <= patch["metadata"]["annotations"].items()


def test_our_suspension_is_marked_and_its_end_takes_the_mark_away() -> None:
    annotated: dict[str, Any] = {job.SUSPENDED_ANNOTATION: job.OPERATOR}
    token = lease.FencingToken(1)
    assert job.suspension(True, token)["metadata"]["annotations"][job.SUSPENDED_ANNOTATION] == job.OPERATOR
    assert job.suspension(False, token)["metadata"]["annotations"][job.SUSPENDED_ANNOTATION] is None
    ours = views.job_view(raw(NAME, attempt=1, suspend=True, **annotated))
    theirs = views.job_view(raw(NAME, attempt=1, suspend=True))
    left = views.job_view(raw(NAME, attempt=1, **annotated))
    told = [(one.suspended, one.foreign, one.marked) for one in (ours, theirs, left)]
    assert told == [(True, False, True), (True, True, False), (False, False, True)]


TEMPLATE = job.Template("default", "i", "Never", "a", "http://kb", "http://r", "mongodb://m", "model")
