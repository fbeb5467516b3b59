"""Updates the gauges about tasks; called before each scrape."""

from __future__ import annotations

from datetime import datetime

from contracts.api.queue_api import Reason
from controllers import metrics
from controllers.pendingtask import cache, task_index
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.slots import wait_reasons
from crds import order
from crds.phases import Phase

_LANES = ("foreground", "background")


def show(cached: cache.TaskCache, measured: metrics.Metrics, now: datetime) -> None:
    """Set all gauges as of `now` (aware, UTC)."""
    _queue(cached, measured)
    _reasons(cached, measured)
    for phase in task_index.WAITING:
        for lane, since in zip(_LANES, cached.tasks.oldest(phase), strict=True):
            age = 0.0 if since is None else max(0.0, now.timestamp() - since)
            measured.oldest.labels(lane, phase.value).set(age)
    for phase in Phase:
        measured.tasks.labels(phase.value).set(cached.tasks.count(phase))
    book = cached.scheduler.slots()
    measured.slots.labels("total").set(book.total)
    measured.slots.labels("free").set(sum(number for _, number in book.free))
    measured.qualifying.set(cached.scheduler.qualifying(""))
    measured.breaker.set(0 if cached.scheduler.dispatch_open() else 1)
    measured.preemption_immune.set(cached.scheduler.immune())


def _reasons(cached: cache.TaskCache, measured: metrics.Metrics) -> None:
    counts = wait_reasons.counts(cached.scheduler.observed())
    for number, lane in enumerate(_LANES):
        for reason in Reason:
            measured.waiting_reasons.labels(lane, reason.value).set(counts[number, reason])


def _queue(cached: cache.TaskCache, measured: metrics.Metrics) -> None:
    depth = [0, 0]
    for rank in cached.work.depth():
        depth[order.Order(*rank).lane] += 1
    for lane, number in zip(_LANES, depth, strict=True):
        measured.queue_depth.labels(lane).set(number)
    measured.queue_sleeping.set(cached.work.sleeping)
    for wait_for in WaitFor:
        measured.waiting.labels(wait_for.value).set(cached.scheduler.waiting(wait_for))
