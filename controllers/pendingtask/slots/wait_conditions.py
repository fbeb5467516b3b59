"""Wait reasons in the conditions of Background tasks: written rarely, and only while there is no other work.

All Background tasks wait for the same reason, so it is determined once. A reason that has lasted for `lasting` seconds
is written into tasks that have waited that long and record another one: oldest first, `AT_ONCE` at a time. Positions
are never written, since every start of a task changes them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime

from contracts.api.queue_api import Reason
from controllers.pendingtask import task_index
from controllers.pendingtask.slots import scheduler
from crds.phases import Phase

EVERY_SECONDS = 10.0
AT_ONCE = 50
"""Tasks at one time: at most five writes per second."""

WRITTEN = frozenset({Reason.NO_GPU_BACKEND, Reason.CIRCUIT_OPEN, Reason.USERS_ACTIVE, Reason.NO_FREE_SLOT})
_REPLACED = frozenset({"", *(reason.value for reason in WRITTEN)})
"""Any other reason, such as Preempted or DispatchFailed, is more specific and is not replaced."""


class WaitConditions:
    """`enqueue` causes the reconciliation of a task; `busy` returns whether there is other work.

    `lasting`: seconds that a reason lasts, and a task waits, before it is written.
    """

    def __init__(
        self,
        tasks: task_index.Tasks,
        book: scheduler.SlotScheduler,
        *,
        enqueue: Callable[[str], None],
        busy: Callable[[], bool],
        lasting: float,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._tasks, self._scheduler = tasks, book
        self._enqueue, self._busy, self._lasting = enqueue, busy, lasting
        self._wall, self._monotonic = wall, monotonic
        self._reason: Reason | None = None
        self._since = 0.0

    async def reconcile_once(self) -> None:
        """Check once."""
        self.check()

    def check(self) -> None:
        """Note the present reason, and enqueue tasks that are to record it."""
        reason, now = self._scheduler.background_lacks(), self._monotonic()
        if reason is not self._reason:
            self._reason, self._since = reason, now
        if reason not in WRITTEN or now - self._since < self._lasting or self._busy():
            return
        for uid in heapq.nsmallest(AT_ONCE, self._silent(reason), key=self._queued):
            self._scheduler.reasons_to_write[uid] = reason
            self._enqueue(uid)

    def _silent(self, reason: Reason) -> list[str]:
        """Background tasks that have waited long enough and do not record this reason."""
        now = self._wall().timestamp()
        found = []
        for uid in self._tasks.phase(Phase.READY_FOR_GPU):
            entry = self._tasks.entry(uid)
            if entry is None or entry.order.lane == 0 or entry.held or entry.not_before > now:
                continue
            if entry.since + self._lasting <= now and entry.noted != reason and entry.noted in _REPLACED:
                found.append(uid)
        return found

    def _queued(self, uid: str) -> int:
        entry = self._tasks.entry(uid)
        return 0 if entry is None else entry.queued
