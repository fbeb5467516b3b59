"""Why tasks wait, as the operator says it."""

from __future__ import annotations

from datetime import datetime

from rich import console, text

from cli import age
from cli.views import table
from contracts.api import queue_api
from contracts.api.queue_api import Reason

_FOR = {
    Reason.SUSPENDED: "resume (spec.suspend)",
    Reason.JOB_SUSPENDED: "its Job to be resumed",
    Reason.NOT_ALLOWED: "its namespace to be allowed it (condition Accepted)",
    Reason.POSTPONED: "its next try",
    Reason.CODE_ANALYSIS: "its repository to be analyzed",
    Reason.QUALIFIER_BUSY: "a place at the qualifier",
    Reason.NO_GPU_BACKEND: "a Ready GpuBackend of kind GPU",
    Reason.CIRCUIT_OPEN: "dispatching to work again",
    Reason.USERS_ACTIVE: "users to be quiet",
    Reason.NO_FREE_SLOT: "a GPU slot",
    Reason.TURN: "nothing, its turn has come",
}


def draw(reported: queue_api.Queue, now: datetime) -> console.RenderableType:
    """The queue of a namespace with its summary."""
    return console.Group(lines(reported, now), text.Text(summary(reported, now)))


def lines(reported: queue_api.Queue, now: datetime) -> console.RenderableType:
    """The queue of a namespace, numbered from 1."""
    if not reported.items:
        return text.Text("No tasks are waiting.")
    headings = ("#", "NAME", "CLIENT", "MODE", "POSITION", "PHASE", "WAITS FOR", "BEFORE", "SINCE")
    rows = []
    for number, one in enumerate(reported.items, start=1):
        position = "" if one.queue_position is None else str(one.queue_position)
        what = (one.name, one.client_id, one.mode.value, position, one.phase.value)
        rows.append((str(number), *what, lacks(one, now), before(one), age.since(one.since, now)))
    return table.plain(headings, rows)


def lacks(one: queue_api.Waiting, now: datetime) -> str:
    """What the task waits for, in a few words."""
    if one.reason is Reason.POSTPONED and one.not_before is not None and one.not_before > now:
        return f"its next try, in {age.until(one.not_before, now)}"
    return _FOR[one.reason]


def before(one: queue_api.Waiting) -> str:
    """How many have their turn before it, and those of its own client by name."""
    if one.position is None:
        return ""
    more = ", ..." if len(one.before_own) < one.before and one.before_own else ""
    return f"{one.before} ({', '.join(one.before_own)}{more})" if one.before_own else str(one.before)


def summary(reported: queue_api.Queue, now: datetime) -> str:
    """What all of them have in common."""
    lanes = (("Foreground", reported.foreground), ("Background", reported.background))
    parts = [f"GPU slots: {reported.slots.free} of {reported.slots.total} free."]
    for name, lane in lanes:
        oldest = f", the oldest for {age.since(lane.oldest, now)}" if lane.oldest is not None else ""
        parts.append(f"{name}: {lane.pending} waiting{oldest}.")
    if not reported.orchestrator_healthy:
        parts.append(f"Runs cannot be dispatched (circuit breaker {reported.breaker}).")
    if reported.more:
        parts.append(f"{reported.more} more are not shown; --all shows every task.")
    if not reported.leading:
        parts.append("Answered by a replica that stands by.")
    return " ".join(parts)
