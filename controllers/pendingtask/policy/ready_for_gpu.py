"""ReadyForGpu: which task gets a GPU slot, and when.

Every run takes a slot, also a user's run. A user's task without a free slot gets that of a Background run
(`slots.bookings`).

`status.dispatch` that is still set in ReadyForGpu means that this attempt has not ended: its dispatch failed, or was
suspended or preempted. The next claim takes the same attempt and therefore the same Job name. `messagesSeen` then stays
as it was: every Job of an attempt reads that number of messages or more (`controllers.memory.document`), and says how
many.

Source: seed 000 "Execution Loop (GPU)": Foreground at once; Background only after 30 s without a user request and with
a free slot; dispatch backoff 5, 15, 30, 60 s, then 5 min; one circuit breaker for all dispatches.
"""

from __future__ import annotations

from dataclasses import replace

from contracts.api.queue_api import MESSAGES, Reason, explain
from controllers.pendingtask import job as jobs
from controllers.pendingtask.decision import Decision, Field, Launch, View, WaitFor, condition, remark, to, wait, whole
from controllers.pendingtask.policy import dispatched, interruption
from crds import conditions, order, pendingtask
from crds.phases import Phase

BYSTANDER_SECONDS = 5.0
FLAGS = "FlagsApplied"
"""The condition about annotations that choose feature flags, where one of them is or was ignored."""


def bystanders(view: View) -> Decision | None:
    """A pod of an earlier run still exists: a task never runs twice at the same time."""
    next_attempt = view.task.status.next_attempt
    if any(pod.attempt != next_attempt for pod in view.live_pods()):
        return wait(BYSTANDER_SECONDS)
    return None


def running(view: View) -> Decision | None:
    """The Job of the run that resumes next runs already: its creation was not observed, or another client resumed it.

    It takes a slot, or stops until one is free. A Job that Kueue resumed is not stopped.
    """
    job = view.state.job
    if job is None or not interruption.job_to_resume_runs(view):
        return None
    if job.queued or view.state.slots.free or _has_slot(view):
        return bystanders(view) or claim(view)
    return interruption.stopped(job)


def over(view: View) -> Decision | None:
    """The Job of the run that resumes next has ended: it was resumed unobserved, or ended while it was being stopped.

    Its result is read at once, without a slot.
    """
    job = view.state.job
    if job is None or job.state not in dispatched.ENDED or not interruption.has_job_to_resume(view):
        return None
    message = f"Job {job.name} has ended."
    return bystanders(view) or to(view, Phase.DISPATCHED_GPU, "Ended", message, fields={"user_task": None})


def breaker(view: View) -> Decision | None:
    """Dispatching failed too often in a row. Users' tasks record it at once, others when it lasts (`_waits`)."""
    if view.state.dispatch_open:
        return None
    if not order.foreground(view.task.spec) or dispatched.failing(view):
        return _waits(view)
    message = explain(Reason.CIRCUIT_OPEN, view.state.dispatch_cause)
    decision = wait(wait_for=WaitFor.GPU)
    return remark(view, condition(view, "Dispatched", False, dispatched.CIRCUIT_OPEN, message), decision=decision)


def idle(view: View) -> Decision | None:
    """Background work waits while users are active. A router that does not answer delays it no longer than a user."""
    if order.foreground(view.task.spec):
        return None
    if view.state.user_active:
        return _waits(view)
    for moment in (view.state.last_user, view.state.in_doubt_since):
        if moment is not None and moment + view.state.limits.idle_threshold > view.now:
            return _waits(view)
    return None


def slot(view: View) -> Decision | None:
    """Whether a slot is free. Without any Ready GPU a few users' tasks start all the same: the router may use a CPU."""
    if _has_slot(view):
        return None
    slots, foreground = view.state.slots, order.foreground(view.task.spec)
    decision = wait(wait_for=WaitFor.GPU)
    if slots.total == 0:
        message = MESSAGES[Reason.NO_GPU_BACKEND]
        if foreground:
            most = view.state.limits.runs_without_gpu
            message += f" Runs that go without one: at most {most} (operator.settings.runsWithoutGpu)."
        return remark(view, condition(view, "Dispatched", False, "NoGpuBackend", message), decision=decision)
    if not foreground:
        return _waits(view)
    message = "Every GPU slot is taken; it gets the next one, or that of a Background run that is asked to stop."
    noted = remark(view, condition(view, "Dispatched", False, "NoFreeSlot", message), decision=decision)
    return replace(noted, note=replace(noted.note, warning=False) if noted.note else None)


def _waits(view: View) -> Decision:
    """A Background task waits. After a long wait its condition gives the reason; no Event is posted."""
    decision, reason = wait(wait_for=WaitFor.GPU), view.state.waits
    if reason is None:
        return decision
    cause = view.state.dispatch_cause if reason is Reason.CIRCUIT_OPEN else ""
    cond = condition(view, "Dispatched", False, reason.value, explain(reason, cause))
    return replace(remark(view, cond, decision=decision), note=None)


def claim(view: View) -> Decision | None:
    """Book the slot; the Job is created once the booking is persisted."""
    status = view.task.status
    number = status.next_attempt
    booked = pendingtask.Dispatch(
        job_name=jobs.name(view.task.metadata.name, view.task.metadata.uid, number),
        backend=_backend(view),
        started_at=whole(view.now),
        thread_id=view.task.metadata.uid,
    )
    conds, cleared = interruption.over(view, "Resumed")
    fields: dict[str, Field] = {"attempt": number, "dispatch": booked, "user_task": None, **cleared}
    if number != status.attempt:
        fields["messages_seen"] = len(view.task.spec.messages)
        fields["answers_seen"] = len(view.task.spec.answers)
    decision = to(
        view,
        Phase.DISPATCHED_GPU,
        "Dispatched",
        f"Run {number} as Job {booked.job_name}.",
        *conds,
        *_flags(view),
        effects=(Launch(number, booked.job_name),),
        fields=fields,
    )
    return replace(decision, note=None) if dispatched.failing(view) else decision


def _flags(view: View) -> tuple[conditions.Condition, ...]:
    """What is said about annotations that choose feature flags and do not count; once they are right, that they are."""
    said, ignored = conditions.find(view.task.status.conditions, FLAGS), view.state.ignored_flags
    if ignored:
        return (condition(view, FLAGS, False, "AnnotationIgnored", " ".join(ignored)),)
    return () if said is None else (condition(view, FLAGS, True, "AsAnnotated", ""),)


def _has_slot(view: View) -> bool:
    slots = view.state.slots
    return bool(slots.startable) or (order.foreground(view.task.spec) and slots.without_gpu > 0)


def _backend(view: View) -> str:
    """The backend of the last claim if it may be used again, else the emptiest one."""
    free = [name for name, _ in view.state.slots.startable or view.state.slots.free]
    before = view.task.status.dispatch.backend if view.task.status.dispatch else ""
    occupied = interruption.job_to_resume_runs(view) and not free
    return before if occupied or before in free else free[0] if free else ""
