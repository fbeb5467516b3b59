"""Performs the effects of a decision once it is persisted, and notes what came of them."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from controllers import kube, lease, metrics
from controllers.pendingtask import attention, decision, effects, qualification
from controllers.pendingtask.world import Ingested, JobView, Trouble, trouble
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT

log = structlog.get_logger(__name__)

AGAIN_SECONDS = 2.0
"""After a token could not be written, or a Job's creation was not answered."""


class Performer:
    """`performer` has the effects on the cluster, `qualifier` those on the knowledge base."""

    def __init__(
        self,
        performer: effects.Effects,
        qualifier: qualification.Qualifier,
        known: attention.Attention,
        *,
        measured: metrics.Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._effects, self._qualifier, self._known = performer, qualifier, known
        self._metrics, self._monotonic = measured, monotonic

    async def perform(self, task: pendingtask.PendingTask, effect: decision.Effect, raw: kube.Object | None) -> bool:
        """Perform one effect; True when its outcome is to be decided about.

        `raw` is the whole task, content included, when the intent has just been written: it need not be read again.
        """
        uid = task.metadata.uid
        match effect:
            case decision.Ingest():
                found = self._known.observations.get(uid)
                if isinstance(found, Ingested | Trouble) and found.generation in (None, task.metadata.generation):
                    return True  # it began before this was written, and has ended meanwhile
                self._qualifier.start(uid, raw, found)
                return False
            case decision.Launch():
                return await self._launch(task, effect, raw)
            case decision.Copy():
                self._known.observations[uid] = await self._effects.copy(task, effect)
                return True
            case decision.Recall():
                self._known.observations[uid] = await self._effects.recall(task, effect)
                return True
            case decision.SuspendJob():
                await self._effects.suspend(task, effect)
                waited = self._known.rooms.waited(uid)
                if waited is not None:
                    self._metrics.preemption_issued.observe(waited)
            case decision.ResumeJob():
                await self._effects.resume(task, effect)
            case decision.DeleteJob():
                await self._effects.delete(task, effect)
            case decision.ExpireJob():
                await self._effects.expire(task, effect)
        return False

    async def equip(self, task: pendingtask.PendingTask, run: JobView | None) -> None:
        """A run has its token, or gets it in a moment: its pod waits for the Secret."""
        if run is None or task.status.phase not in HOLDS_SLOT:
            return
        try:
            await self._effects.equip(task, run)
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            log.warning("the run's token is not written yet", job=run.name, reason=error.message)
            self._known.later(task.metadata.uid, AGAIN_SECONDS)

    async def _launch(self, task: pendingtask.PendingTask, wanted: decision.Launch, raw: kube.Object | None) -> bool:
        """Dispatching is what the circuit breakers count, by cause."""
        breakers, namespace = self._known.rooms.breaker, task.metadata.namespace
        breakers.started(self._monotonic(), namespace)
        try:
            found = await self._effects.launch(task, wanted, raw)
        except lease.Fenced:
            raise
        except kube.NotFound:
            self._known.workloads.abandon(task.metadata.uid)
            self._known.forget(task.metadata.uid, 0)
            return False
        except effects.Untold as error:
            # The task keeps the slot, which the Job may have; only an answer of the API ends that.
            log.warning("a dispatch was not answered", task=task.metadata.name, reason=error.message)
            breakers.failed(self._monotonic())
            self._known.later(task.metadata.uid, AGAIN_SECONDS)
            return False
        except errors.JervisError as error:
            found = trouble(error)
            if isinstance(error, kube.Forbidden):
                breakers.refused(self._monotonic(), namespace)
            elif found.operational:
                breakers.failed(self._monotonic())
            else:
                breakers.answered()
        else:
            if isinstance(found, Trouble):
                breakers.answered()
            else:
                breakers.succeeded(namespace)
        if isinstance(found, Trouble):
            self._known.observations[task.metadata.uid] = found
        return True
