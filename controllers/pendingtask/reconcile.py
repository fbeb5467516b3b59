"""The shell around `decide`: persist the intent, perform the effect, observe, persist.

One look at one task is a few rounds of: snapshot -> decide as far as can be foreseen (`coalesce`) -> persist with a
resourceVersion precondition -> effects.
A write that loses (409) is followed by a reading from the API, never from the index. A uid is looked at by one worker
at a time. Nothing here decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto

import pydantic
import structlog

from controllers import events, kube, lease, metrics, queue, tracing
from controllers.pendingtask import (
    coalesce,
    decision,
    effects,
    index,
    order,
    qualification,
    rooms,
    surroundings,
    views,
)
from controllers.pendingtask.coalesce import Course
from controllers.pendingtask.decision import Decision, Room
from controllers.pendingtask.world import Limits, Observation, Slots, Trouble, World, trouble
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT, TERMINAL, Phase

log = structlog.get_logger(__name__)

MAX_ROUNDS = 8
AWAY_SECONDS = 2.0
"""Pause after the Kubernetes API or MongoDB did not answer in the middle of a look."""
LEISURE_SECONDS = 10.0
"""After which a write that was put off is thought of again."""
_ROOMS = {Phase.QUALIFYING: Room.QUALIFIER, Phase.DISPATCHED_GPU: Room.GPU}


class Carried(Enum):
    """What became of a decision."""

    SETTLED = auto()
    """Nothing more to do until something changes."""
    AGAIN = auto()
    """Something new is to be decided about."""
    LOST = auto()
    """The write lost to a newer version, which has been read."""


class Reconciler:
    """Owns the queue, the index and the rooms. `observe_*` are called by the watch and only enqueue."""

    def __init__(
        self,
        api: kube.Kube,
        limits: Limits,
        *,
        work: queue.WorkQueue[str],
        tasks: index.Tasks,
        workloads: index.Workloads,
        book: rooms.Rooms,
        around: surroundings.Surroundings,
        performer: effects.Effects,
        poster: events.Poster,
        measured: metrics.Metrics,
        leadership: lease.Lease,
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._api, self._limits = api, limits
        self._work, self._tasks, self._workloads = work, tasks, workloads
        self._rooms, self._surroundings = book, around
        self._effects, self._poster = performer, poster
        self._metrics, self._lease = measured, leadership
        self._wall, self._monotonic = wall, monotonic
        self._observed: dict[str, Observation] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._calling = False
        self.qualifier: qualification.Qualifier | None = None
        """Set by the composition root: it and this object need each other."""
        self.backend_gone_in: Callable[[str], float | None] = lambda name: None
        """Seconds until the GpuBackend of that name is given up; set by the composition root."""
        self.tracer: tracing.Tracer = tracing.Off()
        """Replaced by the composition root where tracing is on."""
        self.may_act = asyncio.Event()
        """Set once the lease is held; losing it ends the process."""

    # -- what the watch says ---------------------------------------------------------------------------------------

    def observe_task(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a PendingTask. Leaving the selector by being finished looks like a deletion: to us it is."""
        uid = raw["metadata"]["uid"]
        if deleted:
            self._forget(uid, index.version(raw))
            return
        try:
            fresh = self._take(raw)
        except pydantic.ValidationError as error:
            log.error("task cannot be read", task=raw["metadata"]["name"], error=str(error))
            return
        if fresh:
            self.enqueue(uid)
            self.call_rooms()

    def observe_job(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a Job of ours."""
        if deleted:
            uid = views.task_uid(raw)
            self._workloads.forget_job(uid, raw["metadata"]["namespace"], raw["metadata"]["name"])
            self.enqueue(uid)
        elif self._workloads.observe_job(raw):
            self.enqueue(views.task_uid(raw))

    def observe_pod(self, raw: kube.Object, *, deleted: bool) -> None:
        """An event of a pod of ours."""
        uid = views.task_uid(raw)
        if deleted:
            self._workloads.observe_pod(raw)
            self._workloads.forget_pod(uid, raw["metadata"]["name"])
            self._pod_changed(uid)
        elif self._workloads.observe_pod(raw):
            self._pod_changed(uid)

    def _pod_changed(self, uid: str) -> None:
        if self._tasks.entry(uid) is None:
            self._workloads.forget_task(uid)
        else:
            self.enqueue(uid)
        self.call_rooms()  # it may have held a slot

    def observed(self, uid: str, found: Observation | None) -> None:
        """An effect that ran beside the workers has ended."""
        if found is not None:
            self._observed[uid] = found
        self.enqueue(uid)

    def backends_changed(self) -> None:
        """Slots may have come or gone, and runs may have lost theirs."""
        for uid, run in self._tasks.bookings.runs.items():
            if self.backend_gone_in(run.backend) is not None:
                self.enqueue(uid)
        self.call_rooms()

    def enqueue(self, uid: str) -> None:
        """Look at the task now, in its order."""
        entry = self._tasks.entry(uid)
        if entry is not None:
            self._work.put(uid, entry.order)

    def call_rooms(self) -> None:
        """Something may have become free: those who wait for it are woken, once for all that happens in this turn."""
        if not self._calling:
            self._calling = True
            asyncio.get_running_loop().call_soon(self._call)

    def _call(self) -> None:
        self._calling = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        called, again = self._rooms.call()
        for uid, rank in called:
            self._work.put(uid, rank)
        if again is not None:
            self._timer = asyncio.get_running_loop().call_later(again, self._call)

    # -- workers ---------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """One worker: look at tasks until cancelled."""
        await self.may_act.wait()
        while True:
            uid = await self._work.get()
            structlog.contextvars.clear_contextvars()
            started, unsure = self._monotonic(), False
            try:
                await self._look(uid)
            except (errors.Operational, kube.NotFound) as error:
                # The write may have been made and only its answer lost: a claim stays until the task is seen again.
                unsure = True
                log.info("looked in vain", uid=uid, reason=error.message)
                self._later(uid, AWAY_SECONDS)
            except Exception:
                # The edge of a look: one task that trips a bug of ours must not stop the others.
                self._metrics.failures.inc()
                log.exception("looking at a task failed", uid=uid)
                self._later(uid, self._limits.recheck.total_seconds())
            finally:
                if not unsure:
                    self._rooms.settle(uid)
                self._work.done(uid)
                self._metrics.reconcile.observe(self._monotonic() - started)
                self._refill()
            # Most looks ask nobody anything. Without a turn for the wire between two of them, ten thousand tasks that
            # are found at a start would keep answers, watches and probes waiting for seconds.
            await asyncio.sleep(0)

    async def _look(self, uid: str) -> None:
        for _ in range(MAX_ROUNDS):
            entry = self._tasks.entry(uid)
            task = self._tasks.get(uid)
            if entry is None or task is None:
                return
            self._bind(task)
            around = await self._surroundings.of(task)
            if self._tasks.entry(uid) is not entry:
                continue  # it changed while the API was asked
            world = self._world(task, around)
            carried = await self._carry_out(task, entry, coalesce.course(task, world, self._wall()))
            if carried is Carried.LOST:
                continue
            if world.observed is not None and self._observed.get(uid) is world.observed:
                del self._observed[uid]
            if carried is Carried.SETTLED:
                return
        self.enqueue(uid)

    @staticmethod
    def _bind(task: pendingtask.PendingTask) -> None:
        """Every line that is logged from here on in this look, also by others, says which task it is about."""
        meta, told = task.metadata, {"trace_id": task.status.trace_id} if task.status.trace_id else {}
        structlog.contextvars.bind_contextvars(
            uid=meta.uid, task=meta.name, namespace=meta.namespace, correlation_id=task.spec.correlation_id, **told
        )

    async def _carry_out(self, task: pendingtask.PendingTask, entry: index.Entry, course: Course) -> Carried:
        """Persist and perform."""
        uid, made = task.metadata.uid, course.decision
        self._rooms.leave(uid)
        if made.room is not None and len(self._work) and coalesce.can_wait(task, course, self._wall()):
            self._rooms.enter(uid, made.room, entry.order)
            self._later(uid, LEISURE_SECONDS)
            self.call_rooms()
            return Carried.SETTLED
        if made.phase in _ROOMS:
            self._rooms.claim(uid, _ROOMS[made.phase], _booked(task, made))
        raw: kube.Object | None = None
        if made.status_patch:
            raw = await self._persist(task, course)
            if raw is None:
                return Carried.LOST
        again = course.more
        for effect in made.effects:
            again = await self._perform(task, effect, raw) or again
        if made.phase in TERMINAL:
            return Carried.SETTLED
        if made.room is not None:
            self._rooms.enter(uid, made.room, entry.order)
            self.call_rooms()
            return Carried.SETTLED
        if made.requeue_after is not None:
            self._later(uid, made.requeue_after)
            return Carried.SETTLED
        return Carried.AGAIN if again else Carried.SETTLED

    async def _persist(self, task: pendingtask.PendingTask, course: Course) -> kube.Object | None:
        """Write the status; the object as it is then. None when the write lost and the task was read again instead."""
        uid, meta = task.metadata.uid, task.metadata
        status = {**course.decision.status_patch, "leaderEpoch": self._lease.epoch}
        if not task.status.trace_id and (traced := self.tracer.trace_id(uid)):
            status["traceId"] = traced
        patch = {"metadata": {"resourceVersion": meta.resource_version}, "status": status}
        try:
            raw = await self._api.merge(kube.TASKS, meta.namespace, meta.name, patch, "status")
        except kube.Conflict:
            self._metrics.conflicts.inc()
            await self._reread(task)
            return None
        except kube.NotFound:
            self._forget(uid, 0)
            return None
        self._take(raw)
        self._rooms.settle(uid)
        for number, step in enumerate(course.steps):
            self._tell(task, step, raw, number)
        self.call_rooms()
        return raw

    def _tell(self, task: pendingtask.PendingTask, step: coalesce.Step, raw: kube.Object, number: int) -> None:
        """Count, log and post one step; `number` is its place in the write."""
        source, made = step.source, step.made
        if made.phase is not None:
            self._metrics.transitions.labels(source.value, made.phase.value).inc()
            if made.phase is Phase.ORCHESTRATING:
                self._rooms.breaker.succeeded()
            log.info(
                "task moved",
                source=source.value,
                target=made.phase.value,
                reason=made.note.reason if made.note else "",
            )
            self.tracer.moved(task, source, made.phase, made.note.reason if made.note else "", self._wall())
        if "preemption" in made.status_patch:
            self._metrics.preempted(made.status_patch["preemption"] is not None, made.phase)
        if made.status_patch.get("retry"):
            self._metrics.retries.labels(made.phase.value if made.phase else source.value).inc()
        if made.note is not None:
            self._poster.post(raw, made.note.reason, made.note.message, warning=made.note.warning, step=number)

    async def _perform(self, task: pendingtask.PendingTask, effect: decision.Effect, raw: kube.Object | None) -> bool:
        """Perform one effect; True when its outcome is to be decided about.

        `raw` is the whole task, content included, when the intent has just been written: it need not be read again.
        """
        uid = task.metadata.uid
        match effect:
            case decision.Ingest():
                assert self.qualifier is not None
                self.qualifier.start(uid, raw)
                return False
            case decision.Launch():
                return await self._launch(task, effect, raw)
            case decision.Copy():
                self._observed[uid] = await self._effects.copy(task, effect)
                return True
            case decision.SuspendJob():
                await self._effects.suspend(task, effect)
                waited = self._rooms.waited(uid)
                if waited is not None:
                    self._metrics.preemption_issued.observe(waited)
            case decision.ResumeJob():
                await self._effects.resume(task, effect)
            case decision.DeleteJob():
                await self._effects.delete(task, effect)
            case decision.ExpireJob():
                await self._effects.expire(task, effect)
        return False

    async def _launch(self, task: pendingtask.PendingTask, wanted: decision.Launch, raw: kube.Object | None) -> bool:
        """Dispatching is what the circuit breaker counts."""
        now = self._monotonic()
        self._rooms.breaker.started(now)
        try:
            found = await self._effects.launch(task, wanted, raw)
        except lease.Fenced:
            raise
        except kube.NotFound:
            self._forget(task.metadata.uid, 0)
            return False
        except errors.JervisError as error:
            found = trouble(error)
        if isinstance(found, Trouble):
            if found.operational:
                self._rooms.breaker.failed(self._monotonic())
            self._observed[task.metadata.uid] = found
        else:
            self._rooms.breaker.succeeded()
        return True

    # -- the world -------------------------------------------------------------------------------------------------

    def _world(self, task: pendingtask.PendingTask, around: surroundings.Found) -> World:
        uid, dispatch = task.metadata.uid, task.status.dispatch
        runs = task.status.phase in HOLDS_SLOT
        assert self.qualifier is not None
        return World(
            limits=self._limits,
            qualifying=self._rooms.qualifying(uid),
            working=uid in self.qualifier,
            observed=self._observed.get(uid),
            job=around.job,
            strays=self._workloads.strays(task),
            pods=self._workloads.pods(uid),
            recorded=around.recorded,
            slots=Slots() if runs else self._rooms.slots(uid),
            claimant=self._rooms.claimant(uid),
            backend_gone_in=self.backend_gone_in(dispatch.backend) if runs and dispatch is not None else None,
            user_active=self._tasks.user_active,
            last_user=self._rooms.last_user,
            in_doubt_since=self._rooms.in_doubt_since,
            dispatch_open=self._rooms.dispatch_open(),
        )

    # -- keeping house ---------------------------------------------------------------------------------------------

    async def fetch(self, uid: str) -> pendingtask.PendingTask | None:
        """The whole task from the API, content included; None when it is gone."""
        entry = self._tasks.entry(uid)
        if entry is None:
            return None
        try:
            raw, whole = await self._effects.fetch(entry.namespace, entry.name)
        except kube.NotFound:
            self._forget(uid, 0)
            return None
        if raw["metadata"]["uid"] != uid:
            self._forget(uid, 0)
            return None
        return whole

    async def _reread(self, task: pendingtask.PendingTask) -> None:
        meta = task.metadata
        try:
            raw = await self._api.get(kube.TASKS, meta.namespace, meta.name)
        except kube.NotFound:
            self._forget(meta.uid, 0)
            return
        if raw["metadata"]["uid"] != meta.uid:
            self._forget(meta.uid, 0)
            return
        self._take(raw)

    def _take(self, raw: kube.Object) -> bool:
        """Into the index, or out of it when it is finished. False for what is not news. Raises ValidationError."""
        if (raw.get("status") or {}).get("phase") in TERMINAL:
            self._forget(raw["metadata"]["uid"], index.version(raw))
            return False
        return self._tasks.observe(raw)

    def _forget(self, uid: str, at: int) -> None:
        self._tasks.forget(uid, at)
        self._workloads.forget_task(uid)
        self._observed.pop(uid, None)
        self._rooms.leave(uid)
        self._rooms.settle(uid)
        self._work.forget(uid)
        if self.qualifier is not None:
            self.qualifier.cancel(uid)
        self.call_rooms()

    def _later(self, uid: str, seconds: float) -> None:
        entry = self._tasks.entry(uid)
        if entry is not None:
            self._work.wake(uid, entry.order, self._monotonic() + seconds)

    def _refill(self) -> None:
        """The bound of the queue turned keys away: now that it is empty, everything is looked at once more."""
        if self._work.overflowed and not len(self._work):
            self._work.overflowed = False
            for uid in self._tasks:
                self.enqueue(uid)

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        depth = [0, 0]
        for rank in self._work.depth():
            depth[order.Order(*rank).lane] += 1
        self._metrics.queue_depth.labels("foreground").set(depth[0])
        self._metrics.queue_depth.labels("background").set(depth[1])
        self._metrics.queue_sleeping.set(self._work.sleeping)
        for room in Room:
            self._metrics.waiting.labels(room.value).set(self._rooms.waiting(room))
        for phase in index.WAITING:
            for lane, since in zip(("foreground", "background"), self._tasks.oldest(phase), strict=True):
                age = 0.0 if since is None else max(0.0, self._wall().timestamp() - since)
                self._metrics.oldest.labels(lane, phase.value).set(age)
        for phase in Phase:
            self._metrics.tasks.labels(phase.value).set(self._tasks.count(phase))
        book = self._rooms.slots()
        free = sum(number for _, number in book.free)
        self._metrics.slots.labels("total").set(book.total)
        self._metrics.slots.labels("free").set(free)
        self._metrics.qualifying.set(self._rooms.qualifying(""))
        self._metrics.breaker.set(0 if self._rooms.dispatch_open() else 1)
        self._metrics.preemption_immune.set(self._rooms.immune())


def _booked(task: pendingtask.PendingTask, made: Decision) -> str:
    """The backend whose slot is booked once `made` is written, which may say only what is new."""
    before = task.status.dispatch.backend if task.status.dispatch else ""
    return str((made.status_patch.get("dispatch") or {}).get("backend", before))
