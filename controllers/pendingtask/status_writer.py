"""Persists decisions, with a resourceVersion precondition and the leader's epoch, and reports each step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

import kube
from controllers import events, metrics, tracing
from controllers.pendingtask import cache, transitions
from controllers.pendingtask.transitions import Batch
from crds import pendingtask
from crds.phases import Phase
from kube import lease

log = structlog.get_logger(__name__)


class Writer:
    """The only writer of a PendingTask's status."""

    def __init__(
        self,
        api: kube.Kube,
        cached: cache.TaskCache,
        *,
        recorder: events.Recorder,
        measured: metrics.Metrics,
        leadership: lease.Lease,
        tracer: tracing.Tracer,
        wall: Callable[[], datetime],
    ) -> None:
        self._api, self._cache, self._recorder = api, cached, recorder
        self._metrics, self._lease, self._tracer, self._wall = measured, leadership, tracer, wall

    async def persist(self, task: pendingtask.PendingTask, batch: Batch) -> kube.Object | None:
        """Write the status; returns the new object. None: the write lost and the task was read again, or it is gone."""
        uid, meta = task.metadata.uid, task.metadata
        status = {**batch.decision.status_patch, "leaderEpoch": self._lease.epoch}
        if not task.status.trace_id and (traced := self._tracer.trace_id(uid)):
            status["traceId"] = traced
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            raw = await self._api.merge(kube.TASKS, meta.namespace, meta.name, patch, "status")
        except kube.Conflict:
            self._metrics.conflicts.inc()
            await self._cache.read(task)
            return None
        except kube.NotFound:
            self._cache.forget(uid, 0)
            return None
        log.debug("status written", fields=list(status), steps=len(batch.steps))
        self._cache.take(raw)
        self._cache.scheduler.settle(uid)
        for number, step in enumerate(batch.steps):
            self._report(task, step, raw, number)
        self._cache.admit_waiting()
        return raw

    def _report(self, task: pendingtask.PendingTask, step: transitions.Step, raw: kube.Object, number: int) -> None:
        """Count, log and post one step; `number` is its position in the batch."""
        source, made = step.source, step.made
        reason = made.note.reason if made.note else ""
        if made.phase is not None:
            self._metrics.transitions.labels(source.value, made.phase.value).inc()
            if source is Phase.USER_TASK:
                self._metrics.decided(task.status.user_task, task.status.phase_times.get(source.value), self._wall())
            if made.phase is Phase.ORCHESTRATING:
                self._cache.scheduler.breaker.succeeded()
            log.info("task moved", source=source.value, target=made.phase.value, reason=reason)
            self._tracer.moved(task, source, made.phase, reason, self._wall())
        if "preemption" in made.status_patch:
            self._metrics.preempted(made.status_patch["preemption"] is not None, made.phase)
        if route := made.status_patch.get("route"):
            self._metrics.directives.labels(route["decision"]).inc()
        if (result := made.status_patch.get("result")) and result.get("plan"):
            self._metrics.plans.labels(result["plan"]).inc()
        if retry := made.status_patch.get("retry"):
            self._metrics.retries.labels(str(retry["reason"]).partition(":")[0]).inc()
        if made.note is not None:
            self._recorder.post(raw, reason, made.note.message, warning=made.note.warning, step=number)
