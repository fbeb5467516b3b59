"""ReadyForQualification and Qualifying.

Source: seed 000 "Qualification Loop (CPU)": ten at once; operational errors back off 5 s doubling to 5 min, for ever,
and stay ReadyForQualification; anything else is Error with its reason.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from controllers import backoff
from controllers.pendingtask import attachments, directive
from controllers.pendingtask.decision import (
    Decision,
    Field,
    Ingest,
    Room,
    View,
    act,
    condition,
    moment,
    to,
    wait,
    whole,
)
from controllers.pendingtask.world import Ingested, Trouble
from crds import conditions, pendingtask
from crds.phases import Phase


def claim(view: View) -> Decision | None:
    """Take one of the places at the qualifier; nothing is read again that was read before the claim was written.

    A user's question needs none: it must not wait for long documents of others, and nobody reads it first but for the
    files that came with it.
    """
    chat = view.task.spec.type in directive.CHAT
    read = isinstance(view.world.observed, Ingested | Trouble)
    has_place = chat or read or view.world.working
    if not has_place and view.world.qualifying >= view.world.limits.qualifying_at_once:
        return wait(room=Room.QUALIFIER)
    unread = chat and not view.task.spec.attachments
    text = "A user's question is not read before its run." if unread else "The knowledge base reads the content."
    decision = to(view, Phase.QUALIFYING, "Qualifying", text, effects=() if read or unread else (Ingest(),))
    return replace(decision, note=None) if view.task.status.retry else decision


def chat(view: View) -> Decision | None:
    """A user's question goes straight to the orchestrator, or as soon as its files are known."""
    spec, found = view.task.spec, view.world.observed
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
    trouble = view.world.observed
    if not (isinstance(trouble, Trouble) and trouble.operational):
        return None
    count = (view.task.status.retry.count if view.task.status.retry else 0) + 1
    delay = max(backoff.QUALIFICATION.delay(count), min(trouble.retry_after or 0.0, backoff.QUALIFICATION.cap))
    retry = pendingtask.Retry(
        count=count, next_at=whole(view.now + timedelta(seconds=delay)), reason=trouble.sentence()
    )
    problem = condition(view, "Qualified", False, "Unavailable", trouble.sentence())
    decision = to(
        view,
        Phase.READY_FOR_QUALIFICATION,
        "QualificationPostponed",
        trouble.sentence(),
        problem,
        warning=True,
        fields={"retry": retry},
    )
    # One Event for the first failure of a row; the retries themselves are told by status.retry.
    return replace(decision, requeue_after=delay, note=decision.note if count == 1 else None)


def refuse(view: View) -> Decision | None:
    """The content or the configuration is wrong; trying again cannot help."""
    trouble = view.world.observed
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
    found = view.world.observed
    if not isinstance(found, Ingested):
        return None
    spec = view.task.spec
    lead = view.world.limits.clients.of(spec.client_id).lead
    chosen = directive.of_hints(spec.type, found.hints, found.reason, lead=lead, now=view.now)
    return _route(view, chosen, found.hints, found.summary, told=attachments.told(view, found))


def restart(view: View) -> Decision | None:
    """Nobody works on it: the operator was restarted in between. Ingestion may be repeated."""
    return wait() if view.world.working else act(Ingest())


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


def clip(text: str) -> str:
    """At most 2 KiB of UTF-8, cut between characters."""
    return text.encode()[: pendingtask.SUMMARY_BYTES].decode(errors="ignore")
