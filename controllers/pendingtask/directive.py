"""From hints to a route: deterministic, no language model, no I/O.

Source: seed 000 "Three-Way Task Routing" (the decision tree, SCHEDULE_LEAD_DAYS), seed 002 "DirectiveHandler";
blueprint section 9: an info-only task is Done, a deferred one is the same object in Scheduled.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from crds import order
from crds.pendingtask import Decision, Hints, Type
from crds.phases import Phase

CHAT = order.CHAT
"""A question is work by itself and no knowledge: it is not ingested."""

ORDERED = frozenset({Type.USER_TASK, Type.SCHEDULED})
"""Somebody made this task on purpose: its content becomes knowledge, and it is executed whatever the hints say."""


@dataclass(frozen=True, slots=True)
class Directive:
    """Where the task goes and why. `due` is set for Defer only: when the work should begin."""

    decision: Decision
    phase: Phase
    reason: str
    due: datetime | None = None


def of_chat() -> Directive:
    """A user's message."""
    return Directive(Decision.EXECUTE, Phase.READY_FOR_GPU, "user input")


def of_hints(
    type_: Type, hints: Hints, why: str, *, lead: timedelta, now: datetime, failure: str = "", asks: bool = False
) -> Directive:
    """The decision tree of the seed, in its order; `why` is the qualifier's own sentence.

    What a user made on purpose is executed: its run can ask for itself. Else `failure` (why nothing can be done) comes
    first, and questions (`asks`) before any work that something is asked for.
    """
    said = f": {why}" if why else ""
    if type_ in ORDERED:
        return Directive(Decision.EXECUTE, Phase.READY_FOR_GPU, f"made by a user{said}")
    if failure:
        return Directive(Decision.FAIL, Phase.USER_TASK, failure)
    if asks and hints.has_actionable_content:
        return Directive(Decision.ASK, Phase.USER_TASK, f"something has to be known first{said}")
    if not hints.has_actionable_content:
        return Directive(Decision.INFO_ONLY, Phase.DONE, f"information only{said}")
    if hints.is_assigned_to_me:
        return Directive(Decision.EXECUTE_HIGH, Phase.READY_FOR_GPU, f"assigned to us{said}")
    deadline = hints.suggested_deadline
    if hints.has_future_deadline and deadline is not None:
        if deadline >= now + lead:
            return Directive(Decision.DEFER, Phase.SCHEDULED, f"deadline {deadline:%Y-%m-%d}{said}", deadline - lead)
        return Directive(Decision.EXECUTE, Phase.READY_FOR_GPU, f"deadline {deadline:%Y-%m-%d} is close{said}")
    return Directive(Decision.EXECUTE, Phase.READY_FOR_GPU, f"something is asked for{said}")
