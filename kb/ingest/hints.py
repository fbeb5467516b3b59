"""Routing hints: what the model noticed, made consistent with itself and with the calendar."""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from kb import api, hidden

# The model reads at most this much: the beginning, where requests stand, and the end, where they are repeated.
HEAD_CHARS = 9000
TAIL_CHARS = 3000


class Judgement(BaseModel):
    """The answer to `kb.hints/v1`."""

    model_config = ConfigDict(extra="ignore", alias_generator=to_camel, populate_by_name=True)

    has_actionable_content: bool
    is_assigned_to_me: bool
    has_future_deadline: bool
    suggested_deadline: datetime | None = None
    urgency: api.Urgency
    summary: str = Field(max_length=4000)
    reason: str = Field(max_length=2000)

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


def excerpt(text: str) -> str:
    """The part of a document that is judged: what its reader does not see asks for nothing."""
    text = hidden.seen(text)
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    return f"{text[:HEAD_CHARS]}\n[...]\n{text[-TAIL_CHARS:]}"


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
    """Hints that do not contradict themselves: a deadline in the past, or none at all, is no future deadline."""
    deadline = judgement.suggested_deadline
    future = judgement.has_future_deadline and deadline is not None and deadline > now
    return api.Hints(
        has_actionable_content=judgement.has_actionable_content,
        is_assigned_to_me=judgement.is_assigned_to_me,
        has_future_deadline=future,
        suggested_deadline=deadline if future else None,
        urgency=judgement.urgency,
        reason=judgement.reason,
    )
