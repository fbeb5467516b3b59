"""The one step to a person: phase UserTask with a request that has an identity.

What asks is over: `status.dispatch` goes, so the next claim is a new run, which reads all that was said in between. An
approval that was there before the request decides nothing (`request.decided`). So nothing leads out of the UserTask
but something that a person writes after it.
Source: seed 000 "Task States Flow" (USER_TASK), seed 002 "DirectiveHandler" (ASK, FAIL), blueprint section 9.
"""

from __future__ import annotations

from controllers.pendingtask import drain, request
from controllers.pendingtask.decision import Decision, Effect, Field, View, clip, condition, to
from crds import conditions, pendingtask
from crds.phases import Phase


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
    noted, ended = drain.over(view, "Ended")
    asked = asked.model_copy(
        update={"request_id": request.identity(view), "earlier_approval": request.digest(view.task.spec.approval)}
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
        f" decide on this one with spec.approval.requestId {request.identity(view)}."
    )
