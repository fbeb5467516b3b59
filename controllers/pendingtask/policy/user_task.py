"""UserTask: a request to a person, its identity, the transition to it, and the way back. Pure.

- Identity: a task may ask several times, and `spec.approval` is one field. An approval counts for the request that it
  names. Without a name it counts for the request that was open when it was written.
- The transition (`to_user`) ends the run: `status.dispatch` is removed, so the next claim is a new run that reads all
  messages and answers. An approval that is older than the request decides nothing (`decision_given`). The task
  therefore leaves UserTask only after a person writes something new.
- Expiry: a request of approval that `spec.approvalPolicy`, or the release, limits in time is decided by its default at
  `status.userTask.expiresAt`. That time follows from the status and the policy alone; whatever restarts in between. A
  task that is held (suspended, or refused by its namespace) does not expire meanwhile.
- The way back: any new message returns the task. A Question needs an answer to each of its ids, an Approval a decision,
  a Failure an answer or an approval (try again) or a rejection (give up: Error).

Source: seed 000 "Task States Flow" (USER_TASK -> user responds -> READY_FOR_GPU); seed 002 "DirectiveHandler" (ASK,
FAIL); blueprint section 9.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import datetime

import orjson

from controllers.pendingtask.decision import (
    Decision,
    Effect,
    Field,
    Note,
    View,
    clip,
    condition,
    moment,
    remark,
    to,
    until,
    wait,
    whole,
)
from controllers.pendingtask.policy import interruption, scheduled
from crds import approvals, conditions, pendingtask
from crds.pendingtask import UserTaskKind, Verdict
from crds.phases import Phase

EXPIRED = "ApprovalExpired"
UNUSABLE = "ArgumentsUnusable"
"""Reasons of the condition WaitingForUser: no decision came in time; the edited arguments are unusable."""
CLOCK = "jervis"
"""Author of a decision that the approval policy made."""


def request_identity(view: View) -> str:
    """Identity of a request that is made now; `crds.pendingtask.Status.request_id` reads it from the status."""
    return f"run-{view.task.status.attempt}-{int(whole(view.now).timestamp())}"


def request_digest(approval: pendingtask.Approval | None) -> str:
    """SHA-256 of the approval; "" for none."""
    if approval is None:
        return ""
    return hashlib.sha256(orjson.dumps(approval.wire(), option=orjson.OPT_SORT_KEYS)).hexdigest()


def decision_given(view: View) -> pendingtask.Approval | None:
    """The decision on the open request; None without one."""
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
    """Ask a person. `asked` is the request; `summary` is the sentence that the person reads, cut to 2 KiB."""
    text = clip(summary or f"A person must act: {asked.kind.value}.")
    hint = _hint(view, asked.kind)
    message = f"{clip(summary or reason)[: pendingtask.SUMMARY_BYTES - len(hint)]}{hint}"
    waiting = condition(view, "WaitingForUser", True, asked.kind.value, message)
    noted, ended = interruption.over(view, "Ended")
    asked = asked.model_copy(
        update={
            "request_id": request_identity(view),
            "earlier_approval": request_digest(view.task.spec.approval),
            "expires_at": _due(view, asked.kind, whole(view.now)),
        }
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
    """What a decision needs while spec.approval holds an earlier one: writing the same approval again is no change."""
    if kind is pendingtask.UserTaskKind.QUESTION or view.task.spec.approval is None:
        return ""
    return (
        " spec.approval holds the decision on an earlier request;"
        f" decide on this one with spec.approval.requestId {request_identity(view)}."
    )


def messages(view: View) -> Decision | None:
    """A new message of the user arrived."""
    if len(view.task.spec.messages) <= view.task.status.messages_seen:
        return None
    return _back(view, "NewMessages", "A new message arrived; the task runs again with it.")


def question(view: View) -> Decision | None:
    """Every open question has its answer."""
    asked = view.task.status.user_task
    if asked is None or asked.kind is not UserTaskKind.QUESTION:
        return None
    given = {answer.id for answer in view.task.spec.answers}
    # An answer that the run has read already does not answer a later question, even under the same id.
    news = len(view.task.spec.answers) > view.task.status.answers_seen
    complete = news and all(one.id in given for one in asked.questions)
    return _back(view, "Answered", "The questions are answered.") if complete else None


def approval(view: View) -> Decision | None:
    """Any decision returns the task; the next run reads the decision from its memory.

    With edited arguments that cannot be used the request stays open, and its condition says what is wrong.
    """
    asked, given = view.task.status.user_task, decision_given(view)
    if asked is None or asked.kind is not UserTaskKind.APPROVAL or given is None:
        return None
    if wrong := pendingtask.unusable_arguments(asked, given):
        later = expired(view) or wait()
        said = condition(view, "WaitingForUser", True, UNUSABLE, wrong)
        return later if later.phase else remark(view, said, decision=later)
    message = f"{given.verdict.value} by {given.author or 'a user'}."
    if given.arguments:
        message = f"{message[:-1]}, with edited arguments."
    return _decided(view, given, given.verdict.value, message)


def expired(view: View) -> Decision | None:
    """A request of approval whose time is over: the default of the policy decides."""
    asked = view.task.status.user_task
    if asked is None or asked.kind is not UserTaskKind.APPROVAL:
        return None
    due = _due(view, asked.kind, view.entered())
    if due is not None and view.now >= due:
        return _by_default(view, due)
    later = wait() if due is None else until(view, due)
    if due == asked.expires_at:
        return None if due is None else later
    return replace(later, status_patch={"userTask": {"expiresAt": None if due is None else moment(due)}})


def _due(view: View, kind: UserTaskKind, since: datetime) -> datetime | None:
    """When a request that was made at `since` expires; None: it waits for as long as it takes."""
    if kind is not UserTaskKind.APPROVAL:
        return None
    own, limits = view.task.spec.approval_policy, view.state.limits
    after = limits.approval_expires if own is None or own.expire_after is None else approvals.period(own.expire_after)
    return None if after is None else since + after


def _by_default(view: View, due: datetime) -> Decision:
    own = view.task.spec.approval_policy
    default = (own.default if own is not None else None) or view.state.limits.approval_default
    text = f"No decision came until {moment(due)}"
    if default is approvals.Default.GIVE_UP:
        message = f"{text}; the approval policy gives the task up."
        return to(view, Phase.ERROR, EXPIRED, message, fields={"user_task": None}, warning=True)
    given = pendingtask.Approval(verdict=Verdict.REJECTED, comment=f"{text}.", author=CLOCK)
    message = f"{text}; the approval policy rejects: the run goes on without it."
    return replace(_decided(view, given, EXPIRED, message), note=Note(EXPIRED, message, warning=True))


def _decided(view: View, given: pendingtask.Approval, reason: str, message: str) -> Decision:
    status = view.task.status
    asked = status.user_task
    decided = pendingtask.Decided(
        request_id=status.request_id,
        attempt=status.attempt,
        about=asked.about if asked is not None else "",
        rule_key=_rule_key(asked, given),
        verdict=given.verdict,
        comment=given.comment,
        author=given.author,
        arguments=given.arguments or "",
    )
    return _back(view, reason, message, approvals=(*status.approvals, decided)[-pendingtask.APPROVALS :])


def _rule_key(asked: pendingtask.UserTask | None, given: pendingtask.Approval) -> str:
    """Also of a rejection, which takes an earlier approval of that rule back."""
    if asked is None or asked.action is None:
        return ""
    return approvals.rule_key(asked.action.tool, given.arguments or asked.action.arguments)


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
    """There is no answer yet; only an event changes that."""
    return wait()


def _back(view: View, reason: str, message: str, **more: Field) -> Decision:
    """Return to ReadyForGpu; a task without a route returns to the phase in which it gets one."""
    target = Phase.READY_FOR_GPU
    if view.task.status.route is None:
        target = Phase.SCHEDULED if scheduled.is_template(view.task) else Phase.READY_FOR_QUALIFICATION
    closed = condition(view, "WaitingForUser", False, reason, message)
    fields: dict[str, Field] = {"retry": None, "user_task": None, **more}
    return to(view, target, reason, message, closed, fields=fields)
