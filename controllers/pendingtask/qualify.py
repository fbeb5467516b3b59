"""ReadyForQualification and Qualifying.

Source: seed 000 "Qualification Loop (CPU)": ten at once; operational errors back off 5 s doubling to 5 min, for ever,
and stay ReadyForQualification; anything else is Error with its reason.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controllers import backoff
from controllers.pendingtask import attachments, directive, escalation
from controllers.pendingtask.decision import (
    Decision,
    Field,
    Ingest,
    Room,
    View,
    act,
    clip,
    condition,
    moment,
    to,
    wait,
    whole,
)
from controllers.pendingtask.world import Ingested, Reading, Trouble
from crds import conditions, pendingtask
from crds.phases import Phase

POSTPONED = "QualificationPostponed"


def reading(view: View) -> Reading | None:
    """What the reading brought, unless the object has changed since: then the input may be another one, and what was
    found out about the old one decides nothing."""
    found = view.world.observed
    if not isinstance(found, Ingested | Trouble):
        return None
    return found if found.generation in (None, view.task.metadata.generation) else None


def claim(view: View) -> Decision | None:
    """Take one of the places at the qualifier; nothing is read again that was read before the claim was written.

    A user's question needs none: it must not wait for long documents of others, and nobody reads it first but for the
    files that came with it.
    """
    chat = view.task.spec.type in directive.CHAT
    read = reading(view) is not None
    has_place = chat or read or view.world.working
    if not has_place and view.world.qualifying >= view.world.limits.qualifying_at_once:
        return wait(room=Room.QUALIFIER)
    unread = chat and not view.task.spec.attachments
    text = "A user's question is not read before its run." if unread else "The knowledge base reads the content."
    decision = to(view, Phase.QUALIFYING, "Qualifying", text, effects=() if read or unread else (Ingest(),))
    return replace(decision, note=None) if view.task.status.retry else decision


def chat(view: View) -> Decision | None:
    """A user's question goes straight to the orchestrator, or as soon as its files are known."""
    spec, found = view.task.spec, reading(view)
    if spec.type not in directive.CHAT:
        return None
    if isinstance(found, Ingested):
        told = attachments.told(view, found)
    elif spec.attachments:
        return None
    else:
        told = ()
    return _route(view, directive.of_chat(), pendingtask.Hints(has_actionable_content=True), told=told)


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
    lead = view.world.limits.clients.of(spec.client_id).lead
    asked = _questions(found)
    chosen = directive.of_hints(
        spec.type, found.hints, found.reason, lead=lead, now=view.now, failure=found.failure.strip(), asks=bool(asked)
    )
    if chosen.phase is Phase.USER_TASK:
        return _hand_over(view, chosen, found, asked)
    return _route(view, chosen, found.hints, found.summary, told=attachments.told(view, found))


def restart(view: View) -> Decision | None:
    """Nobody works on it: the operator was restarted in between, or the task was edited while it was read. Ingestion
    may be repeated."""
    return wait() if view.world.working else act(Ingest())


def _questions(found: Ingested) -> tuple[pendingtask.Question, ...]:
    """The qualifier's questions, named q1, q2, ..."""
    texts = [one.strip() for one in found.questions if one.strip()][:16]
    return tuple(pendingtask.Question(id=f"q{number}", text=clip(text)) for number, text in enumerate(texts, start=1))


def _hand_over(
    view: View, chosen: directive.Directive, found: Ingested, asked: tuple[pendingtask.Question, ...]
) -> Decision:
    """ASK and FAIL (seed 002 "DirectiveHandler"): a person before any run. What they had said before that is part of
    the input, and no answer."""
    asks = chosen.decision is pendingtask.Decision.ASK
    kind = pendingtask.UserTaskKind.QUESTION if asks else pendingtask.UserTaskKind.FAILURE
    reason = chosen.reason[:1024]
    return escalation.to_user(
        view,
        pendingtask.UserTask(kind=kind, questions=asked if asks else ()),
        chosen.decision.value,
        "\n".join(one.text for one in asked) if asks else chosen.reason,
        condition(view, "Qualified", True, chosen.decision.value, reason),
        *attachments.told(view, found),
        fields={
            "route": pendingtask.Route(decision=chosen.decision, hints=found.hints, reason=reason),
            "messages_seen": len(view.task.spec.messages),
            "answers_seen": len(view.task.spec.answers),
        },
    )


def _route(
    view: View,
    chosen: directive.Directive,
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
