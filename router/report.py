"""The status document, put together from the running parts. Its shape is in `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime

from router import scheduler, status
from router.backends import book
from router.priority import Level


class Report:
    """`now` is the scheduler's clock in seconds. `last_p0` and `draining` are set by the server."""

    def __init__(self, backends: book.Book, plan: scheduler.Scheduler, *, now: Callable[[], float]) -> None:
        self._book = backends
        self._plan = plan
        self._now = now
        self.last_p0: datetime | None = None
        self.draining = False

    def document(self) -> status.Status:
        """The state of this moment."""
        waiting = list(self._plan.waiting())
        levels = Counter(request.level for request in waiting)
        return status.Status(
            backends=[self._backend(entry) for entry in self._book.entries()],
            queue=status.Queue(
                waiting=len(waiting),
                by_priority={level.label: levels[level] for level in Level},
                oldest_seconds=round(max((self._now() - r.arrived for r in waiting), default=0.0), 3),
            ),
            last_p0=self.last_p0,
            draining=self.draining,
        )

    def ready(self) -> str:
        """Empty when requests can be served, else what is missing."""
        entries = self._book.entries()
        if self.draining:
            return "draining"
        if not entries:
            return "no GpuBackend is configured"
        if any(entry.view().available for entry in entries):
            return ""
        return "; ".join(f"{e.name}: {'drains' if e.spec.drain else e.reason or 'circuit is open'}" for e in entries)

    def _backend(self, entry: book.Entry) -> status.Backend:
        return status.Backend(
            name=entry.name,
            kind=entry.spec.kind.value,
            url=entry.spec.url,
            healthy=entry.healthy,
            reason="" if entry.healthy else entry.reason,
            draining=entry.spec.drain,
            circuit=entry.breaker.state.value,
            in_flight=self._plan.in_flight(entry.name),
            num_parallel=entry.spec.num_parallel,
            models=sorted(entry.served or ()),
            loaded=sorted(entry.loaded),
            version=entry.version,
        )
