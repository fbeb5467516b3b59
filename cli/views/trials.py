"""What models made of their tasks: a line by role, and one for each task that was not right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from rich import console, text

from cli.views import table

if TYPE_CHECKING:
    from router.client import trials

_HEADINGS = ("ROLE", "MODEL", "ENOUGH", "RIGHT", "VALID AS SENT", "TRIES", "TOKENS")


class Enough(StrEnum):
    """Whether a model is enough for its role, as far as a few tasks show it."""

    YES = "yes"
    PARTLY = "partly"
    """At least half of its answers are right."""
    NO = "no"
    UNKNOWN = "unknown"
    """It could not be asked all of them, and nothing is wrong with what it answered."""


@dataclass(frozen=True)
class Line:
    """One role."""

    role: str
    model: str
    verdict: Enough
    right: int
    valid: int
    count: int
    tries: int
    tokens: int


def summed(results: Sequence[trials.Result]) -> list[Line]:
    """The roles in the order of their first task."""
    lines = []
    for role in dict.fromkeys(result.role for result in results):
        own = [result for result in results if result.role == role]
        right = sum(result.verdict.value == "Right" for result in own)
        away = sum(result.verdict.value == "Away" for result in own)
        lines.append(
            Line(
                role=role,
                model=own[0].model,
                verdict=_enough(right, len(own) - away, len(own)),
                right=right,
                valid=sum(result.valid for result in own),
                count=len(own),
                tries=sum(result.tries for result in own),
                tokens=sum(result.tokens for result in own),
            )
        )
    return lines


def _enough(right: int, asked: int, count: int) -> Enough:
    """A task that could not be asked says nothing about the model."""
    if right < asked:
        return Enough.PARTLY if 2 * right >= asked else Enough.NO
    return Enough.YES if asked == count else Enough.UNKNOWN


def draw(results: Sequence[trials.Result]) -> console.RenderableType:
    """A table by role, and below it what was wrong."""
    rows = [
        [
            line.role,
            line.model,
            line.verdict.value,
            f"{line.right}/{line.count}",
            f"{line.valid}/{line.count}",
            str(line.tries),
            str(line.tokens),
        ]
        for line in summed(results)
    ]
    wrong = [
        f"{result.role}, {result.task} ({result.language}): {result.verdict.value}. {result.detail}"
        for result in results
        if result.verdict.value != "Right"
    ]
    return console.Group(table.plain(_HEADINGS, rows), *(text.Text(line) for line in (["", *wrong] if wrong else [])))
