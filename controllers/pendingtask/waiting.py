"""UserTask: a person was asked; has the answer come?

Any new message brings the task back. Otherwise a Question needs an answer to each of its ids, an Approval a decision,
and a Failure an answer or an approval (try again) or a rejection (give up: Error).
Source: seed 000 "Task States Flow" (USER_TASK -> user responds -> READY_FOR_GPU), seed 002 (ASK, FAIL).
"""

from __future__ import annotations

from controllers.pendingtask import recur, request
from controllers.pendingtask.decision import Decision, Field, View, condition, to, wait
from crds import pendingtask
from crds.pendingtask import UserTaskKind, Verdict
from crds.phases import Phase


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
    asked, given = view.task.status.user_task, request.decided(view)
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
    asked, given = view.task.status.user_task, request.decided(view)
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
        target = Phase.SCHEDULED if recur.is_template(view.task) else Phase.READY_FOR_QUALIFICATION
    closed = condition(view, "WaitingForUser", False, reason, message)
    fields: dict[str, Field] = {"retry": None, "user_task": None, **more}
    return to(view, target, reason, message, closed, fields=fields)
