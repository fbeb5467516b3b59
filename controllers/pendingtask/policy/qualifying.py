"""ReadyForQualification and Qualifying: the knowledge base reads the content; what it says decides the route. Pure.

- A bounded number of tasks is read at the same time.
- Operational errors postpone the task: it stays ReadyForQualification and is retried without end, after 5 s doubling to
  5 min. Any other error ends in phase Error with its reason.
- Content that was superseded routes its task all the same; the condition Qualified says so.
- The route is deterministic and uses no language model (`controllers.pendingtask.directive`). An info-only task is
  Done; a deferred task is the same object in Scheduled.

Source: seed 000 "Qualification Loop (CPU)"; blueprint section 9.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from clients import backoff
from controllers.pendingtask import directive
from controllers.pendingtask.decision import Decision, Ingest, View, WaitFor, act, condition, to, wait, whole
from controllers.pendingtask.observed import Ingested, Reading, Trouble
from crds import conditions, order, pendingtask
from crds.phases import Phase

CHAT = order.CHAT
"""The content of these types is a question and no knowledge: it is not ingested."""


CONDITION = "AttachmentsIngested"
UNSEEN = "HiddenText"
DUPLICATE = "Duplicate"
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
    return directive.transition(view, directive.of_chat(), pendingtask.Hints(has_actionable_content=True), conds=conds)


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
        waits_for=trouble.waits_for,
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
    """The content is ingested; its directive and hints decide the next phase."""
    found = reading(view)
    if not isinstance(found, Ingested):
        return None
    spec = view.task.spec
    chosen = directive.choose(spec.type, found, lead=view.state.limits.clients.of(spec.client_id).lead, now=view.now)
    links = found.linked.sentence() if found.linked is not None else ""
    beside = " ".join(one for one in (found.answers, links) if one)
    conds, routed = _told(view, found), not found.unread
    return directive.transition(view, chosen, found.hints, found.summary, beside=beside, routed=routed, conds=conds)


def restart(view: View) -> Decision | None:
    """No reading is in progress: the operator was restarted, or the task was edited while it was read.

    Ingestion may be repeated. After a reading of another version it is delayed, since the task may change again.
    """
    if view.state.working:
        return wait()
    stale = isinstance(view.state.observed, Ingested | Trouble)
    return act(Ingest(after=STALE_SECONDS if stale else 0.0))


def _told(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """What a person should know about the content beside its route."""
    return (*_attachments(view, found), *_unseen(view, found), *_repeated(view, found))


def _repeated(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """Whether another task brought the same content before, or another document says nearly the same."""
    if found.repeats:
        return (condition(view, DUPLICATE, True, "SameContent", found.repeats),)
    return (condition(view, DUPLICATE, True, "SimilarContent", found.similar[:2048]),) if found.similar else ()


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
    if files and (unstored := found.superseded or found.forbidden):
        reason = "Superseded" if found.superseded else "ForbiddenByRule"
        message = f"0 of {files} files are in the knowledge base. {unstored}"
        return (condition(view, CONDITION, False, reason, message),)
    if found.attached is None or not files:
        return ()
    refused = found.attached.refused
    said = [*refused, *found.attached.partly]
    listed = [f"{name}: {why[:_REASON_CHARS]}" for name, why in said[:_SHOWN]]
    more = [f"and {len(said) - _SHOWN} more"] if len(said) > _SHOWN else []
    told = "; ".join([*listed, *more])
    message = f"{files - len(refused)} of {files} files are in the knowledge base. {told}".rstrip()
    if not refused:
        return (condition(view, CONDITION, True, "Ingested", message[:2048]),)
    reason = "Unavailable" if found.attached.away else "Rejected"
    return (condition(view, CONDITION, False, reason, message[:2048]),)
