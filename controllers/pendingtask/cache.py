"""The task cache: the index, the scheduler's wait queues, the work queue and the observations of effects.

`TaskCache` changes them together, so they agree; `EventHandlers` takes watch events in. Nothing here decides, and
nothing writes to the API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container

import pydantic
import structlog

import kube
from controllers import queue, unreadable
from controllers.pendingtask import task_index, views
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.decision import WaitFor
from controllers.pendingtask.observed import Observation
from controllers.pendingtask.slots import scheduler
from crds import pendingtask
from crds.phases import HOLDS_SLOT, TERMINAL

log = structlog.get_logger(__name__)


RUNS_BEHIND_SECONDS = 10
"""Events of Background runs may wait this long behind dispatches of newer tasks: a burst gets its Jobs first."""


class TaskCache:
    """Changes `work`, `tasks`, `workloads` and `book` together.

    `members`: the served namespaces; `monotonic` is the clock; `cancel_reading` is called with a task that is gone.
    """

    def __init__(
        self,
        api: kube.Kube,
        *,
        members: Container[str],
        work: queue.WorkQueue[str],
        tasks: task_index.Tasks,
        workloads: loads.Workloads,
        book: scheduler.SlotScheduler,
        cancel_reading: Callable[[str], None],
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._members = api, members
        self._cancel_reading, self._monotonic = cancel_reading, monotonic
        self.work, self.tasks, self.workloads, self.scheduler = work, tasks, workloads, book
        self.observations: dict[str, Observation] = {}
        """By uid: results of effects that no decision has used yet."""
        self.contents = task_index.Contents()
        self.unreadable: dict[str, unreadable.Unreadable] = {}
        """By uid: objects that cannot be parsed, until their condition is written."""
        self._timer: asyncio.TimerHandle | None = None
        self._admitting = False

    # -- reconciliation --------------------------------------------------------------------------------------------

    def enqueue(self, uid: str) -> None:
        """Reconcile the task now, in its order."""
        rank = self._rank(uid)
        if rank is not None:
            self.work.put(uid, rank)

    def later(self, uid: str, seconds: float) -> None:
        """Reconcile the task in `seconds`, or earlier on an event."""
        rank = self._rank(uid)
        if rank is not None:
            self.work.wake(uid, rank, self._monotonic() + seconds)

    def _rank(self, uid: str) -> queue.Rank | None:
        """Its rank in the work queue. A task that cannot be parsed has no order, and may have no entry.

        Writes of a Background run come after the dispatches of slightly newer tasks, except while a task waits for a
        GPU slot, which the end of a run may release.
        """
        entry, refused = self.tasks.entry(uid), self.unreadable.get(uid)
        if refused is not None:
            return (0, 0, 0, 0, refused.object["metadata"]["name"])
        if entry is None:
            return None
        background_run = entry.phase in HOLDS_SLOT and entry.order.lane != 0
        if not background_run or self.scheduler.waiting(WaitFor.GPU):
            return entry.order
        return entry.order._replace(created=entry.order.created + RUNS_BEHIND_SECONDS)

    def observed(self, uid: str, found: Observation | None) -> None:
        """Store the result of an effect that ran beside the workers."""
        if found is not None:
            self.observations[uid] = found
        self.enqueue(uid)
        self.admit_waiting()  # a place at the qualifier may be free

    def admit_waiting(self) -> None:
        """A place or slot may be free: admit waiters, once for all changes in this turn of the event loop."""
        if not self._admitting:
            self._admitting = True
            asyncio.get_running_loop().call_soon(self._admit)

    def _admit(self) -> None:
        self._admitting = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        admitted, again = self.scheduler.admit()
        for uid, rank in admitted:
            self.work.put(uid, rank)
        if again is not None:
            self._timer = asyncio.get_running_loop().call_later(again, self._admit)

    def refill(self) -> None:
        """If the bounded queue rejected keys and is empty now, enqueue every task again."""
        if self.work.overflowed and not len(self.work):
            self.work.overflowed = False
            for uid in [*self.tasks, *self.unreadable]:
                self.enqueue(uid)

    # -- index -----------------------------------------------------------------------------------------------------

    def take(self, raw: kube.Object) -> bool:
        """Store the task in the index, or remove it if it is finished. False if nothing is new. Raises ValidationError.

        An answer that arrives after the task's namespace is no longer served is ignored.
        """
        if raw["metadata"]["namespace"] not in self._members:
            return False
        if (raw.get("status") or {}).get("phase") in TERMINAL:
            self.forget(raw["metadata"]["uid"], task_index.version(raw))
            return False
        fresh = self.tasks.observe(raw)
        if fresh:
            self.contents.keep(raw)
            self._wake_followers(raw["metadata"]["uid"])
        return fresh

    def admit(self, raw: kube.Object) -> bool:
        """As `take`; an object that cannot be parsed is stored in `unreadable` to be reported.

        If it holds no slot, its earlier version is removed from the index.
        """
        uid = raw["metadata"]["uid"]
        try:
            fresh = self.take(raw)
        except pydantic.ValidationError as error:
            found = unreadable.Unreadable.of(raw, error)
            log.error("task cannot be read", task=raw["metadata"]["name"], field=found.field, error=found.why)
            entry = self.tasks.entry(uid)
            if entry is not None and entry.phase not in HOLDS_SLOT:
                self.forget(uid, 0)
            self.unreadable[uid] = found
            self.enqueue(uid)
            return False
        self.unreadable.pop(uid, None)
        return fresh

    def forget(self, uid: str, at: int) -> None:
        """Remove a task that is finished or gone; versions up to `at` are ignored from now on."""
        self.tasks.forget(uid, at)
        self._drop(uid)

    def leave(self, uid: str) -> None:
        """Remove a task whose namespace is no longer served; its run holds its slot as long as its pod lives."""
        self.tasks.leave(uid)
        self._drop(uid)

    def _drop(self, uid: str) -> None:
        self.workloads.forget_task(uid)
        self.contents.drop(uid)
        self.observations.pop(uid, None)
        self.unreadable.pop(uid, None)
        self.scheduler.leave(uid)
        self.scheduler.settle(uid)
        self.work.forget(uid)
        self._cancel_reading(uid)
        self._wake_followers(uid)
        self.admit_waiting()

    def _wake_followers(self, uid: str) -> None:
        """Reconcile the tasks that wait for this one's reading, once what becomes of it is known or it is gone."""
        if not self.tasks.undecided(uid):
            for one in self.tasks.followers(uid):
                self.enqueue(one)

    async def read(self, task: pendingtask.PendingTask) -> None:
        """Read the task from the API after a lost write, never from the index."""
        meta = task.metadata
        raw = await self._read(meta.uid, meta.namespace, meta.name)
        if raw is not None:
            self.admit(raw)

    async def fetch(self, uid: str) -> pendingtask.PendingTask | None:
        """The whole task from the API, content included; None if it is gone or cannot be parsed.

        The version is stored in the index: otherwise the result would belong to another version than the decision, and
        the work would be repeated.
        """
        entry = self.tasks.entry(uid)
        raw = None if entry is None else await self._read(uid, entry.namespace, entry.name)
        if raw is None:
            return None
        self.admit(raw)
        return None if uid in self.unreadable else pendingtask.PendingTask.model_validate(raw)

    async def _read(self, uid: str, namespace: str, name: str) -> kube.Object | None:
        try:
            raw: kube.Object | None = await self._api.get(kube.TASKS, namespace, name)
        except kube.NotFound:
            raw = None
        if raw is not None and raw["metadata"]["uid"] == uid:
            return raw
        self.workloads.abandon(uid)
        self.forget(uid, 0)
        return None


class EventHandlers:
    """`backend_gone_in` returns the seconds until the GpuBackend of that name is given up; None while it is fine."""

    def __init__(self, cached: TaskCache, backend_gone_in: Callable[[str], float | None]) -> None:
        self._cache, self._backend_gone_in = cached, backend_gone_in

    def observe_task(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a PendingTask. A finished task leaves the selector, which counts as a deletion."""
        uid = raw["metadata"]["uid"]
        if deleted:
            entry = self._cache.tasks.entry(uid)
            if entry is not None:  # a finished task has no entry any more, except during a write
                self._cache.workloads.abandon(uid, finishing=entry.phase in HOLDS_SLOT)
            self._cache.forget(uid, task_index.version(raw))
            return
        if self._cache.admit(raw):
            self._cache.enqueue(uid)
            self._cache.admit_waiting()

    def observe_job(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a run's Job."""
        uid = views.task_uid(raw)
        if deleted:
            self._cache.workloads.forget_job(uid, raw["metadata"]["name"])
            self._cache.enqueue(uid)
        elif self._cache.workloads.observe_job(raw):
            self._cache.enqueue(uid)

    def observe_pod(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a run's pod."""
        uid = views.task_uid(raw)
        if deleted:
            self._cache.workloads.observe_pod(raw)
            self._cache.workloads.forget_pod(uid, raw["metadata"]["name"])
            self._pod_changed(uid)
        elif self._cache.workloads.observe_pod(raw):
            self._pod_changed(uid)

    def _pod_changed(self, uid: str) -> None:
        if self._cache.tasks.entry(uid) is None:
            self._cache.workloads.forget_task(uid)
        else:
            self._cache.enqueue(uid)
        self._cache.admit_waiting()  # it may have held a slot

    def limits_changed(self, namespace: str) -> None:
        """Enqueue the tasks of a namespace whose limits changed."""
        for raw in self._cache.tasks.known(namespace):
            self._cache.enqueue(raw["metadata"]["uid"])

    def backends_changed(self) -> None:
        """The set of slots changed, and runs may have lost theirs."""
        for uid, run in self._cache.tasks.bookings.runs.items():
            if self._backend_gone_in(run.backend) is not None:
                self._cache.enqueue(uid)
        self._cache.admit_waiting()
