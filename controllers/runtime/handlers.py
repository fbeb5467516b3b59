"""From an event to its controller: fenced, only of namespaces that are served, never fatal."""

from __future__ import annotations

from collections.abc import Callable

import structlog

import kube
from controllers import namespaces
from controllers.runtime import clients, wiring

log = structlog.get_logger("operator")

Observe = Callable[..., None]
"""Takes an object in: (raw, *, deleted). Synchronous, because it only enqueues."""


class Handlers:
    """Takes in what kopf, the streams and the level look report. kopf's type of what a list brings is None."""

    def __init__(self, to: clients.Clients, acting: wiring.Wiring, members: namespaces.Namespaces) -> None:
        self._heed, self._metrics, self._members = to.lease.heed, to.metrics, members
        self._tasks, self._backends, self._connections = acting.tasks.handlers, acting.backends, acting.connections

    def task(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a PendingTask."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._tasks.observe_task, kind, raw)

    def connection(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a Connection."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._connections.observe, kind, raw)

    def backend(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a GpuBackend; those of other namespaces than the release's do not count, and say so."""
        if raw["metadata"]["namespace"] in self._members:
            self._take(self._backends.observe, kind, raw)

    def job(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a Job of ours."""
        self._take(self._tasks.observe_job, kind, raw)

    def pod(self, kind: str | None, raw: kube.Object) -> None:
        """An event of a pod of ours."""
        self._take(self._tasks.observe_pod, kind, raw)

    def _take(self, observe: Observe, kind: str | None, raw: kube.Object) -> None:
        try:
            # Nothing is written under a lower epoch than the one that an object carries.
            self._heed((raw.get("status") or {}).get("leaderEpoch") or 0)
            observe(raw, deleted=kind == "DELETED")
        except Exception:
            # The edge of an event: one object that trips a bug of ours must not keep the others from being taken in.
            self._metrics.failures.inc()
            log.exception("event not taken in", name=raw["metadata"].get("name"))
