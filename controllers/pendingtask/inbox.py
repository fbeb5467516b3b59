"""What the watch says, taken in: synchronous, cheap, and never a decision. Whoever is concerned is looked at."""

from __future__ import annotations

from collections.abc import Callable

from controllers import kube
from controllers.pendingtask import attention, index, views
from crds.phases import HOLDS_SLOT


class Inbox:
    """`backend_gone_in` answers the seconds until the GpuBackend of that name is given up, None while it is fine."""

    def __init__(self, known: attention.Attention, backend_gone_in: Callable[[str], float | None]) -> None:
        self._known, self._backend_gone_in = known, backend_gone_in

    def observe_task(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a PendingTask. Leaving the selector by being finished looks like a deletion: to us it is."""
        uid = raw["metadata"]["uid"]
        if deleted:
            entry = self._known.tasks.entry(uid)
            if entry is not None:  # of a task that was finished the entry is gone, but for a write under way
                self._known.workloads.abandon(uid, finishing=entry.phase in HOLDS_SLOT)
            self._known.forget(uid, index.version(raw))
            return
        if self._known.admit(raw):
            self._known.enqueue(uid)
            self._known.call_rooms()

    def observe_job(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a Job of ours."""
        uid = views.task_uid(raw)
        if deleted:
            self._known.workloads.forget_job(uid, raw["metadata"]["name"])
            self._known.enqueue(uid)
        elif self._known.workloads.observe_job(raw):
            self._known.enqueue(uid)

    def observe_pod(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a pod of ours."""
        uid = views.task_uid(raw)
        if deleted:
            self._known.workloads.observe_pod(raw)
            self._known.workloads.forget_pod(uid, raw["metadata"]["name"])
            self._pod_changed(uid)
        elif self._known.workloads.observe_pod(raw):
            self._pod_changed(uid)

    def _pod_changed(self, uid: str) -> None:
        if self._known.tasks.entry(uid) is None:
            self._known.workloads.forget_task(uid)
        else:
            self._known.enqueue(uid)
        self._known.call_rooms()  # it may have held a slot

    def backends_changed(self) -> None:
        """Slots may have come or gone, and runs may have lost theirs."""
        for uid, run in self._known.tasks.bookings.runs.items():
            if self._backend_gone_in(run.backend) is not None:
                self._known.enqueue(uid)
        self._known.call_rooms()
