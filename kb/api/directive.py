"""The qualifier's directive: what a task needs before it can be executed. Flat, so that a model can fill it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints, model_validator

from contracts.api import message

MOST_QUESTIONS = 16
QUESTION_CHARS = 1000
MESSAGE_CHARS = 2048
MOST_DEFER_MINUTES = 527_040
"""366 days."""
MOST_TAGS = 5
TAG_CHARS = 40


class DirectiveAction(StrEnum):
    """Seed 002 "DirectiveAction"."""

    EXECUTE = "Execute"
    """Nothing stands against it: the hints decide when, and whether there is anything to do."""
    ASK = "Ask"
    """A person answers the questions first."""
    DEFER = "Defer"
    """Not before `deferMinutes` are over."""
    FAIL = "Fail"
    """Nothing can be done; a person decides."""


class QualifierDirective(message.Reply):
    """`message` is for people: what is known first, or why it fails. `tags` are words for what the document is about.

    `questions` come with Ask and `deferMinutes` with Defer, each with that action only.
    """

    action: DirectiveAction
    message: Annotated[str, StringConstraints(min_length=1, max_length=MESSAGE_CHARS, strip_whitespace=True)]
    questions: (
        Annotated[
            list[Annotated[str, StringConstraints(min_length=1, max_length=QUESTION_CHARS, strip_whitespace=True)]],
            Field(min_length=1, max_length=MOST_QUESTIONS),
        ]
        | None
    ) = None
    defer_minutes: int | None = Field(default=None, ge=1, le=MOST_DEFER_MINUTES)
    tags: list[Annotated[str, StringConstraints(min_length=1, max_length=TAG_CHARS, strip_whitespace=True)]] = Field(
        default_factory=list, max_length=MOST_TAGS
    )

    @model_validator(mode="after")
    def _belongs_to_the_action(self) -> QualifierDirective:
        for name, given, action in (
            ("questions", self.questions, DirectiveAction.ASK),
            ("deferMinutes", self.defer_minutes, DirectiveAction.DEFER),
        ):
            if (given is not None) != (self.action is action):
                raise ValueError(f"{name} and the action {action.value} go together; the action is {self.action.value}")
        return self
