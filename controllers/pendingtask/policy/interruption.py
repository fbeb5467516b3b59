"""`spec.suspend` and patience: what keeps a task where it is, in any phase that does not run anything.

A run that has to stop for a while: its user holds it, a user's task gets its slot, or somebody suspended its Job.

    intent (spec.suspend, status.preemption) -> Job suspended -> its pods are gone -> ReadyForGpu, `dispatch` kept

The intent is in the object before the Job is touched. The slot stays booked until the pods are gone. `status.dispatch`
is kept, so the next claim takes up the same attempt: the same Job goes on from its checkpoint. When nothing asks for
the stop any more, the run goes on where it is. Who gets whose slot is decided in `preemption`.

Our suspension carries a mark on the Job, so nobody else's is ever taken back: such a run gives its slot up as well, and
waits until whoever suspended the Job lets it go. A Job in a queue of Kueue's is deleted instead of being suspended, as
Kueue would let it go at once; the next run goes on from the checkpoint.

Source: blueprint section 4 "Preemption"; seed 000 "Preemption" (user requests come before background work).

Runs that cannot go on where they are: their node does not answer, or their GPU backend is gone.

Both give the Job up; what follows is what follows whenever a Job is gone: once no pod lives, the end of the run is
looked for, and the task goes back to ReadyForGpu for the next attempt. A pod of a node that does not answer may still
run for a while: the fence of the task's memory (one epoch per process) lets it write nothing any more.

Source: blueprint section 4 "Stale recovery"; Kubernetes "Pod garbage collection", "Taint based evictions".
"""

from __future__ import annotations

from datetime import timedelta

from controllers import backoff
from controllers.pendingtask.decision import (
    Decision,
    DeleteJob,
    Field,
    Note,
    ResumeJob,
    SuspendJob,
    View,
    act,
    condition,
    put,
    remark,
    to,
    until,
    wait,
    whole,
)
from controllers.pendingtask.observed import JobState, JobView
from crds import conditions, pendingtask
from crds.phases import Phase

LONGEST = timedelta(seconds=max(backoff.QUALIFICATION.cap, *backoff.DISPATCH.seconds) + 1)


def suspended(view: View) -> Decision | None:
    """The user holds the task."""
    if not view.task.spec.suspend:
        return None
    held = condition(view, "Suspended", True, "SuspendedByUser", "spec.suspend is true; set it to false to go on.")
    return remark(view, held, decision=wait())


def resumed(view: View) -> Decision | None:
    """The user let go: say so once."""
    if view.task.spec.suspend or not shows_suspended(view):
        return None
    listed = put(view, condition(view, "Suspended", False, "Resumed", ""))
    return Decision({"conditions": listed})


def shows_suspended(view: View) -> bool:
    """Does the status say that the user holds the task?"""
    old = conditions.find(view.task.status.conditions, "Suspended")
    return old is not None and old.status is conditions.Status.TRUE


def retry_later(view: View) -> Decision | None:
    """The last try failed for an operational reason; its wait is not over.

    A wait that no backoff asks for was written under another clock: it is over.
    """
    retry = view.task.status.retry
    if retry is None or retry.next_at is None or not view.now < retry.next_at <= view.now + LONGEST:
        return None
    return until(view, retry.next_at)


PREEMPTED = "Preempted"
JOB_SUSPENDED = pendingtask.JOB_SUSPENDED
POLL_SECONDS = 5.0
_OTHERS = "A user's task"
"""Of another namespace: its name is not shown."""


def record_preemption(view: View) -> Decision | None:
    """Somebody is to get this slot now, or somebody else than before, or nobody any more: say so first."""
    old, new = view.task.status.preemption, view.state.claimant
    if new is None:
        return None if old is None else _withdrawn(view)
    if old is not None and (old.by, old.run) == (new.uid, new.run):
        return None
    claim = pendingtask.Preemption(by=new.uid, name=new.name, run=new.run, at=whole(view.now))
    told = f"{new.name or _OTHERS} gets the GPU slot; the run stops at its checkpoint and goes on later."
    said = condition(view, PREEMPTED, True, "SlotClaimed", told)
    patch: dict[str, object] = {"preemption": claim.wire()}
    if old is None:
        patch["preemptions"] = view.task.status.preemptions + 1
    return Decision(
        {**patch, "conditions": put(view, said) or _listed(view)},
        note=Note(PREEMPTED, told) if old is None else None,
    )


def suspend_run(view: View) -> Decision | None:
    """Suspend the Job; once its pods are gone, give the slot back."""
    held, claim = view.task.spec.suspend, view.task.status.preemption
    if not held and claim is None:
        return None
    job = view.state.job
    if job is not None and job.state is JobState.DELETING:
        return wait(POLL_SECONDS)
    if job is not None and not job.suspended:
        return stopped(job)
    if view.live_pods():
        return wait(POLL_SECONDS)
    if claim is None:
        told = "The run is drained; it resumes from its checkpoint." if job else "Held before its Job was created."
        return to(view, Phase.READY_FOR_GPU, "Suspended", told)
    told = f"{claim.name or _OTHERS} has the GPU slot; the run resumes from its checkpoint."
    given = condition(view, "Dispatched", False, PREEMPTED, told)
    return to(view, Phase.READY_FOR_GPU, PREEMPTED, told, given)


def stop_unbooked(view: View) -> Decision | None:
    """ReadyForGpu, and its Job runs: created late, or let go by hand. One that is held or has lost its slot stops."""
    held = view.task.spec.suspend or view.state.refusal is not None
    asked = held or view.task.status.preemption is not None
    job = view.state.job
    return stopped(job) if asked and job is not None and job_to_resume_runs(view) else None


def has_job_to_resume(view: View) -> bool:
    """Is the Job of the run that is to be taken up again there?"""
    job, dispatch = view.state.job, view.task.status.dispatch
    return job is not None and dispatch is not None and job.name == dispatch.job_name


def job_to_resume_runs(view: View) -> bool:
    """Is that Job there, and not suspended?"""
    job = view.state.job
    return has_job_to_resume(view) and job is not None and job.state is JobState.ACTIVE


def suspended_by_others(view: View) -> Decision | None:
    """Somebody else has suspended the Job: the slot is given back, the attempt stays."""
    job = view.state.job
    if job is None or not job.foreign:
        return None
    if view.live_pods():
        return wait(POLL_SECONDS)
    said = _held_by_job(view, job)
    return to(view, Phase.READY_FOR_GPU, said.reason, said.message, said)


def still_suspended_by_others(view: View) -> Decision | None:
    """ReadyForGpu: the Job of the run that is to go on is held by somebody else."""
    job = view.state.job
    if job is None or not job.foreign:
        return None
    return remark(view, _held_by_job(view, job), decision=wait(view.state.limits.recheck.total_seconds()))


def released_by_others(view: View) -> Decision | None:
    """Whoever held the Job has let it go: say so once."""
    if not pendingtask.held_by_job(view.task.status):
        return None
    return Decision({"conditions": put(view, condition(view, "Dispatched", False, "JobReleased", ""))})


def resume(view: View) -> Decision | None:
    """Nothing asks for the stop, and the slot is still booked: go on."""
    job = view.state.job
    if job is None or job.foreign or not (job.suspended or job.marked):
        return None
    return act(ResumeJob(job.name), requeue_after=POLL_SECONDS)


def over(view: View, reason: str) -> tuple[tuple[conditions.Condition, ...], dict[str, Field]]:
    """Condition and field that say that the run is not preempted (any more), for a step that ends or resumes it."""
    fields: dict[str, Field] = {} if view.task.status.preemption is None else {"preemption": None}
    old = conditions.find(view.task.status.conditions, PREEMPTED)
    if old is None or old.status is not conditions.Status.TRUE:
        return (), fields
    return (condition(view, PREEMPTED, False, reason, ""),), fields


def stopped(job: JobView) -> Decision:
    """Let a Job that runs drain."""
    return act(DeleteJob(job.name) if job.queued else SuspendJob(job.name), requeue_after=POLL_SECONDS)


def _held_by_job(view: View, job: JobView) -> conditions.Condition:
    told = (
        f"Job {job.name} waits in a queue of Kueue's, which lets it go."
        if job.queued
        else f"Job {job.name} was suspended, and not by the operator; it goes on when spec.suspend of the Job is false."
    )
    return condition(view, "Dispatched", False, JOB_SUSPENDED, told)


def _withdrawn(view: View) -> Decision:
    told = "The slot is not needed any more; the run goes on."
    said, _ = over(view, "Withdrawn")
    listed = put(view, *said) or _listed(view)
    return Decision({"preemption": None, "conditions": listed}, note=Note("PreemptionWithdrawn", told))


def _listed(view: View) -> list[dict[str, object]]:
    return [one.wire() for one in view.task.status.conditions]


BACKEND_GONE = "BackendGone"


def node_lost(view: View) -> Decision | None:
    """Every pod of the run should be gone for long and is still there."""
    job = view.state.job
    if job is None or job.state is not JobState.ACTIVE:
        return None
    mine = [pod for pod in view.state.pods if pod.live and pod.attempt == view.task.status.attempt]
    if not mine or any(pod.lives(view.now) for pod in mine):
        return None
    told = f"Pod {mine[0].name} should have ended by {mine[0].given_up_at:%H:%M:%S} UTC; its node does not answer."
    problem = condition(view, "Dispatched", False, "NodeLost", told)
    return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))


def delete_superseded(view: View) -> Decision | None:
    """A Job of another run of this task is there and may run: its creation came too late. It goes."""
    strays = view.state.strays
    return act(*map(DeleteJob, strays), requeue_after=POLL_SECONDS) if strays else None


def backend_gone(view: View) -> Decision | None:
    """The backend whose slot is booked was deleted, or has not been Ready for a while: stop, start over elsewhere."""
    dispatch, job = view.task.status.dispatch, view.state.job
    if not view.state.backend_gone or dispatch is None:
        return None
    told = f"GpuBackend {dispatch.backend} is gone or not Ready; the run moves to another one."
    problem = condition(view, "Dispatched", False, BACKEND_GONE, told)
    if job is not None and job.state is not JobState.DELETING:
        return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))
    if job is not None or view.live_pods():
        return wait(POLL_SECONDS)
    return to(view, Phase.READY_FOR_GPU, BACKEND_GONE, told, problem, warning=True, fields={"dispatch": None})
