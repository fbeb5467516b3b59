"""The reconciler, the I/O shell around `decide`: persist the intent, perform the effect, observe, persist.

One reconciliation of one task is a few rounds of: snapshot -> decide, transitions batched (`transitions`) -> persist
with a resourceVersion precondition (`status_writer`) -> effects (`effects.executor`). After a lost write (409) the task
is read from the API, never from the index. One worker at a time reconciles a uid. Nothing here decides.
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
from controllers.pendingtask.effects import executor, ingest, readings
from controllers.pendingtask.observed import Limits, ObservedState, Slots
from controllers.pendingtask.transitions import Batch
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT, TERMINAL, Phase

log = structlog.get_logger(__name__)

MAX_ROUNDS = 8
AWAY_SECONDS = 2.0
"""Pause after the Kubernetes API or MongoDB did not answer during a reconciliation."""
READING_SECONDS = 3.0
"""A reading that takes longer is recorded in the status; until then the phase is unchanged."""
_WAITS_FOR = {Phase.QUALIFYING: WaitFor.QUALIFIER, Phase.DISPATCHED_GPU: WaitFor.GPU}


class Carried(Enum):
    """The outcome of carrying out a decision."""

    SETTLED = auto()
    """Nothing more to do before the next event."""
    AGAIN = auto()
    """A new decision is due."""
    LOST = auto()
    """The write lost to a newer version, which has been read."""


class Reconciler:
    """The workers. `handlers` is what the watch calls.

    `admitted` has the limits of namespaces; None: no limits. `backend_gone_in` returns the seconds until the GpuBackend
    of that name is given up, None while it is fine. `traced` returns the id of a task's trace, "" for none. `judge`
    decides.
    """

    def __init__(
        self,
        limits: Limits,
        cached: cache.TaskCache,
        *,
        reader: workloads.WorkloadReader,
        qualifier: ingest.Qualifier,
        readings: readings.Readings,
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

    async def work(self) -> None:
        """One worker: reconcile tasks until cancelled."""
        while True:
            uid = await self._cache.work.get()
            structlog.contextvars.clear_contextvars()
            started, unsure = self._monotonic(), False
            try:
                await self._reconcile(uid)
            except (errors.Operational, kube.NotFound) as error:
                # The write may have succeeded and only its answer is lost: a claim stays until the next reconciliation.
                unsure = True
                log.info("reconciliation not completed", uid=uid, reason=error.message)
                self._cache.later(uid, AWAY_SECONDS)
            except Exception as error:
                # The edge of a reconciliation: a bug that one task triggers must not stop the others.
                log.exception("reconciliation failed", uid=uid)
                self._cache.later(uid, await self._failures.failed(uid, error))
            else:
                self._failures.decided(uid)
            finally:
                if not unsure and self._cache.scheduler.settle(uid):
                    self._cache.admit_waiting()
                self._cache.work.done(uid)
                self._metrics.reconcile.observe(self._monotonic() - started)
                self._cache.refill()
            # Most reconciliations make no request. Without a turn for I/O between two of them, ten thousand tasks at a
            # start would delay answers, watches and probes by seconds.
            await asyncio.sleep(0)

    async def _reconcile(self, uid: str) -> None:
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
            state = self._observed_state(task, run)
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
        """Every log line of this reconciliation, also of other modules, names the task."""
        meta, traced = task.metadata, {"trace_id": task.status.trace_id} if task.status.trace_id else {}
        structlog.contextvars.bind_contextvars(
            uid=meta.uid, task=meta.name, namespace=meta.namespace, correlation_id=task.spec.correlation_id, **traced
        )

    async def _carry_out(self, task: pendingtask.PendingTask, entry: task_index.Entry, batch: Batch) -> Carried:
        """Persist and perform."""
        uid, made = task.metadata.uid, batch.decision
        self._cache.scheduler.leave(uid)
        if transitions.reads_first(task, batch) and self._reads(task):
            return Carried.SETTLED
        delay = transitions.write_delay(task, batch, self._wall()) if self._cache.work.busy() else 0.0
        if delay > 0.0:
            if made.wait_for is not None:
                self._cache.scheduler.enter(uid, made.wait_for, entry.order)
                self._cache.admit_waiting()
            self._cache.later(uid, delay)
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
                self._cache.admit_waiting()  # it may have been admitted and does not take its slot
            return Carried.SETTLED
        return Carried.AGAIN if again else Carried.SETTLED

    def _reads(self, task: pendingtask.PendingTask) -> bool:
        """Start the reading without a write; False once it has taken `READING_SECONDS` and the phase must be written.

        A traced task is claimed first: its trace starts with the claim.
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

    def _observed_state(self, task: pendingtask.PendingTask, run: workloads.RunState) -> ObservedState:
        uid, dispatch, retry = task.metadata.uid, task.status.dispatch, task.status.retry
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
            first_over=retry is not None and bool(retry.waits_for) and not self._cache.tasks.undecided(retry.waits_for),
            refusal=None if self._admission is None else self._admission.refuses(task),
            ignored_flags=admission.flags_of(self._admission, task).ignored,
        )

    def gauges(self) -> None:
        """Bring the gauges up to date; called before a scrape."""
        gauges.show(self._cache, self._metrics, self._wall())


def _booked(task: pendingtask.PendingTask, made: Decision) -> str:
    """The backend whose slot is booked once `made` is written; the patch may contain only changed fields."""
    before = task.status.dispatch.backend if task.status.dispatch else ""
    return str((made.status_patch.get("dispatch") or {}).get("backend", before))
