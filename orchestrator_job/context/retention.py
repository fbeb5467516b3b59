"""What the knowledge base is given of a round's work, and how long the rest is kept. Pure.

What goes to the knowledge base goes as `stepResults` of the stored result, which is reported as the task's outcome
(`controllers.outcomes`): the token of a run opens no other way that would not file a model's words as what the user
said (docs/decisions/0140). Source: seed 001 `app/context/retention_policy.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

LIFE = timedelta(days=30)
"""Of what a later round of the task builds on."""
SHORT_LIFE = timedelta(days=7)
"""Of what did not work: it is needed while the task is looked into."""


class Level(StrEnum):
    """From the smallest to the whole."""

    STEP = "step"
    GOAL = "goal"
    EPIC = "epic"


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a piece of work. `alone`: a step that belongs to no goal is its own. `private`: the task is
    done on behalf of a user, who may read what others may not."""

    level: Level
    done: bool
    doubted: bool = False
    alone: bool = False
    private: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """`knowledge`: the knowledge base is given it. `why` is for the log and the stored entry."""

    knowledge: bool
    life: timedelta
    why: str


def decide(made: Made) -> Kept:
    """The first line that holds."""
    if not made.done:
        return Kept(False, SHORT_LIFE, "it was not done")
    if made.private:
        return Kept(False, LIFE, "it was done on behalf of a user, who may read what others may not")
    if made.doubted:
        return Kept(False, LIFE, "its agent is not sure of it")
    if made.level is Level.EPIC:
        return Kept(False, LIFE, "the task's result says it")
    if made.level is Level.STEP and not made.alone:
        return Kept(False, LIFE, "its goal says what it came to")
    return Kept(True, LIFE, f"a {made.level.value} that was done")
