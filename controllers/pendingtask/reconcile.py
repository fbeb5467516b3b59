"""The shell run `decide`: persist the intent, perform the effect, observe, persist.

One look at one task is a few rounds of: snapshot -> decide as far as can be foreseen (`coalesce`) -> persist with a
resourceVersion precondition (`writer`) -> effects (`performer`).
A write that loses (409) is followed by a reading from the API, never from the index. A uid is looked at by one worker
at a time. Nothing here decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto

import structlog

import kube
from controllers import admission, metrics
from controllers.pendingtask import cache, failures, gauges, status_writer, task_index, transitions, workloads
from controllers.pendingtask.decide import decide
from controllers.pendingtask.decision import Decision, WaitFor
from controllers.pendingtask.effects import executor, ingest
from controllers.pendingtask.observed import Limits, ObservedState, Slots
from controllers.pendingtask.transitions import Batch
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT, TERMINAL, Phase

log = structlog.get_logger(__name__)

MAX_ROUNDS = 8
AWAY_SECONDS = 2.0
"""Pause after the Kubernetes API or MongoDB did not answer in the middle of a look."""
READING_SECONDS = 3.0
"""A reading that takes longer is told: until then the task's phase is what it was."""
_WAITS_FOR = {Phase.QUALIFYING: WaitFor.QUALIFIER, Phase.DISPATCHED_GPU: WaitFor.GPU}


class Carried(Enum):
    """What became of a decision."""

    SETTLED = auto()
    """Nothing more to do until something changes."""
    AGAIN = auto()
    """Something new is to be decided about."""
    LOST = auto()
    """The write lost to a newer version, which has been read."""


class Reconciler:
    """The workers. `handlers` is what the watch calls.

    `admitted` knows what namespaces may have, None: anything. `backend_gone_in` answers the seconds until the
    GpuBackend of that name is given up, None while it is fine; `traced` the id of a task's trace, "" for none; `judge`
    decides.
    """

    def __init__(
        self,
        limits: Limits,
        cached: cache.TaskCache,
        *,
        reader: workloads.WorkloadReader,
        qualifier: ingest.Qualifier,
        readings: ingest.Readings,
        written: status_writer.Writer,
        effects: executor.EffectExecutor,
        failing: failures.Failures,
        admitted: admission.Admission | None,
        measured: metrics.Metrics,
        backend_gone_in: Callable[[str], float | None],
        traced: Callable[[str], str],
        wall: Callable[[], datetime],
        monotonic: Callable[[], float],
        judge: transitions.Decide = decide,
    ) -> None:
        self._limits, self._cache, self._reader = limits, cached, reader
        self._qualifier, self._readings, self._writer, self._executor = qualifier, readings, written, effects
        self._failures, self._admission = failing, admitted
        self._metrics, self._backend_gone_in, self._traced = measured, backend_gone_in, traced
        self._wall, self._monotonic, self._judge = wall, monotonic, judge
        self.handlers = cache.EventHandlers(cached, backend_gone_in)
        self.may_act = asyncio.Event()
        """Set once the lease is held; losing it ends the process."""

    async def work(self) -> None:
        """One worker: look at tasks until cancelled."""
        await self.may_act.wait()
        while True:
            uid = await self._cache.work.get()
            structlog.contextvars.clear_contextvars()
            started, unsure = self._monotonic(), False
            try:
                await self._look(uid)
            except (errors.Operational, kube.NotFound) as error:
                # The write may have been made and only its answer lost: a claim stays until the task is seen again.
                unsure = True
                log.info("looked in vain", uid=uid, reason=error.message)
                self._cache.later(uid, AWAY_SECONDS)
            except Exception as error:
                # The edge of a look: one task that trips a bug of ours must not stop the others.
                log.exception("looking at a task failed", uid=uid)
                self._cache.later(uid, await self._failures.failed(uid, error))
            else:
                self._failures.decided(uid)
            finally:
                if not unsure and self._cache.scheduler.settle(uid):
                    self._cache.admit_waiting()
                self._cache.work.done(uid)
                self._metrics.reconcile.observe(self._monotonic() - started)
                self._cache.refill()
            # Most looks ask nobody anything. Without a turn for the wire between two of them, ten thousand tasks that
            # are found at a start would keep answers, watches and probes waiting for seconds.
            await asyncio.sleep(0)

    async def _look(self, uid: str) -> None:
        if await self._failures.report(uid):
            return
        for _ in range(MAX_ROUNDS):
            entry = self._cache.tasks.entry(uid)
            task = self._cache.tasks.get(uid)
            if entry is None or task is None:
                return
            self._bind(task)
            run = await self._reader.of(task)
            await self._executor.equip(task, run.job)
            if self._cache.tasks.entry(uid) is not entry:
                continue  # it changed while the API was asked
            state = self._world(task, run)
            batch = transitions.batched(task, state, self._wall(), judge=self._judge)
            carried = await self._carry_out(task, entry, batch)
            if carried is Carried.LOST:
                continue
            if state.observed is not None and self._cache.observations.get(uid) is state.observed:
                del self._cache.observations[uid]
            if carried is Carried.SETTLED:
                return
        self._cache.enqueue(uid)

    @staticmethod
    def _bind(task: pendingtask.PendingTask) -> None:
        """Every line that is logged from here on in this look, also by others, says which task it is about."""
        meta, told = task.metadata, {"trace_id": task.status.trace_id} if task.status.trace_id else {}
        structlog.contextvars.bind_contextvars(
            uid=meta.uid, task=meta.name, namespace=meta.namespace, correlation_id=task.spec.correlation_id, **told
        )

    async def _carry_out(self, task: pendingtask.PendingTask, entry: task_index.Entry, batch: Batch) -> Carried:
        """Persist and perform."""
        uid, made = task.metadata.uid, batch.decision
        self._cache.scheduler.leave(uid)
        if transitions.reads_first(task, batch) and self._reads(task):
            return Carried.SETTLED
        if made.phase in _WAITS_FOR:
            self._cache.scheduler.claim(uid, _WAITS_FOR[made.phase], _booked(task, made))
        raw: kube.Object | None = None
        if made.status_patch:
            raw = await self._writer.persist(task, batch)
            if raw is None:
                return Carried.LOST
        again = batch.more
        for effect in made.effects:
            again = await self._executor.perform(task, effect, raw) or again
        if made.phase in TERMINAL:
            return Carried.SETTLED
        if made.wait_for is not None:
            self._cache.scheduler.enter(uid, made.wait_for, entry.order)
            self._cache.admit_waiting()
            return Carried.SETTLED
        if made.requeue_after is not None:
            self._cache.later(uid, made.requeue_after)
            if task.status.phase is Phase.READY_FOR_GPU:
                self._cache.admit_waiting()  # it does not take what it may have been called for
            return Carried.SETTLED
        return Carried.AGAIN if again else Carried.SETTLED

    def _reads(self, task: pendingtask.PendingTask) -> bool:
        """The knowledge base reads while nothing is written yet; False once that takes too long to be kept quiet.

        A run that is traced is claimed first: its trace begins with that.
        """
        meta = task.metadata
        if self._traced(meta.uid) and not task.status.trace_id:
            return False
        taken = self._readings.seconds(meta.uid)
        if taken is None:
            taken = 0.0
            raw = self._cache.contents.pop(meta.uid, meta.resource_version)
            self._qualifier.start(meta.uid, raw, self._cache.observations.get(meta.uid))
        if taken >= READING_SECONDS:
            return False
        self._cache.later(meta.uid, READING_SECONDS - taken)
        return True

    def _world(self, task: pendingtask.PendingTask, run: workloads.RunState) -> ObservedState:
        uid, dispatch = task.metadata.uid, task.status.dispatch
        runs = task.status.phase in HOLDS_SLOT
        users = self._cache.scheduler.users(uid)
        return ObservedState(
            limits=self._limits,
            qualifying=self._cache.scheduler.qualifying(uid),
            working=uid in self._readings,
            observed=self._cache.observations.get(uid),
            job=run.job,
            strays=self._cache.workloads.strays(task),
            pods=self._cache.workloads.pods(uid),
            recorded=run.recorded,
            slots=Slots() if runs else self._cache.scheduler.slots(uid),
            claimant=self._cache.scheduler.claimant(uid),
            backend_gone_in=self._backend_gone_in(dispatch.backend) if runs and dispatch is not None else None,
            user_active=users.active,
            last_user=users.last,
            in_doubt_since=users.in_doubt_since,
            dispatch_open=self._cache.scheduler.dispatch_open(),
            dispatch_cause=self._cache.scheduler.breaker.cause,
            waits=self._cache.scheduler.reasons_to_write.get(uid),
            refusal=None if self._admission is None else self._admission.refuses(task),
        )

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        gauges.show(self._cache, self._metrics, self._wall())


def _booked(task: pendingtask.PendingTask, made: Decision) -> str:
    """The backend whose slot is booked once `made` is written, which may say only what is new."""
    before = task.status.dispatch.backend if task.status.dispatch else ""
    return str((made.status_patch.get("dispatch") or {}).get("backend", before))
