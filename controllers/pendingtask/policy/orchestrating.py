"""Orchestrating: how did the run end?

The exit reason of the termination message (or of the stored result) decides; without either the worker was lost.

Source: blueprint sections 4 and 9; `crds.exit_reasons`; seed 000 "Auto-Requeue on Inline Messages".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controllers.pendingtask.decision import (
    Decision,
    Effect,
    ExpireJob,
    Field,
    Remember,
    View,
    act,
    clip,
    condition,
    to,
    wait,
    whole,
)
from controllers.pendingtask.observed import JobState, Outcome, last_word
from controllers.pendingtask.policy import interruption, user_task
from controllers.pendingtask.policy.dispatched import ENDED, retried, soon
from controllers.pendingtask.policy.interruption import POLL_SECONDS
from crds import conditions, exit_reasons, pendingtask
from crds.exit_reasons import ExitReason
from crds.phases import Phase

LOST = "WorkerLost"
TOOLS_COMPLETE = "ToolsComplete"
"""The condition about the tools of other servers that a run was to have."""
DRAIN_PAUSE = timedelta(seconds=5)


def ended(view: View) -> Decision | None:
    """The Job has ended or is gone, and none of its pods lives."""
    job = view.state.job
    if job is not None and job.state not in ENDED:
        return None
    if any(pod.attempt == view.task.status.attempt for pod in view.live_pods()):
        return wait(POLL_SECONDS)
    outcome = _outcome(view)
    if outcome is None:
        return _lost(view)
    if outcome.exit_reason in exit_reasons.RESUMABLE:
        return _resume(view, outcome)
    if len(view.task.spec.messages) > _read(view, outcome) and outcome.exit_reason in (
        exit_reasons.FINAL | exit_reasons.ASKS
    ):
        return _again(view, outcome)
    if outcome.exit_reason in exit_reasons.FINAL:
        return _complete(view, outcome)
    return _ask(view, outcome)


def spoken(view: View) -> Decision | None:
    """The user adds something while the run works, which reads it before it writes its result. Whether it has, it
    reports itself: `status.messagesSeen` stays until then."""
    if len(view.task.spec.messages) <= view.task.status.messages_seen:
        return None
    return act(Remember(view.task.status.attempt), requeue_after=soon(view))


def running(view: View) -> Decision | None:
    """Reconcile periodically, in case an event was missed."""
    return wait(soon(view))


def _read(view: View, outcome: Outcome) -> int:
    """Number of the user's messages that the run has read."""
    status = view.task.status
    return min(len(view.task.spec.messages), max(status.messages_seen, outcome.messages_read or 0))


def _seen(view: View, outcome: Outcome) -> dict[str, Field]:
    """The field of the status, where the run has read more than it began with."""
    read = _read(view, outcome)
    return {"messages_seen": read} if read > view.task.status.messages_seen else {}


def _outcome(view: View) -> Outcome | None:
    job = view.state.job
    found = last_word(view.state.pods, view.task.status.attempt, job) or view.state.recorded
    late = job is not None and job.reason == "DeadlineExceeded"
    # The Job controller ends a late run with SIGTERM, which the run reports as Drained.
    if late and (found is None or found.exit_reason is ExitReason.DRAINED):
        return Outcome(ExitReason.DEADLINE_EXCEEDED, "The run took longer than spec.activeDeadlineSeconds allows.")
    if found is None or not found.waiting or found.exit_reason is not ExitReason.NEEDS_APPROVAL:
        return found
    # Without the effects nothing could be decided: the run is repeated, and asks again.
    stored = view.state.recorded
    return replace(found, effects=stored.effects) if stored is not None and stored.effects else None


def _expire(view: View) -> tuple[Effect, ...]:
    job = view.state.job
    if job is None or job.has_ttl or job.state is JobState.DELETING:
        return ()
    return (ExpireJob(job.name, view.state.limits.job_ttl_seconds),)


def _result(outcome: Outcome) -> pendingtask.Result:
    ref = pendingtask.ResultRef(collection=outcome.collection, key=outcome.key) if outcome.key else None
    return pendingtask.Result(
        summary=clip(outcome.summary), ref=ref, exit_reason=outcome.exit_reason, plan=outcome.plan
    )


def _tools(view: View, outcome: Outcome) -> tuple[conditions.Condition, ...]:
    """Whether the run's agents had all tools of the servers that are listed for them; nothing where that was never
    another way."""
    if outcome.absent_tools:
        return (condition(view, TOOLS_COMPLETE, False, "SomeLeftOut", f"Tools of servers: {outcome.absent_tools}"),)
    if conditions.find(view.task.status.conditions, TOOLS_COMPLETE) is None:
        return ()
    return (condition(view, TOOLS_COMPLETE, True, "AllOffered", "The latest run had all tools that are listed."),)


def _complete(view: View, outcome: Outcome) -> Decision:
    conds, fields = interruption.over(view, "Completed")
    reason, message = "Completed", "The run has answered."
    if outcome.exit_reason is ExitReason.REJECTED:
        # The run ended as a person decided, and it has no answer for clients that wait for one.
        reason, message = "Rejected", clip(outcome.summary or "A person rejected what the run was about to do.")
        conds = (*conds, condition(view, "Succeeded", False, reason, message))
    return to(
        view,
        Phase.COMPLETED,
        reason,
        message,
        *conds,
        *_tools(view, outcome),
        fields={"retry": None, "dispatch": None, "result": _result(outcome), **_seen(view, outcome), **fields},
    )


def _again(view: View, outcome: Outcome) -> Decision:
    """Messages came too late for the run: the task runs again with the whole conversation."""
    count = len(view.task.spec.messages) - _read(view, outcome)
    conds, fields = interruption.over(view, "Ended")
    return to(
        view,
        Phase.READY_FOR_GPU,
        "NewMessages",
        f"{count} message(s) arrived during the run; it runs again with all of them.",
        *conds,
        effects=_expire(view),
        fields={"retry": None, "dispatch": None, **fields},
    )


def _resume(view: View, outcome: Outcome) -> Decision:
    """The run releases its slot and resumes later. A claim on the slot stays as it is."""
    reason, summary = outcome.exit_reason.value, clip(outcome.sentence() or "The run resumes from its checkpoint.")
    if outcome.exit_reason is ExitReason.DRAINED:
        return _interrupted(view, reason, summary)
    retry = retried(view, reason, outcome.sentence(), outcome.retry_after)
    decision = to(
        view,
        Phase.READY_FOR_GPU,
        reason,
        summary,
        condition(view, "Dispatched", False, reason, summary),
        effects=_expire(view),
        warning=True,
        fields={"retry": retry, "dispatch": None},
    )
    return replace(decision, note=decision.note if retry.count == 1 else None)


def _interrupted(view: View, reason: str, summary: str) -> Decision:
    """The run is not the cause. A short pause limits the Jobs of a program that stops at once every time."""
    retry = pendingtask.Retry(next_at=whole(view.now + DRAIN_PAUSE), reason=f"{reason}: it resumes.")
    cond = condition(view, "Dispatched", False, reason, summary)
    fields: dict[str, Field] = {"retry": retry, "dispatch": None}
    return to(view, Phase.READY_FOR_GPU, reason, summary, cond, effects=_expire(view), fields=fields)


def _ask(view: View, outcome: Outcome) -> Decision:
    kinds = {
        ExitReason.NEEDS_INPUT: pendingtask.UserTaskKind.QUESTION,
        ExitReason.NEEDS_APPROVAL: pendingtask.UserTaskKind.APPROVAL,
    }
    kind = kinds.get(outcome.exit_reason, pendingtask.UserTaskKind.FAILURE)
    approval = kind is pendingtask.UserTaskKind.APPROVAL
    asked = pendingtask.UserTask(
        kind=kind,
        questions=outcome.questions,
        effects=outcome.effects if approval else (),
        effects_waiting=outcome.waiting if approval and outcome.effects else None,
        about=outcome.about if approval and not outcome.effects else "",
        details_ref=f"mongodb:{outcome.collection}/{outcome.key}" if outcome.key else "",
    )
    return user_task.to_user(
        view,
        asked,
        outcome.exit_reason.value,
        " ".join(filter(None, (_waiting(asked), outcome.sentence()))),
        *_tools(view, outcome),
        result=_result(outcome),
        effects=_expire(view),
        fields=_seen(view, outcome),
    )


def _waiting(asked: pendingtask.UserTask) -> str:
    """How many effects wait, and which, as a sentence of at most about 1,000 characters; "" where none does."""
    if not asked.effects:
        return ""
    count = asked.effects_waiting or len(asked.effects)
    shown = enumerate(asked.effects[:8], start=1)
    named = [" ".join((f"{number} {effect.tool}", *effect.targets[:3])) for number, effect in shown]
    more = "; ..." if count > len(named) else ""
    return clip(f"{count} {'effect waits' if count == 1 else 'effects wait'} for approval: {'; '.join(named)}{more}.")


def _lost(view: View) -> Decision:
    """The pod was killed, evicted or deleted before it left a result: run again, a limited number of times."""
    ends = [pod for pod in view.state.pods if pod.attempt == view.task.status.attempt and pod.exit_code is not None]
    how = f"its container ended with code {ends[-1].exit_code} ({ends[-1].ended_reason})" if ends else "its pod is gone"
    sentence = f"Run {view.task.status.attempt} left no result: {how}."
    if view.task.status.preemption is not None:
        return _interrupted(view, interruption.PREEMPTED, f"{sentence} It had to stop; it resumes from its checkpoint.")
    if view.state.backend_gone:
        return _interrupted(
            view, interruption.BACKEND_GONE, f"{sentence} Its backend is gone; it resumes from its checkpoint."
        )
    retry = retried(view, LOST, sentence)
    if retry.count > view.state.limits.max_lost_runs:
        asked = pendingtask.UserTask(kind=pendingtask.UserTaskKind.FAILURE)
        text = f"{retry.count} runs in a row left no result. {sentence}"
        result = pendingtask.Result(summary=clip(text), exit_reason=ExitReason.ERROR)
        return user_task.to_user(view, asked, LOST, text, result=result, effects=_expire(view))
    problem = condition(view, "Dispatched", False, LOST, sentence)
    return to(
        view,
        Phase.READY_FOR_GPU,
        LOST,
        sentence,
        problem,
        effects=_expire(view),
        warning=True,
        fields={"retry": retry, "dispatch": None},
    )
