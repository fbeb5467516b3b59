"""Brings the gauges about tasks up to date; called before a scrape."""

from __future__ import annotations

from datetime import datetime

from controllers import metrics
from controllers.pendingtask import cache, task_index
from controllers.pendingtask.decision import Room
from controllers.pendingtask.slots import wait_reasons
from crds import order
from crds.phases import Phase
from crds.waits import Reason

_LANES = ("foreground", "background")


def show(known: cache.Attention, measured: metrics.Metrics, now: datetime) -> None:
    """What waits, how long, and what is free, as of `now` (aware, UTC)."""
    _queue(known, measured)
    _reasons(known, measured)
    for phase in task_index.WAITING:
        for lane, since in zip(_LANES, known.tasks.oldest(phase), strict=True):
            age = 0.0 if since is None else max(0.0, now.timestamp() - since)
            measured.oldest.labels(lane, phase.value).set(age)
    for phase in Phase:
        measured.tasks.labels(phase.value).set(known.tasks.count(phase))
    book = known.rooms.slots()
    measured.slots.labels("total").set(book.total)
    measured.slots.labels("free").set(sum(number for _, number in book.free))
    measured.qualifying.set(known.rooms.qualifying(""))
    measured.breaker.set(0 if known.rooms.dispatch_open() else 1)
    measured.refusing.set(known.rooms.refusing())
    measured.preemption_immune.set(known.rooms.immune())


def _reasons(known: cache.Attention, measured: metrics.Metrics) -> None:
    counts = wait_reasons.counts(known.rooms.observed())
    for number, lane in enumerate(_LANES):
        for reason in Reason:
            measured.waiting_reasons.labels(lane, reason.value).set(counts[number, reason])


def _queue(known: cache.Attention, measured: metrics.Metrics) -> None:
    depth = [0, 0]
    for rank in known.work.depth():
        depth[order.Order(*rank).lane] += 1
    for lane, number in zip(_LANES, depth, strict=True):
        measured.queue_depth.labels(lane).set(number)
    measured.queue_sleeping.set(known.work.sleeping)
    for room in Room:
        measured.waiting.labels(room.value).set(known.rooms.waiting(room))
