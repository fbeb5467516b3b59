"""ReadyForGpu: who gets a GPU slot, and when.

Every run takes a slot, a user's too; a user's task without a free one gets that of a Background run (`preemption`).
Source: seed 000 "Execution Loop (GPU)": Foreground at once; Background only after 30 s without a user request and with
a free slot; dispatch backoff 5, 15, 30, 60 s, then 5 min; a circuit breaker over all of it.

`status.dispatch` that is still set in ReadyForGpu means that this attempt has not been seen to end: a failed, suspended
or preempted dispatch. The next claim takes the same attempt, and so the same Job name, again. `messagesSeen` then stays
what it was: every Job of an attempt reads that many messages and no more (`controllers.memory.document`).
"""

from __future__ import annotations

from dataclasses import replace

from controllers.pendingtask import job as jobs
from controllers.pendingtask.decision import Decision, Field, Launch, View, WaitFor, condition, remark, to, wait, whole
from controllers.pendingtask.policy import dispatched, interruption
from crds import order, pendingtask
from crds.phases import Phase
from crds.waits import MESSAGES, Reason, explain

BYSTANDER_SECONDS = 5.0


def bystanders(view: View) -> Decision | None:
    """A pod of an earlier run is still there: a task never runs twice at the same time."""
    next_attempt = view.task.status.next_attempt
    if any(pod.attempt != next_attempt for pod in view.live_pods()):
        return wait(BYSTANDER_SECONDS)
    return None


def running(view: View) -> Decision | None:
    """The Job of the run that is to go on runs already: its creation was not noticed, or whoever had suspended it let
    it go. It takes a slot, or stops until there is one; what Kueue has let go stays."""
    job = view.state.job
    if job is None or not interruption.job_to_resume_runs(view):
        return None
    if job.queued or view.state.slots.free or _has_slot(view):
        return bystanders(view) or claim(view)
    return interruption.stopped(job)


def over(view: View) -> Decision | None:
    """The Job of the run that is to go on has ended: it had been let go and nobody heard of that, or it ended in the
    moment in which it was to stop. What it says is looked for at once, without a slot."""
    job = view.state.job
    if job is None or job.state not in dispatched.ENDED or not interruption.has_job_to_resume(view):
        return None
    told = f"Job {job.name} has ended."
    return bystanders(view) or to(view, Phase.DISPATCHED_GPU, "Ended", told, fields={"user_task": None})


def breaker(view: View) -> Decision | None:
    """Dispatching failed too often in a row. Users' tasks say so at once, the others when it lasts (`_waits`)."""
    if view.state.dispatch_open:
        return None
    if not order.foreground(view.task.spec) or dispatched.failing(view):
        return _waits(view)
    told = explain(Reason.CIRCUIT_OPEN, view.state.dispatch_cause)
    decision = wait(wait_for=WaitFor.GPU)
    return remark(view, condition(view, "Dispatched", False, dispatched.CIRCUIT_OPEN, told), decision=decision)


def idle(view: View) -> Decision | None:
    """Background work waits for users to be quiet. A router that cannot be asked holds it up no longer than that."""
    if order.foreground(view.task.spec):
        return None
    if view.state.user_active:
        return _waits(view)
    for moment in (view.state.last_user, view.state.in_doubt_since):
        if moment is not None and moment + view.state.limits.idle_threshold > view.now:
            return _waits(view)
    return None


def slot(view: View) -> Decision | None:
    """Is one free? Without any Ready GPU a few users' tasks go all the same: the router may answer from a CPU."""
    if _has_slot(view):
        return None
    slots, foreground = view.state.slots, order.foreground(view.task.spec)
    decision = wait(wait_for=WaitFor.GPU)
    if slots.total == 0:
        told = MESSAGES[Reason.NO_GPU_BACKEND]
        if foreground:
            most = view.state.limits.runs_without_gpu
            told += f" Runs that go without one: at most {most} (operator.settings.runsWithoutGpu)."
        return remark(view, condition(view, "Dispatched", False, "NoGpuBackend", told), decision=decision)
    if not foreground:
        return _waits(view)
    told = "Every GPU slot is taken; it gets the next one, or that of a Background run that is asked to stop."
    noted = remark(view, condition(view, "Dispatched", False, "NoFreeSlot", told), decision=decision)
    return replace(noted, note=replace(noted.note, warning=False) if noted.note else None)


def _waits(view: View) -> Decision:
    """A Background task waits; its condition says why when it has for long. There is no Event of it."""
    decision, reason = wait(wait_for=WaitFor.GPU), view.state.waits
    if reason is None:
        return decision
    cause = view.state.dispatch_cause if reason is Reason.CIRCUIT_OPEN else ""
    said = condition(view, "Dispatched", False, reason.value, explain(reason, cause))
    return replace(remark(view, said, decision=decision), note=None)


def claim(view: View) -> Decision | None:
    """Book the slot; the Job is created once that is persisted."""
    status = view.task.status
    number = status.next_attempt
    booked = pendingtask.Dispatch(
        job_name=jobs.name(view.task.metadata.name, view.task.metadata.uid, number),
        backend=_backend(view),
        started_at=whole(view.now),
        thread_id=view.task.metadata.uid,
    )
    said, cleared = interruption.over(view, "Resumed")
    fields: dict[str, Field] = {"attempt": number, "dispatch": booked, "user_task": None, **cleared}
    if number != status.attempt:
        fields["messages_seen"] = len(view.task.spec.messages)
        fields["answers_seen"] = len(view.task.spec.answers)
    decision = to(
        view,
        Phase.DISPATCHED_GPU,
        "Dispatched",
        f"Run {number} as Job {booked.job_name}.",
        *said,
        effects=(Launch(number, booked.job_name),),
        fields=fields,
    )
    return replace(decision, note=None) if dispatched.failing(view) else decision


def _has_slot(view: View) -> bool:
    slots = view.state.slots
    return bool(slots.startable) or (order.foreground(view.task.spec) and slots.without_gpu > 0)


def _backend(view: View) -> str:
    """Where it was before, else the emptiest."""
    free = [name for name, _ in view.state.slots.startable or view.state.slots.free]
    before = view.task.status.dispatch.backend if view.task.status.dispatch else ""
    occupied = interruption.job_to_resume_runs(view) and not free
    return before if occupied or before in free else free[0] if free else ""
