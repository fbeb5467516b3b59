"""The queue: who comes first, and what each task waits for."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich import console, text

from cli import age, order
from cli.views import table, waiting
from contracts.api import queue_api
from crds import conditions, pendingtask
from crds.phases import Phase

_FOR = {
    Phase.NEW: "the operator",
    Phase.READY_FOR_QUALIFICATION: "the qualifier",
    Phase.READY_FOR_GPU: "a GPU",
    Phase.QUALIFYING: "being read",
    Phase.DISPATCHED_GPU: "its pod",
}

_BEFORE = frozenset({*queue_api.Reason, "Preempted", "Running"}) - {queue_api.Reason.JOB_SUSPENDED}
"""Reasons of the condition Dispatched that are left from before the slot was booked: they say nothing of the pod."""


def draw(
    tasks: Sequence[pendingtask.PendingTask],
    now: datetime,
    *,
    namespaces: bool,
    reported: queue_api.Queue | None = None,
) -> console.RenderableType:
    """`tasks` in the order given, numbered from 1; `reported`: what the operator says of them."""
    if not tasks:
        return text.Text("No tasks are waiting.")
    known = {one.uid: one for one in reported.items} if reported is not None else {}
    head = ("NAMESPACE",) if namespaces else ()
    headings = ("#", *head, "NAME", "TYPE", "CLIENT", "MODE", "POSITION", "PHASE", "AGE", "WAITS FOR")
    headings = (*headings, "BEFORE", "SINCE") if reported is not None else headings
    rows = []
    for number, task in enumerate(tasks, start=1):
        meta, spec = task.metadata, task.spec
        where = (meta.namespace,) if namespaces else ()
        mode = pendingtask.Mode.FOREGROUND if order.foreground(spec) else pendingtask.Mode.BACKGROUND
        position = "" if spec.queue_position is None else str(spec.queue_position)
        old = age.since(meta.creation_timestamp, now)
        what = (meta.name, spec.type.value, spec.client_id, mode.value, position, order.phase(task).value, old)
        row, one = (str(number), *where, *what), known.get(meta.uid)
        if one is not None and one.phase is order.phase(task):
            rows.append((*row, waiting.lacks(one, now), waiting.before(one), age.since(one.since, now)))
        else:
            rows.append((*row, waits_for(task, now), *(("", "") if reported is not None else ())))
    return table.plain(headings, rows)


def waits_for(task: pendingtask.PendingTask, now: datetime) -> str:
    """In a few words."""
    status, phase = task.status, order.phase(task)
    if phase in (Phase.DONE, Phase.COMPLETED, Phase.ERROR):
        return ""
    if task.spec.suspend and phase is not Phase.QUALIFYING:
        return "resume (spec.suspend)"
    if status.retry is not None and status.retry.next_at is not None and status.retry.next_at > now:
        why = f": {status.retry.reason}" if status.retry.reason else ""
        return f"retry in {age.until(status.retry.next_at, now)}{why}"
    if phase is Phase.SCHEDULED and status.scheduled_for is not None:
        return f"its time, in {age.until(status.scheduled_for, now)}"
    if phase is Phase.USER_TASK and status.user_task is not None:
        count = status.user_task.effects_waiting or 0
        effects = f" of {count} {'effect' if count == 1 else 'effects'}" if count else ""
        return f"a person: {status.user_task.kind.value}{effects}"
    if phase is Phase.ORCHESTRATING and status.dispatch is not None:
        return f"its run on {status.dispatch.backend}"
    if phase is Phase.DISPATCHED_GPU and (trouble := _trouble(task)):
        return f"its pod: {trouble}"
    return _FOR.get(phase, "")


def _trouble(task: pendingtask.PendingTask) -> str:
    found = conditions.find(task.status.conditions, "Dispatched")
    if found is None or found.status is not conditions.Status.FALSE or found.reason in _BEFORE:
        return ""
    return found.message or found.reason
