"""DispatchedGpu: the slot is booked; does the Job exist, and does its pod start?

Recovery from a crash starts here: the claim is persisted, so the same Launch is performed again under the same name.

Source: seed 000 "Stale task recovery" (Background over 10 min without a live worker; Foreground keeps its slot),
"Orchestrator Dispatch Backoff".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from clients import backoff
from controllers.pendingtask.decision import (
    Decision,
    DeleteJob,
    Field,
    Launch,
    Note,
    View,
    act,
    condition,
    moment,
    remark,
    to,
    wait,
    whole,
)
from controllers.pendingtask.observed import JobState, TokenNotWritten, Trouble
from controllers.pendingtask.policy import interruption, user_task
from controllers.pendingtask.policy.interruption import POLL_SECONDS
from crds import order, pendingtask
from crds.phases import Phase

FAILED = "DispatchFailed"
CIRCUIT_OPEN = "CircuitOpen"
NO_TOKEN = "TokenNotWritten"  # noqa: S105  # a reason, no password
CLOCK_STEP = timedelta(seconds=60)
"""A recorded time that is further in the future was written under another clock."""
ENDED = frozenset({JobState.COMPLETE, JobState.FAILED})


def retried(view: View, kind: str, sentence: str, asked: float | None = None) -> pendingtask.Retry:
    """The next try; consecutive failures of one kind are counted together.

    It is not before `asked` seconds, if the unavailable service named some (at most the longest wait of the backoff).
    """
    old = view.task.status.retry
    count = (old.count if old is not None and old.reason.startswith(f"{kind}:") else 0) + 1
    delay = max(backoff.DISPATCH.delay(count), min(asked or 0.0, backoff.DISPATCH.seconds[-1]))
    later = view.now + timedelta(seconds=delay)
    return pendingtask.Retry(count=count, next_at=whole(later), reason=f"{kind}: {sentence}"[:1024])


def trouble(view: View) -> Decision | None:
    """The task memory could not be written, or the Job could not be created."""
    found = view.state.observed
    if not isinstance(found, Trouble):
        return None
    reason = FAILED if view.state.dispatch_open else CIRCUIT_OPEN
    problem = condition(view, "Dispatched", False, reason, found.sentence())
    if not found.operational:
        asked = pendingtask.UserTask(kind=pendingtask.UserTaskKind.FAILURE)
        return user_task.to_user(view, asked, FAILED, found.sentence(), problem)
    retry = retried(view, FAILED, found.sentence())
    decision = to(view, Phase.READY_FOR_GPU, FAILED, found.sentence(), problem, warning=True, fields={"retry": retry})
    return replace(decision, note=decision.note if retry.count == 1 else None)


def token(view: View) -> Decision | None:
    """The Job exists and its token could not be written.

    The pod holds its slot and cannot start before the next try succeeds or a user acts.
    """
    found = view.state.observed
    if not isinstance(found, TokenNotWritten):
        return None
    message = f"The run's token could not be written: {found.trouble.sentence()}"[:1024]
    problem = condition(view, "Dispatched", False, NO_TOKEN, message)
    if not found.trouble.operational:
        asked = pendingtask.UserTask(kind=pendingtask.UserTaskKind.FAILURE)
        return user_task.to_user(view, asked, NO_TOKEN, message, problem)
    retry = retried(view, NO_TOKEN, found.trouble.sentence(), found.trouble.retry_after)
    assert retry.next_at is not None
    wanted = wait((retry.next_at - view.now).total_seconds())
    decision = remark(view, problem, decision=replace(wanted, status_patch={"retry": retry.wire()}))
    return replace(decision, note=Note(NO_TOKEN, message, warning=True) if retry.count == 1 else None)


def token_postponed(task: pendingtask.PendingTask, now: datetime) -> bool:
    """Whether the run's token could not be written and the next try is still to come."""
    retry = task.status.retry
    if retry is None or retry.next_at is None or not retry.reason.startswith(f"{NO_TOKEN}:"):
        return False
    return now < retry.next_at <= now + interruption.LONGEST


def started(view: View) -> Decision | None:
    """The container runs, or the Job has ended already."""
    job = view.state.job
    if job is None:
        return None
    running = any(pod.started and pod.attempt == view.task.status.attempt for pod in view.live_pods())
    if job.state not in ENDED and (job.suspended or not running):
        return None
    cleared: dict[str, Field] = {"retry": None} if failing(view) else {}
    dispatch = view.task.status.dispatch
    if dispatch is not None and job.name != dispatch.job_name:
        cleared["dispatch"] = dispatch.model_copy(update={"job_name": job.name})  # it was claimed, not made for the run
    fine = condition(view, "Dispatched", True, "Running", f"Job {job.name} runs.")
    return to(view, Phase.ORCHESTRATING, "Running", f"Job {job.name} runs.", fine, fields=cleared)


def failing(view: View) -> bool:
    """Whether this claim is a repeated one: its Job or its token could not be created before."""
    retry = view.task.status.retry
    return retry is not None and retry.count > 0 and retry.reason.startswith((f"{FAILED}:", f"{NO_TOKEN}:"))


def stale(view: View) -> Decision | None:
    """A Background task whose worker did not start releases its slot; its attempt counts once."""
    if view.entered() > view.now + CLOCK_STEP and not order.foreground(view.task.spec):
        # Written under a clock that was ahead. Counted from now, since a stale run would hold its slot until then.
        return Decision({"phaseTimes": {view.phase.value: moment(view.now)}})
    overdue = view.entered() + view.state.limits.stale_after <= view.now
    if order.foreground(view.task.spec) or not overdue or view.state.working:
        return None
    if view.state.job is not None:
        if view.state.job.state is JobState.DELETING:
            return wait(POLL_SECONDS)
        return act(DeleteJob(view.state.job.name), requeue_after=POLL_SECONDS)
    if view.live_pods():
        return wait(POLL_SECONDS)
    minutes = int(view.state.limits.stale_after.total_seconds() // 60)
    sentence = f"No worker came to life within {minutes} min."
    problem = condition(view, "Dispatched", False, "Stale", sentence)
    retry = retried(view, "Stale", sentence)
    return to(
        view, Phase.READY_FOR_GPU, "Stale", sentence, problem, warning=True, fields={"retry": retry, "dispatch": None}
    )


def launch(view: View) -> Decision | None:
    """Create the Job, or resume the suspended one."""
    dispatch, job = view.task.status.dispatch, view.state.job
    if dispatch is None:
        # A client edited the status, and the stored data do not name the run. Start over with a new attempt.
        return to(view, Phase.READY_FOR_GPU, "Lost", "status.dispatch is missing; the task is dispatched anew.")
    if job is not None and not job.suspended:
        return None
    if view.state.working:
        return wait()
    if job is None and view.live_pods():
        return wait(POLL_SECONDS)
    return act(Launch(view.task.status.attempt, dispatch.job_name))


def soon(view: View) -> float:
    """Seconds until the next reconciliation without an event; fewer if the run, its pod or backend may be given up."""
    moments = [(pod.given_up_at - view.now).total_seconds() for pod in view.live_pods() if pod.given_up_at is not None]
    if view.state.backend_gone_in is not None:
        moments.append(view.state.backend_gone_in)
    if view.phase is Phase.DISPATCHED_GPU and not order.foreground(view.task.spec):
        # A run becomes stale without any event.
        overdue = (view.entered() + view.state.limits.stale_after - view.now).total_seconds()
        moments += [overdue] if overdue > 0 else []
    retry = view.task.status.retry
    if retry is not None and retry.next_at is not None and token_postponed(view.task, view.now):
        moments.append((retry.next_at - view.now).total_seconds())
    return min([view.state.limits.recheck.total_seconds(), *moments])


def starting(view: View) -> Decision | None:
    """The Job exists and its pod does not run yet: record the reason, if the kubelet gives one."""
    patience = wait(soon(view))
    stuck = next((pod for pod in view.state.pods if pod.live and pod.waiting_message), None)
    if stuck is None or token_postponed(view.task, view.now):
        return patience
    message = f"{stuck.waiting_reason}: {stuck.waiting_message}"
    return remark(view, condition(view, "Dispatched", False, stuck.waiting_reason, message), decision=patience)
