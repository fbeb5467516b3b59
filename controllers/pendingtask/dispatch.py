"""ReadyForGpu: who gets a GPU slot, and when.

Source: seed 000 "Execution Loop (GPU)": Foreground at once; Background only after 30 s without a user request and with
a free slot; dispatch backoff 5, 15, 30, 60 s, then 5 min; a circuit breaker over all of it.

`status.dispatch` that is still set in ReadyForGpu means that this attempt has not been seen to end: a failed or
suspended dispatch. The next claim takes the same attempt, and so the same Job name, again. `messagesSeen` then stays
what it was, because a Job that exists may have read no more than that.
"""

from __future__ import annotations

from controllers.pendingtask import job, order
from controllers.pendingtask.decision import Decision, Field, Launch, Room, View, condition, remark, to, wait, whole
from crds import pendingtask
from crds.phases import Phase

BYSTANDER_SECONDS = 5.0


def attempt(view: View) -> int:
    """The number of the run that the next claim starts or takes up again."""
    status = view.task.status
    return status.attempt if status.dispatch is not None and status.attempt > 0 else status.attempt + 1


def bystanders(view: View) -> Decision | None:
    """A pod of an earlier run is still there: a task never runs twice at the same time."""
    next_attempt = attempt(view)
    if any(pod.attempt != next_attempt for pod in view.world.live_pods()):
        return wait(BYSTANDER_SECONDS)
    return None


def breaker(view: View) -> Decision | None:
    """Dispatching failed too often in a row for anybody."""
    return None if view.world.dispatch_open else wait(room=Room.GPU)


def idle(view: View) -> Decision | None:
    """Background work waits for users to be quiet."""
    if order.foreground(view.task.spec):
        return None
    if view.world.user_active:
        return wait(room=Room.GPU)
    last = view.world.last_user
    if last is not None and last + view.world.limits.idle_threshold > view.now:
        return wait(room=Room.GPU)
    return None


def slot(view: View) -> Decision | None:
    """Background work waits for a free slot; Foreground does not (the router lets it go first)."""
    if order.foreground(view.task.spec) or view.world.slots.free:
        return None
    if view.world.slots.total > 0:
        return wait(room=Room.GPU)
    missing = condition(
        view,
        "Dispatched",
        False,
        "NoGpuBackend",
        "No GpuBackend of kind GPU is Ready; see `kubectl get gpu` and create or mend one.",
    )
    return remark(view, missing, decision=wait(room=Room.GPU))


def claim(view: View) -> Decision | None:
    """Book the slot; the Job is created once that is persisted."""
    number = attempt(view)
    again = number == view.task.status.attempt
    backend = view.world.slots.free[0][0] if view.world.slots.free else ""
    booked = pendingtask.Dispatch(
        job_name=job.name(view.task.metadata.name, view.task.metadata.uid, number),
        backend=backend,
        started_at=whole(view.now),
        thread_id=view.task.metadata.uid,
    )
    fields: dict[str, Field] = {"attempt": number, "dispatch": booked, "user_task": None}
    if not again:
        fields["messages_seen"] = len(view.task.spec.messages)
        fields["answers_seen"] = len(view.task.spec.answers)
    return to(
        view,
        Phase.DISPATCHED_GPU,
        "Dispatched",
        f"Run {number} as Job {booked.job_name}.",
        effects=(Launch(number, booked.job_name),),
        fields=fields,
    )
