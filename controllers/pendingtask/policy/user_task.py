"""Requests to a person: their identity, and which decision is about which of them.

A task asks again and again in its life; `spec.approval` is one field. An approval counts for the request that it names,
and without a name for the request that was open when it was written: not the one that was there before.

The one step to a person: phase UserTask with a request that has an identity.

What asks is over: `status.dispatch` goes, so the next claim is a new run, which reads all that was said in between. An
approval that was there before the request decides nothing (`request.decided`). So nothing leads out of the UserTask
but something that a person writes after it.
Source: seed 000 "Task States Flow" (USER_TASK), seed 002 "DirectiveHandler" (ASK, FAIL), blueprint section 9.

UserTask: a person was asked; has the answer come?

Any new message brings the task back. Otherwise a Question needs an answer to each of its ids, an Approval a decision,
and a Failure an answer or an approval (try again) or a rejection (give up: Error).
Source: seed 000 "Task States Flow" (USER_TASK -> user responds -> READY_FOR_GPU), seed 002 (ASK, FAIL).
"""

from __future__ import annotations

import hashlib

import orjson

from controllers.pendingtask.decision import Decision, Effect, Field, View, clip, condition, to, wait, whole
from controllers.pendingtask.policy import interruption, scheduled
from crds import conditions, pendingtask
from crds.pendingtask import UserTaskKind, Verdict
from crds.phases import Phase


def request_identity(view: View) -> str:
    """Identity of a request that is made now; `crds.pendingtask.Status.request_id` reads the same from the status."""
    return f"run-{view.task.status.attempt}-{int(whole(view.now).timestamp())}"


def request_digest(approval: pendingtask.Approval | None) -> str:
    """SHA-256 of the approval; "" for none."""
    if approval is None:
        return ""
    return hashlib.sha256(orjson.dumps(approval.wire(), option=orjson.OPT_SORT_KEYS)).hexdigest()


def decision_given(view: View) -> pendingtask.Approval | None:
    """The decision on the open request, if there is one."""
    given, asked = view.task.spec.approval, view.task.status.user_task
    if given is None:
        return None
    if given.request_id:
        return given if given.request_id == view.task.status.request_id else None
    if asked is not None and asked.earlier_approval == request_digest(given):
        return None
    opened = conditions.find(view.task.status.conditions, "WaitingForUser")
    return given if opened is None or view.task.metadata.generation > opened.observed_generation else None


def to_user(
    view: View,
    asked: pendingtask.UserTask,
    reason: str,
    summary: str,
    *conds: conditions.Condition,
    result: pendingtask.Result | None = None,
    effects: tuple[Effect, ...] = (),
    fields: dict[str, Field] | None = None,
) -> Decision:
    """Ask a person. `asked` says what for; `summary` is the sentence that they read, cut to 2 KiB."""
    text = clip(summary or f"A person has to look: {asked.kind.value}.")
    hint = _hint(view, asked.kind)
    told = f"{clip(summary or reason)[: pendingtask.SUMMARY_BYTES - len(hint)]}{hint}"
    waiting = condition(view, "WaitingForUser", True, asked.kind.value, told)
    noted, ended = interruption.over(view, "Ended")
    asked = asked.model_copy(
        update={"request_id": request_identity(view), "earlier_approval": request_digest(view.task.spec.approval)}
    )
    return to(
        view,
        Phase.USER_TASK,
        reason,
        text,
        waiting,
        *conds,
        *noted,
        effects=effects,
        warning=asked.kind is pendingtask.UserTaskKind.FAILURE,
        fields={
            "retry": None,
            "dispatch": None,
            "user_task": asked,
            "result": result or pendingtask.Result(summary=text),
            **ended,
            **(fields or {}),
        },
    )


def _hint(view: View, kind: pendingtask.UserTaskKind) -> str:
    """What a decision needs when spec.approval still holds that on an earlier request: the same again is no change."""
    if kind is pendingtask.UserTaskKind.QUESTION or view.task.spec.approval is None:
        return ""
    return (
        " spec.approval holds the decision on an earlier request;"
        f" decide on this one with spec.approval.requestId {request_identity(view)}."
    )


def messages(view: View) -> Decision | None:
    """The user said something more."""
    if len(view.task.spec.messages) <= view.task.status.messages_seen:
        return None
    return _back(view, "NewMessages", "A new message arrived; the task runs again with it.")


def question(view: View) -> Decision | None:
    """Every open question has its answer."""
    asked = view.task.status.user_task
    if asked is None or asked.kind is not UserTaskKind.QUESTION:
        return None
    given = {answer.id for answer in view.task.spec.answers}
    # What the run has read already is no answer to what it asked after that, even under the same id.
    news = len(view.task.spec.answers) > view.task.status.answers_seen
    complete = news and all(one.id in given for one in asked.questions)
    return _back(view, "Answered", "The questions are answered.") if complete else None


def approval(view: View) -> Decision | None:
    """A decision, either way, brings it back; the next run reads it from its memory."""
    asked, given = view.task.status.user_task, decision_given(view)
    if asked is None or asked.kind is not UserTaskKind.APPROVAL or given is None:
        return None
    status = view.task.status
    decided = pendingtask.Decided(
        request_id=status.request_id,
        attempt=status.attempt,
        verdict=given.verdict,
        comment=given.comment,
        author=given.author,
    )
    kept = (*status.approvals, decided)[-pendingtask.APPROVALS :]
    return _back(view, given.verdict.value, f"{given.verdict.value} by {given.author or 'a user'}.", approvals=kept)


def failure(view: View) -> Decision | None:
    """Try again or give up."""
    asked, given = view.task.status.user_task, decision_given(view)
    if asked is not None and asked.kind is not UserTaskKind.FAILURE:
        return None
    if given is not None and given.verdict is Verdict.REJECTED:
        return to(view, Phase.ERROR, "GivenUp", f"Given up by {given.author or 'a user'}.", fields={"user_task": None})
    if given is not None or len(view.task.spec.answers) > view.task.status.answers_seen:
        return _back(view, "RetryRequested", "A user asked for another try.")
    return None


def still(view: View) -> Decision | None:
    """Nobody has answered: only an event wakes it."""
    return wait()


def _back(view: View, reason: str, message: str, **more: Field) -> Decision:
    """To the GPU; a task that was handed over before it had a route goes back to where it would get one."""
    target = Phase.READY_FOR_GPU
    if view.task.status.route is None:
        target = Phase.SCHEDULED if scheduled.is_template(view.task) else Phase.READY_FOR_QUALIFICATION
    closed = condition(view, "WaitingForUser", False, reason, message)
    fields: dict[str, Field] = {"retry": None, "user_task": None, **more}
    return to(view, target, reason, message, closed, fields=fields)
