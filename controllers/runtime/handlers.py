"""From an event to its controller: fenced, only for served namespaces, never fatal."""

from __future__ import annotations

from collections.abc import Callable

import structlog

import kube
from controllers import namespaces
from controllers.pendingtask import warm
from controllers.runtime import clients, wiring
from kube import lease

log = structlog.get_logger("operator")

Observe = Callable[..., None]
"""Stores an object: (raw, *, deleted). Synchronous, because it only enqueues."""


class Handlers:
    """The event handlers for kopf, the streams and the resync. `kind`: the event type; None for a listed object."""

    def __init__(self, to: clients.Clients, acting: wiring.Wiring, members: namespaces.Namespaces) -> None:
        self._heed, self._metrics, self._members = to.lease.heed, to.metrics, members
        self._tasks, self._backends, self._connections = acting.tasks.handlers, acting.backends, acting.connections
        self._projects, self._pool = acting.projects, acting.pool

    def task(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a PendingTask."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._task, kind, raw)

    def connection(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a Connection."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._connection, kind, raw)

    def backend(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a GpuBackend; one outside the release's namespace does not count, which its condition says."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._backends.observe, kind, raw)

    def job(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a run's Job, or of one of the warm pool."""
        self._take(self._job, kind, raw)

    def pod(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a run's pod, or of one of the warm pool."""
        self._take(self._pod, kind, raw)

    def _task(self, raw: kube.Object, *, deleted: bool) -> None:
        self._tasks.observe_task(raw, deleted=deleted)
        if not deleted:
            self._projects.task(raw)

    def _connection(self, raw: kube.Object, *, deleted: bool) -> None:
        self._connections.observe(raw, deleted=deleted)
        if not deleted:
            self._projects.connection(raw)

    def _job(self, raw: kube.Object, *, deleted: bool) -> None:
        self._pool.observe_job(raw, deleted=deleted)
        if warm.is_claimed(raw):
            self._tasks.observe_job(raw, deleted=deleted)

    def _pod(self, raw: kube.Object, *, deleted: bool) -> None:
        self._pool.observe_pod(raw, deleted=deleted)
        if warm.is_claimed(raw):
            self._tasks.observe_pod(raw, deleted=deleted)

    def _take(self, observe: Observe, kind: str | None, raw: kube.Object) -> None:
        try:
            epoch = (raw.get("status") or {}).get("leaderEpoch") or 0
            if epoch > lease.MOST_HEEDED and kind != "DELETED":
                # Forged. The policies refuse any status with a lower epoch, so each write would fail and be repeated.
                self._metrics.undecided.labels("forged").inc()
                log.error("object ignored: status.leaderEpoch is forged", name=raw["metadata"].get("name"), epoch=epoch)
                return
            # No write may have a lower epoch than an observed object.
            self._heed(epoch)
            observe(raw, deleted=kind == "DELETED")
        except Exception:
            # The edge of an event: an object that triggers a bug must not block the others.
            self._metrics.failures.inc()
            log.exception("event handler failed", name=raw["metadata"].get("name"))
