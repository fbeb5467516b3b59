"""UserTask: a request to a person, its identity, the transition to it, and the way back. Pure.

- Identity: a task may ask several times, and `spec.approval` is one field. An approval counts for the request that it
  names. Without a name it counts for the request that was open when it was written.
- The transition (`to_user`) ends the run: `status.dispatch` is removed, so the next claim is a new run that reads all
  messages and answers. An approval that is older than the request decides nothing (`decision_given`). The task
  therefore leaves UserTask only after a person writes something new.
- Expiry: a request of approval that `spec.approvalPolicy`, or the release, limits in time is decided by its default at
  `status.userTask.expiresAt`. That time follows from the status and the policy alone; whatever restarts in between. A
  task that is held (suspended, or refused by its namespace) does not expire meanwhile.
- The way back: a Question needs an answer to each of its ids, an Approval a decision, a Failure an answer or an
  approval (try again) or a rejection (give up: Error). Any new message returns the task as well; a decision that has
  come by then is taken first, so that it is not lost.
- A request of several effects is decided at once: each effect that the status lists has a decision of its own in
  `status.approvals`. Effects beyond those that are listed are in the next request.

Source: seed 000 "Task States Flow" (USER_TASK -> user responds -> READY_FOR_GPU); seed 002 "DirectiveHandler" (ASK,
FAIL); blueprint section 9.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
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
UNUSABLE = "ApprovalUnusable"
OTHER_REQUEST = "OtherRequest"
"""Reasons of the condition WaitingForUser: no decision came in time; the approval cannot be used, or is for another
request."""
PARTLY = "PartlyApproved"
"""Reason of that condition once some effects were approved and some were rejected."""
_EARLIER_BYTES = 131_072
"""Of decisions on earlier requests in a status."""
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
    """Any decision returns the task; the next run reads the decisions from its memory."""
    asked, given = view.task.status.user_task, decision_given(view)
    if asked is None or asked.kind is not UserTaskKind.APPROVAL or given is None or pendingtask.unusable(asked, given):
        return None
    decisions = _decisions(view.task.status, asked, given)
    approved = sum(one.verdict is Verdict.APPROVED for one in decisions)
    reason = PARTLY if 0 < approved < len(decisions) else decisions[0].verdict.value
    return _back(view, reason, _told(asked, given, decisions), approvals=_kept(view.task.status, decisions))


def unusable(view: View) -> Decision | None:
    """With an approval that cannot be used, or is for another request, the request stays open, and its condition says
    what is wrong."""
    asked, given = view.task.status.user_task, view.task.spec.approval
    if asked is None or asked.kind is not UserTaskKind.APPROVAL or given is None:
        return None
    if decision_given(view) is not None:
        return _still_open(view, UNUSABLE, pendingtask.unusable(asked, given))
    if not given.request_id or asked.earlier_approval == request_digest(given):
        return None
    wrong = (
        f"spec.approval.requestId: {given.request_id} is not open, so its decision counts for nothing; look at what is"
        f" asked now and decide on {view.task.status.request_id}."
    )
    return _still_open(view, OTHER_REQUEST, wrong)


def _still_open(view: View, reason: str, wrong: str) -> Decision:
    later = expired(view) or wait()
    return (
        later if later.phase else remark(view, condition(view, "WaitingForUser", True, reason, wrong), decision=later)
    )


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
    status, asked = view.task.status, view.task.status.user_task
    assert asked is not None, "an open request"
    note = Note(EXPIRED, message, warning=True)
    return replace(_back(view, EXPIRED, message, approvals=_kept(status, _decisions(status, asked, given))), note=note)


def _told(asked: pendingtask.UserTask, given: pendingtask.Approval, decisions: Sequence[pendingtask.Decided]) -> str:
    """The decision as a sentence."""
    by = given.author or "a user"
    if not asked.effects:
        return f"{given.verdict.value} by {by}."
    approved = [one for one in decisions if one.verdict is Verdict.APPROVED]
    parts = [f"{len(approved)} of {len(decisions)} effects approved by {by}"]
    parts += [f"{edited} with edited arguments"] if (edited := sum(1 for one in approved if one.arguments)) else []
    parts += [f"{like} for the whole task"] if (like := sum(1 for one in approved if one.for_task)) else []
    parts += [f"{rejected} rejected"] if (rejected := len(decisions) - len(approved)) else []
    more = (asked.effects_waiting or 0) - len(decisions)
    parts += [f"{more} more are asked for in the next request"] if more > 0 else []
    return f"{', '.join(parts)}."


def _decisions(
    status: pendingtask.Status, asked: pendingtask.UserTask, given: pendingtask.Approval
) -> list[pendingtask.Decided]:
    """The decision on each effect of the request, or on the answer that it is about."""
    own = {answer.id: answer for answer in given.effects or ()}
    common = {"request_id": status.request_id, "attempt": status.attempt, "author": given.author}
    if not asked.effects:
        return [pendingtask.Decided(**common, about=asked.about, verdict=given.verdict, comment=given.comment)]
    decisions = []
    for effect in asked.effects:
        answer = own.get(effect.id) or pendingtask.EffectAnswer(id=effect.id, verdict=given.verdict)
        approved = answer.verdict is Verdict.APPROVED
        for_task = given.for_task if answer.for_task is None else answer.for_task
        decisions.append(
            pendingtask.Decided(
                **common,
                about=effect.id,
                # Also of a rejection, which takes an earlier approval of that rule back.
                rule_key=approvals.rule_key(effect.tool, answer.arguments or effect.arguments),
                verdict=answer.verdict,
                comment=answer.comment or given.comment,
                arguments=(answer.arguments or "") if approved else "",
                for_task=bool(approved and for_task),
            )
        )
    return decisions


def _kept(status: pendingtask.Status, decisions: list[pendingtask.Decided]) -> tuple[pendingtask.Decided, ...]:
    """The decisions, after as many earlier ones as a status has place for."""
    earlier: list[pendingtask.Decided] = []
    space = _EARLIER_BYTES
    for one in reversed(status.approvals):
        space -= len(orjson.dumps(one.wire()))
        if space < 0 or len(earlier) + len(decisions) == pendingtask.DECISIONS:
            break
        earlier.append(one)
    return (*reversed(earlier), *decisions)


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
