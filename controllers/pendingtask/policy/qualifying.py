"""From hints to a route: deterministic, no language model, no I/O.

Source: seed 000 "Three-Way Task Routing" (the decision tree, SCHEDULE_LEAD_DAYS), seed 002 "DirectiveHandler";
blueprint section 9: an info-only task is Done, a deferred one is the same object in Scheduled.

ReadyForQualification and Qualifying.

Source: seed 000 "Qualification Loop (CPU)": ten at once; operational errors back off 5 s doubling to 5 min, for ever,
and stay ReadyForQualification; anything else is Error with its reason.
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
"""A question is work by itself and no knowledge: it is not ingested."""

ORDERED = frozenset({Type.USER_TASK, Type.SCHEDULED})
"""Somebody made this task on purpose: its content becomes knowledge, and it is executed whatever the hints say."""


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

    What a user made on purpose is executed: its run can ask for itself. Else `failure` (why nothing can be done) comes
    first, and questions (`asks`) before any work that something is asked for.
    """
    said = f": {why}" if why else ""
    if type_ in ORDERED:
        return Directive(pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"made by a user{said}")
    if failure:
        return Directive(pendingtask.Decision.FAIL, Phase.USER_TASK, failure)
    if asks and hints.has_actionable_content:
        return Directive(pendingtask.Decision.ASK, Phase.USER_TASK, f"something has to be known first{said}")
    if not hints.has_actionable_content:
        return Directive(pendingtask.Decision.INFO_ONLY, Phase.DONE, f"information only{said}")
    if hints.is_assigned_to_me:
        return Directive(pendingtask.Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU, f"assigned to us{said}")
    deadline = hints.suggested_deadline
    if hints.has_future_deadline and deadline is not None:
        if deadline >= now + lead:
            return Directive(
                pendingtask.Decision.DEFER, Phase.SCHEDULED, f"deadline {deadline:%Y-%m-%d}{said}", deadline - lead
            )
        return Directive(
            pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"deadline {deadline:%Y-%m-%d} is close{said}"
        )
    return Directive(pendingtask.Decision.EXECUTE, Phase.READY_FOR_GPU, f"something is asked for{said}")


CONDITION = "AttachmentsIngested"
STALE_SECONDS = 1.0
"""Before a task is read again because the last reading was of another version of it."""
_SHOWN = 10
_REASON_CHARS = 150
POSTPONED = "QualificationPostponed"


def reading(view: View) -> Reading | None:
    """What the reading brought, unless the object has changed since: then the input may be another one, and what was
    found out about the old one decides nothing."""
    found = view.state.observed
    if not isinstance(found, Ingested | Trouble):
        return None
    return found if found.generation in (None, view.task.metadata.generation) else None


def claim(view: View) -> Decision | None:
    """Take one of the places at the qualifier; nothing is read again that was read before the claim was written.

    A user's question needs none: it must not wait for long documents of others, and nobody reads it first but for the
    files that came with it.
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
    """A user's question goes straight to the orchestrator, or as soon as its files are known."""
    spec, found = view.task.spec, reading(view)
    if spec.type not in CHAT:
        return None
    if isinstance(found, Ingested):
        told = _attachments(view, found)
    elif spec.attachments:
        return None
    else:
        told = ()
    return _route(view, of_chat(), pendingtask.Hints(has_actionable_content=True), told=told)


def postpone(view: View) -> Decision | None:
    """The knowledge base is busy or away."""
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
    # One Event for the first failure of a row; the retries themselves are told by status.retry.
    return replace(decision, requeue_after=delay, note=decision.note if count == 1 else None)


def refuse(view: View) -> Decision | None:
    """The content or the configuration is wrong; trying again cannot help."""
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
    """The content is knowledge now; its hints decide what happens next."""
    found = reading(view)
    if not isinstance(found, Ingested):
        return None
    spec = view.task.spec
    lead = view.state.limits.clients.of(spec.client_id).lead
    asked = _questions(found)
    chosen = of_hints(
        spec.type, found.hints, found.reason, lead=lead, now=view.now, failure=found.failure.strip(), asks=bool(asked)
    )
    if chosen.phase is Phase.USER_TASK:
        return _hand_over(view, chosen, found, asked)
    return _route(view, chosen, found.hints, found.summary, told=_attachments(view, found))


def restart(view: View) -> Decision | None:
    """Nobody works on it: the operator was restarted in between, or the task was edited while it was read. Ingestion
    may be repeated; one that was of another version only after a while, as the next one may be too."""
    if view.state.working:
        return wait()
    stale = isinstance(view.state.observed, Ingested | Trouble)
    return act(Ingest(after=STALE_SECONDS if stale else 0.0))


def _questions(found: Ingested) -> tuple[pendingtask.Question, ...]:
    """The qualifier's questions, named q1, q2, ..."""
    texts = [one.strip() for one in found.questions if one.strip()][:16]
    return tuple(pendingtask.Question(id=f"q{number}", text=clip(text)) for number, text in enumerate(texts, start=1))


def _hand_over(view: View, chosen: Directive, found: Ingested, asked: tuple[pendingtask.Question, ...]) -> Decision:
    """ASK and FAIL (seed 002 "DirectiveHandler"): a person before any run. What they had said before that is part of
    the input, and no answer."""
    asks = chosen.decision is pendingtask.Decision.ASK
    kind = pendingtask.UserTaskKind.QUESTION if asks else pendingtask.UserTaskKind.FAILURE
    reason = chosen.reason[:1024]
    return user_task.to_user(
        view,
        pendingtask.UserTask(kind=kind, questions=asked if asks else ()),
        chosen.decision.value,
        "\n".join(one.text for one in asked) if asks else chosen.reason,
        condition(view, "Qualified", True, chosen.decision.value, reason),
        *_attachments(view, found),
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
    told: tuple[conditions.Condition, ...] = (),
) -> Decision:
    route = pendingtask.Route(decision=chosen.decision, hints=hints, reason=chosen.reason[:1024])
    done = condition(view, "Qualified", True, chosen.decision.value, chosen.reason[:1024])
    fields: dict[str, Field] = {"retry": None, "route": route}
    if chosen.phase is Phase.DONE:
        fields["result"] = pendingtask.Result(summary=clip(summary or chosen.reason))
    if chosen.due is not None:
        fields["scheduled_for"] = moment(chosen.due)
    return to(view, chosen.phase, chosen.decision.value, chosen.reason, done, *told, fields=fields)


def _attachments(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """What became of the files, as a condition; nothing when there were none."""
    files = len(view.task.spec.attachments)
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
