"""Routing hints and directive: what the model noticed, made consistent with itself and with the calendar.

`Judgement` is the answer of a model, `settle` and `direct` what is made of it: see docs/decisions/0099.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import ClassVar

from pydantic import Field, field_validator

from crds import errors
from kb import api, hidden
from kb.api import directive
from kb.extract import shape

# The model reads at most this much: the beginning, where requests stand, and the end, where they are repeated.
HEAD_CHARS = 9000
TAIL_CHARS = 3000


class Judgement(shape.Camel):
    """The answer to `kb.hints/v2`."""

    cautious: ClassVar[shape.Cautious] = {
        # Neither tells what is to be done: the title stands for the one, and the other is for people to read.
        "summary": "",
        "reason": "",
        # An order that is taken for information is lost; information that is taken for an order costs a run.
        "hasActionableContent": True,
        # It is carried out all the same, after those that are.
        "isAssignedToMe": False,
        # A date alone, which may be invented, must not put an order off.
        "hasFutureDeadline": False,
        "urgency": "normal",
    }

    ended: ClassVar[frozenset[str]] = frozenset({"summary"})

    summary: str = Field(max_length=500)
    reason: str = Field(max_length=2000)
    has_actionable_content: bool
    is_assigned_to_me: bool
    suggested_deadline: datetime | None = None
    has_future_deadline: bool
    urgency: api.Urgency
    action: api.DirectiveAction = api.DirectiveAction.EXECUTE
    questions: list[str] = Field(default_factory=list, max_length=directive.MOST_QUESTIONS)
    defer_minutes: int | None = None
    tags: list[str] = Field(default_factory=list, max_length=directive.MOST_TAGS)

    @field_validator("defer_minutes", mode="before")
    @classmethod
    def _no_minutes(cls, value: object) -> object:
        return None if isinstance(value, str) and value.strip().casefold() in ("", "null", "none") else value

    @field_validator("suggested_deadline", mode="before")
    @classmethod
    def _end_of_day(cls, value: object) -> object:
        """A date without a time means the end of that day; a model that has none may say so in several ways."""
        if isinstance(value, str) and value.strip().casefold() in ("", "null", "none"):
            return None
        if isinstance(value, str) and len(value.strip()) == len("2026-01-31"):
            return datetime.combine(date.fromisoformat(value.strip()), time(23, 59, 59), UTC)
        return value

    @field_validator("suggested_deadline")
    @classmethod
    def _zoned(cls, value: datetime | None) -> datetime | None:
        return value.replace(tzinfo=UTC) if value is not None and value.tzinfo is None else value


def excerpt(text: str, most: int = HEAD_CHARS + TAIL_CHARS) -> str:
    """The part of a document that is judged: at most `most` characters, three quarters of them its beginning.

    What its reader does not see asks for nothing.
    """
    text = hidden.seen(text)
    if len(text) <= most:
        return text
    tail = most // 4
    return f"{text[: most - tail]}\n[...]\n{text[-tail:]}"


def unknown(failure: str) -> api.Hints:
    """Hints of a document that no model could judge: a person has to look at it, because it may ask for something.

    `failure` says why, in a sentence.
    """
    return api.Hints(
        has_actionable_content=True,
        is_assigned_to_me=False,
        has_future_deadline=False,
        urgency="normal",
        reason="The model could not judge the document.",
        failure=failure,
    )


def settle(judgement: Judgement, now: datetime) -> api.Hints:
    """Hints that do not contradict themselves.

    A deadline in the past, or none at all, is no future deadline. Questions count with the action Ask, about content
    that asks for something; a failure is the reason of the action Fail.
    """
    deadline = judgement.suggested_deadline
    wanted, fails = judgement.has_actionable_content, judgement.action is api.DirectiveAction.FAIL
    future = judgement.has_future_deadline and deadline is not None and deadline > now
    return api.Hints(
        has_actionable_content=judgement.has_actionable_content,
        is_assigned_to_me=judgement.is_assigned_to_me,
        has_future_deadline=future,
        suggested_deadline=deadline if future else None,
        urgency=judgement.urgency,
        reason=judgement.reason,
        questions=judgement.questions if judgement.action is api.DirectiveAction.ASK and wanted else [],
        failure=(judgement.reason.strip() or "The model gave no reason.") if fails else "",
    )


def direct(judged: Judgement | errors.JervisError, found: api.Hints, now: datetime) -> api.QualifierDirective:
    """The directive of a document with these hints, which have the last word of the rules.

    Where a rule decides the route, the directive is that of the route. Else a judgement can defer the task; Defer
    without minutes or into the past, or of content that asks for nothing, is Execute. Whether Execute means anything to
    do is decided by the hints.
    """
    directed = found.directive()
    if isinstance(judged, errors.JervisError):
        return directed
    defers = judged.action is api.DirectiveAction.DEFER and found.route is None
    if defers and judged.defer_minutes and found.has_actionable_content:
        # A model knows the day and not the time.
        start = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
        minutes = judged.defer_minutes - int((now - start) / timedelta(minutes=1))
        if 0 < minutes <= directive.MOST_DEFER_MINUTES:
            directed = api.QualifierDirective(
                action=api.DirectiveAction.DEFER, message=directed.message, defer_minutes=minutes
            )
    tags = dict.fromkeys(tag.strip()[: directive.TAG_CHARS].strip() for tag in judged.tags)
    return directed.model_copy(update={"tags": [tag for tag in tags if tag]})


def lift(decision: api.RoutingDecision, found: api.Hints) -> api.RoutingDecision:
    """The routing decision with the last word of the rules: only InfoOnly leaves nothing to do."""
    if found.route is None:
        return decision
    lifted = "DONE" if found.route == "InfoOnly" else "LIFT_UP"
    return api.RoutingDecision.model_validate(
        {"decision": lifted, "reason": f"A hard rule decides the route: {found.route}."}
    )
