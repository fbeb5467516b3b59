"""ReadyForQualification and Qualifying: the knowledge base reads the content, and its hints decide the route. Pure.

- A bounded number of tasks is read at the same time.
- Operational errors postpone the task: it stays ReadyForQualification and is retried without end, after 5 s doubling to
  5 min. Any other error ends in phase Error with its reason.
- Content that was superseded while it was read routes its task all the same; the condition Qualified says so.
- The route is deterministic and uses no language model: `of_hints` is the decision tree of the seed. An info-only task
  is Done; a deferred task is the same object in Scheduled.

Source: seed 000 "Qualification Loop (CPU)", "Three-Way Task Routing" (the decision tree, SCHEDULE_LEAD_DAYS); seed 002
"DirectiveHandler"; blueprint section 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from controllers import backoff
from controllers.pendingtask.decision import (
    Decision,
    Field,
    Ingest,
    View,
    WaitFor,
    act,
    clip,
    condition,
    moment,
    to,
    wait,
    whole,
)
from controllers.pendingtask.observed import Ingested, Reading, Trouble
from controllers.pendingtask.policy import user_task
from crds import conditions, order, pendingtask
from crds.pendingtask import Hints, Type
from crds.phases import Phase

CHAT = order.CHAT
"""The content of these types is a question and no knowledge: it is not ingested."""

ORDERED = frozenset({Type.USER_TASK, Type.SCHEDULED})
"""A user created tasks of these types on purpose: they are ingested, and executed regardless of the hints."""


@dataclass(frozen=True, slots=True)
class Directive:
    """Where the task goes and why. `due` is set for Defer only: when the work should begin."""

    decision: pendingtask.Decision
    phase: Phase
    reason: str
    due: datetime | None = None


def of_chat() -> Directive:
    """A user's message."""
    return Directive(pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, "user input")


def of_hints(
    type_: Type, hints: Hints, why: str, *, lead: timedelta, now: datetime, failure: str = "", asks: bool = False
) -> Directive:
    """The decision tree of the seed, in its order; `why` is the qualifier's own sentence.

    A task that a user created on purpose is executed: its run can ask questions itself. For other tasks `failure` (why
    nothing can be done) comes first, then questions (`asks`), then the work that is requested.
    """
    suffix = f": {why}" if why else ""
    if type_ in ORDERED:
        return Directive(pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"made by a user{suffix}")
    if failure:
        return Directive(pendingtask.Decision.FAIL, Phase.USER_TASK, failure)
    if asks and hints.has_actionable_content:
        return Directive(pendingtask.Decision.ASK, Phase.USER_TASK, f"something has to be known first{suffix}")
    if not hints.has_actionable_content:
        return Directive(pendingtask.Decision.INFO_ONLY, Phase.DONE, f"information only{suffix}")
    if hints.is_assigned_to_me:
        return Directive(pendingtask.Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU, f"assigned to us{suffix}")
    deadline = hints.suggested_deadline
    if hints.has_future_deadline and deadline is not None:
        if deadline >= now + lead:
            return Directive(
                pendingtask.Decision.DEFER, Phase.SCHEDULED, f"deadline {deadline:%Y-%m-%d}{suffix}", deadline - lead
            )
        return Directive(
            pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"deadline {deadline:%Y-%m-%d} is close{suffix}"
        )
    return Directive(pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"something is asked for{suffix}")


CONDITION = "AttachmentsIngested"
UNSEEN = "HiddenText"
STALE_SECONDS = 1.0
"""Delay of the next reading, if the last one was of another version of the task."""
_SHOWN = 10
_REASON_CHARS = 150
POSTPONED = "QualificationPostponed"


def reading(view: View) -> Reading | None:
    """The result of the reading. None if the object has changed since: its input may differ from what was read."""
    found = view.state.observed
    if not isinstance(found, Ingested | Trouble):
        return None
    return found if found.generation in (None, view.task.metadata.generation) else None


def claim(view: View) -> Decision | None:
    """Take a place at the qualifier. Input that was read before the claim is persisted is not read again.

    A user's question needs no place, since it must not wait for long documents of others. Only its attachments are read
    before its run.
    """
    chat = view.task.spec.type in CHAT
    read = reading(view) is not None
    has_place = chat or read or view.state.working
    if not has_place and view.state.qualifying >= view.state.limits.qualifying_at_once:
        return wait(wait_for=WaitFor.QUALIFIER)
    unread = chat and not view.task.spec.attachments
    text = "A user's question is not read before its run." if unread else "The knowledge base reads the content."
    decision = to(view, Phase.QUALIFYING, "Qualifying", text, effects=() if read or unread else (Ingest(),))
    return replace(decision, note=None) if view.task.status.retry else decision


def chat(view: View) -> Decision | None:
    """A user's question goes to the orchestrator at once, or as soon as its attachments are ingested."""
    spec, found = view.task.spec, reading(view)
    if spec.type not in CHAT:
        return None
    if isinstance(found, Ingested):
        conds = _told(view, found)
    elif spec.attachments:
        return None
    else:
        conds = ()
    return _route(view, of_chat(), pendingtask.Hints(has_actionable_content=True), conds=conds)


def postpone(view: View) -> Decision | None:
    """The knowledge base is busy or unavailable."""
    trouble = reading(view)
    if not (isinstance(trouble, Trouble) and trouble.operational):
        return None
    count = (view.task.status.retry.count if view.task.status.retry else 0) + 1
    delay = max(backoff.QUALIFICATION.delay(count), min(trouble.retry_after or 0.0, backoff.QUALIFICATION.cap))
    retry = pendingtask.Retry(
        count=count,
        next_at=whole(view.now + timedelta(seconds=delay)),
        reason=f"{POSTPONED}: {trouble.sentence()}"[:1024],
    )
    problem = condition(view, "Qualified", False, "Unavailable", trouble.sentence())
    decision = to(
        view,
        Phase.READY_FOR_QUALIFICATION,
        POSTPONED,
        trouble.sentence(),
        problem,
        warning=True,
        fields={"retry": retry},
    )
    # One Event for the first of consecutive failures; status.retry records the retries.
    return replace(decision, requeue_after=delay, note=decision.note if count == 1 else None)


def refuse(view: View) -> Decision | None:
    """The content or the configuration is wrong; a retry cannot help."""
    trouble = reading(view)
    if not isinstance(trouble, Trouble):
        return None
    problem = condition(view, "Qualified", False, "Rejected", trouble.sentence())
    result = pendingtask.Result(summary=trouble.sentence())
    return to(
        view,
        Phase.ERROR,
        "Rejected",
        trouble.sentence(),
        problem,
        warning=True,
        fields={"retry": None, "result": result},
    )


def route(view: View) -> Decision | None:
    """The content is ingested; its hints decide the next phase."""
    found = reading(view)
    if not isinstance(found, Ingested):
        return None
    spec = view.task.spec
    lead = view.state.limits.clients.of(spec.client_id).lead
    asked = _questions(found)
    chosen = of_hints(
        spec.type, found.hints, found.reason, lead=lead, now=view.now, failure=found.failure.strip(), asks=bool(asked)
    )
    if found.superseded:
        chosen = replace(chosen, reason=f"{chosen.reason}. {found.superseded}")
    if chosen.phase is Phase.USER_TASK:
        return _hand_over(view, chosen, found, asked)
    return _route(view, chosen, found.hints, found.summary, conds=_told(view, found))


def restart(view: View) -> Decision | None:
    """No reading is in progress: the operator was restarted, or the task was edited while it was read.

    Ingestion may be repeated. After a reading of another version it is delayed, since the task may change again.
    """
    if view.state.working:
        return wait()
    stale = isinstance(view.state.observed, Ingested | Trouble)
    return act(Ingest(after=STALE_SECONDS if stale else 0.0))


def _questions(found: Ingested) -> tuple[pendingtask.Question, ...]:
    """The qualifier's questions, named q1, q2, ..."""
    texts = [one.strip() for one in found.questions if one.strip()][:16]
    return tuple(pendingtask.Question(id=f"q{number}", text=clip(text)) for number, text in enumerate(texts, start=1))


def _hand_over(view: View, chosen: Directive, found: Ingested, asked: tuple[pendingtask.Question, ...]) -> Decision:
    """ASK and FAIL (seed 002 "DirectiveHandler"): a person acts before any run. Earlier messages are input only."""
    asks = chosen.decision is pendingtask.Decision.ASK
    kind = pendingtask.UserTaskKind.QUESTION if asks else pendingtask.UserTaskKind.FAILURE
    reason = chosen.reason[:1024]
    return user_task.to_user(
        view,
        pendingtask.UserTask(kind=kind, questions=asked if asks else ()),
        chosen.decision.value,
        "\n".join(one.text for one in asked) if asks else chosen.reason,
        condition(view, "Qualified", True, chosen.decision.value, reason),
        *_told(view, found),
        fields={
            "route": pendingtask.Route(decision=chosen.decision, hints=found.hints, reason=reason),
            "messages_seen": len(view.task.spec.messages),
            "answers_seen": len(view.task.spec.answers),
        },
    )


def _route(
    view: View,
    chosen: Directive,
    hints: pendingtask.Hints,
    summary: str = "",
    *,
    conds: tuple[conditions.Condition, ...] = (),
) -> Decision:
    route = pendingtask.Route(decision=chosen.decision, hints=hints, reason=chosen.reason[:1024])
    done = condition(view, "Qualified", True, chosen.decision.value, chosen.reason[:1024])
    fields: dict[str, Field] = {"retry": None, "route": route}
    if chosen.phase is Phase.DONE:
        fields["result"] = pendingtask.Result(summary=clip(summary or chosen.reason))
    if chosen.due is not None:
        fields["scheduled_for"] = moment(chosen.due)
    return to(view, chosen.phase, chosen.decision.value, chosen.reason, done, *conds, fields=fields)


def _told(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """What a person should know about the content beside its route."""
    return (*_attachments(view, found), *_unseen(view, found))


def _unseen(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """What a reader of the content does not see; empty where there is nothing."""
    if not found.hidden:
        return ()
    shown = "; ".join(one[:_REASON_CHARS] for one in found.hidden[:_SHOWN])
    more = f"; and {len(found.hidden) - _SHOWN} more" if len(found.hidden) > _SHOWN else ""
    message = f"A reader does not see all of the content. {shown}{more}"
    return (condition(view, UNSEEN, True, "HiddenTextFound", message[:2048]),)


def _attachments(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """The result of the attachments' ingestion as a condition; empty without attachments."""
    files = len(view.task.spec.attachments)
    if files and found.superseded:
        message = f"0 of {files} files are in the knowledge base. {found.superseded}"
        return (condition(view, CONDITION, False, "Superseded", message),)
    if found.attached is None or not files:
        return ()
    refused = found.attached.refused
    if not refused:
        message = f"{files} of {files} files are in the knowledge base."
        return (condition(view, CONDITION, True, "Ingested", message),)
    listed = [f"{name}: {why[:_REASON_CHARS]}" for name, why in refused[:_SHOWN]]
    more = [f"and {len(refused) - _SHOWN} more"] if len(refused) > _SHOWN else []
    message = f"{files - len(refused)} of {files} files are in the knowledge base. " + "; ".join([*listed, *more])
    reason = "Unavailable" if found.attached.away else "Rejected"
    return (condition(view, CONDITION, False, reason, message[:2048]),)
