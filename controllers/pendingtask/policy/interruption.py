"""Interruptions: what several phases do about suspension, preemption, backoff and lost nodes or backends. Pure.

Suspension and preemption. A run stops because its user suspends the task, a user's task gets its slot, or another
client suspended its Job:

    intent (spec.suspend, status.preemption) -> Job suspended -> its pods are gone -> ReadyForGpu with `dispatch`

- The intent is persisted before the Job is changed. The slot stays booked until the pods are gone.
- `status.dispatch` stays, so the next claim takes the same attempt: the same Job resumes from its checkpoint.
- If the reason for the stop ends before that, the run continues. `slots.bookings` decides which task gets which slot.
- The operator marks the Jobs that it suspends and resumes no others. A run whose Job another client suspended
  releases its slot too, and waits until that client resumes the Job.
- A Job in a Kueue queue is deleted instead of suspended, since Kueue would resume it at once. The next run resumes
  from the checkpoint.

Lost runs. If the node does not answer or the GPU backend is gone, the Job is deleted. Then the rules for a deleted Job
apply: once no pod lives, the result of the run is read, and the task returns to ReadyForGpu for the next attempt. A pod
on a node that does not answer may still run for a while; the fence of the task memory (one epoch per process) rejects
its writes.

Source: blueprint section 4 "Preemption", "Stale recovery"; seed 000 "Preemption" (user requests come before background
work); Kubernetes "Pod garbage collection", "Taint based evictions".
"""

from __future__ import annotations

from datetime import timedelta

from clients import backoff
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
    """The user has suspended the task."""
    if not view.task.spec.suspend:
        return None
    held = condition(view, "Suspended", True, "SuspendedByUser", "spec.suspend is true; set it to false to go on.")
    return remark(view, held, decision=wait())


def resumed(view: View) -> Decision | None:
    """The user no longer suspends the task: record that once."""
    if view.task.spec.suspend or not shows_suspended(view):
        return None
    listed = put(view, condition(view, "Suspended", False, "Resumed", ""))
    return Decision({"conditions": listed})


def shows_suspended(view: View) -> bool:
    """Whether the status records that the user suspends the task."""
    old = conditions.find(view.task.status.conditions, "Suspended")
    return old is not None and old.status is conditions.Status.TRUE


def retry_later(view: View) -> Decision | None:
    """The last try failed for an operational reason, and its wait is not over.

    A wait longer than any backoff was written under another clock and counts as over, and so does a wait for another
    task that has an end.
    """
    retry = view.task.status.retry
    if view.state.first_over:
        return None
    if retry is None or retry.next_at is None or not view.now < retry.next_at <= view.now + LONGEST:
        return None
    return until(view, retry.next_at)


PREEMPTED = "Preempted"
JOB_SUSPENDED = pendingtask.JOB_SUSPENDED
POLL_SECONDS = 5.0
_OTHERS = "A user's task"
"""Stands for a task of another namespace, whose name is not shown."""


def record_preemption(view: View) -> Decision | None:
    """The task that claims this slot is new, has changed or is gone: record that before the Job is changed."""
    old, new = view.task.status.preemption, view.state.claimant
    if new is None:
        return None if old is None else _withdrawn(view)
    if old is not None and (old.by, old.run) == (new.uid, new.run):
        return None
    claim = pendingtask.Preemption(by=new.uid, name=new.name, run=new.run, at=whole(view.now))
    message = f"{new.name or _OTHERS} gets the GPU slot; the run stops at its checkpoint and goes on later."
    cond = condition(view, PREEMPTED, True, "SlotClaimed", message)
    patch: dict[str, object] = {"preemption": claim.wire()}
    if old is None:
        patch["preemptions"] = view.task.status.preemptions + 1
    return Decision(
        {**patch, "conditions": put(view, cond) or _listed(view)},
        note=Note(PREEMPTED, message) if old is None else None,
    )


def suspend_run(view: View) -> Decision | None:
    """Suspend the Job; release the slot once its pods are gone."""
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
        message = "The run resumes from its checkpoint." if job else "Suspended before its Job was created."
        return to(view, Phase.READY_FOR_GPU, "Suspended", message)
    message = f"{claim.name or _OTHERS} has the GPU slot; the run resumes from its checkpoint."
    given = condition(view, "Dispatched", False, PREEMPTED, message)
    return to(view, Phase.READY_FOR_GPU, PREEMPTED, message, given)


def stop_unbooked(view: View) -> Decision | None:
    """ReadyForGpu, and its Job runs: it was created late or resumed by hand. Stop it if the task may not run now."""
    held = view.task.spec.suspend or view.state.refusal is not None
    asked = held or view.task.status.preemption is not None
    job = view.state.job
    return stopped(job) if asked and job is not None and job_to_resume_runs(view) else None


def has_job_to_resume(view: View) -> bool:
    """Whether the Job of the run that resumes next exists."""
    job, dispatch = view.state.job, view.task.status.dispatch
    if job is None or dispatch is None:
        return False
    return job.name == dispatch.job_name or (job.warm and job.attempt == view.task.status.attempt)


def job_to_resume_runs(view: View) -> bool:
    """Whether that Job exists and is not suspended."""
    job = view.state.job
    return has_job_to_resume(view) and job is not None and job.state is JobState.ACTIVE


def suspended_by_others(view: View) -> Decision | None:
    """Another client has suspended the Job: the slot is released, the attempt stays."""
    job = view.state.job
    if job is None or not job.foreign:
        return None
    if view.live_pods():
        return wait(POLL_SECONDS)
    cond = _held_by_job(view, job)
    return to(view, Phase.READY_FOR_GPU, cond.reason, cond.message, cond)


def still_suspended_by_others(view: View) -> Decision | None:
    """ReadyForGpu: the Job of the run that resumes next is suspended by another client."""
    job = view.state.job
    if job is None or not job.foreign:
        return None
    return remark(view, _held_by_job(view, job), decision=wait(view.state.limits.recheck.total_seconds()))


def released_by_others(view: View) -> Decision | None:
    """The other client has resumed the Job: record that once."""
    if not pendingtask.held_by_job(view.task.status):
        return None
    return Decision({"conditions": put(view, condition(view, "Dispatched", False, "JobReleased", ""))})


def resume(view: View) -> Decision | None:
    """No stop is requested any more and the slot is still booked: resume the Job."""
    job = view.state.job
    if job is None or job.foreign or not (job.suspended or job.marked):
        return None
    return act(ResumeJob(job.name), requeue_after=POLL_SECONDS)


def over(view: View, reason: str) -> tuple[tuple[conditions.Condition, ...], dict[str, Field]]:
    """Condition and field that clear a preemption, for a transition that ends or resumes the run."""
    fields: dict[str, Field] = {} if view.task.status.preemption is None else {"preemption": None}
    old = conditions.find(view.task.status.conditions, PREEMPTED)
    if old is None or old.status is not conditions.Status.TRUE:
        return (), fields
    return (condition(view, PREEMPTED, False, reason, ""),), fields


def stopped(job: JobView) -> Decision:
    """Stop a Job that runs: its pod gets SIGTERM and writes its checkpoint."""
    return act(DeleteJob(job.name) if job.queued else SuspendJob(job.name), requeue_after=POLL_SECONDS)


def _held_by_job(view: View, job: JobView) -> conditions.Condition:
    message = (
        f"Job {job.name} waits in a queue of Kueue's, which lets it go."
        if job.queued
        else f"Job {job.name} was suspended, and not by the operator; it goes on when spec.suspend of the Job is false."
    )
    return condition(view, "Dispatched", False, JOB_SUSPENDED, message)


def _withdrawn(view: View) -> Decision:
    message = "The slot is not needed any more; the run goes on."
    conds, _ = over(view, "Withdrawn")
    listed = put(view, *conds) or _listed(view)
    return Decision({"preemption": None, "conditions": listed}, note=Note("PreemptionWithdrawn", message))


def _listed(view: View) -> list[dict[str, object]]:
    return [one.wire() for one in view.task.status.conditions]


BACKEND_GONE = "BackendGone"


def node_lost(view: View) -> Decision | None:
    """Every pod of the run should have ended long ago and still exists."""
    job = view.state.job
    if job is None or job.state is not JobState.ACTIVE:
        return None
    mine = [pod for pod in view.state.pods if pod.live and pod.attempt == view.task.status.attempt]
    if not mine or any(pod.lives(view.now) for pod in mine):
        return None
    message = f"Pod {mine[0].name} should have ended by {mine[0].given_up_at:%H:%M:%S} UTC; its node does not answer."
    problem = condition(view, "Dispatched", False, "NodeLost", message)
    return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))


def delete_superseded(view: View) -> Decision | None:
    """A Job of another run of this task exists and may run, since it was created too late: delete it."""
    strays = view.state.strays
    return act(*map(DeleteJob, strays), requeue_after=POLL_SECONDS) if strays else None


def backend_gone(view: View) -> Decision | None:
    """The backend of the booked slot was deleted or is not Ready for a while: stop, and start over on another one."""
    dispatch, job = view.task.status.dispatch, view.state.job
    if not view.state.backend_gone or dispatch is None:
        return None
    message = f"GpuBackend {dispatch.backend} is gone or not Ready; the run moves to another one."
    problem = condition(view, "Dispatched", False, BACKEND_GONE, message)
    if job is not None and job.state is not JobState.DELETING:
        return remark(view, problem, decision=act(DeleteJob(job.name), requeue_after=POLL_SECONDS))
    if job is not None or view.live_pods():
        return wait(POLL_SECONDS)
    return to(view, Phase.READY_FOR_GPU, BACKEND_GONE, message, problem, warning=True, fields={"dispatch": None})
