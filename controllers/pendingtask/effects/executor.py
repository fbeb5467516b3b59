"""Effects on the cluster and on the task memory. Each can be repeated: names are deterministic, patches idempotent.

Performs the effects of a decision once it is persisted, and notes what came of them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import structlog

import kube
from controllers import metrics
from controllers.memory import document, mongo
from controllers.pendingtask import cache, decision, job, views
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.effects import copies, ingest, run_token
from controllers.pendingtask.observed import Ingested, JobView, Observation, Trouble, trouble
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT
from kube import lease

log = structlog.get_logger(__name__)


class Untold(errors.Operational):
    """Whether the Job was created is not known: neither that nor the question was answered."""


class ClusterEffects:
    """Performs what a decision asks for and reports what came of it. `token` is that of the lease that is held."""

    def __init__(
        self,
        api: kube.Kube,
        memory: mongo.Memory,
        workloads: loads.Workloads,
        template: job.Template,
        *,
        tokens: run_token.RunTokens,
        clock: Callable[[], datetime],
        created: Callable[[], None],
        token: Callable[[], lease.FencingToken],
    ) -> None:
        self._api, self._memory, self._workloads, self._template = api, memory, workloads, template
        self._namespace, self._tokens = workloads.namespace, tokens
        self._clock, self._created, self._token = clock, created, token

    async def fetch(self, namespace: str, name: str) -> tuple[kube.Object, pendingtask.PendingTask]:
        """The whole task from the API, content included."""
        raw = await self._api.get(kube.TASKS, namespace, name)
        return raw, pendingtask.PendingTask.model_validate(raw)

    async def launch(
        self, task: pendingtask.PendingTask, wanted: decision.Launch, known: kube.Object | None = None
    ) -> Observation | None:
        """Memory first, then the Job, then its token: the Job owns the Secret, and the pod waits for it.

        An existing Job of ours is success; one that we have suspended is resumed.

        `known` is the whole task as the API has just served it; without it the API is asked.
        """
        if known is None:
            known, whole = await self.fetch(task.metadata.namespace, task.metadata.name)
        else:
            whole = pendingtask.PendingTask.model_validate(known)
        if known["metadata"]["uid"] != task.metadata.uid or known["metadata"].get("deletionTimestamp"):
            return None
        await self._memory.write(task.metadata.uid, document.of_task(whole, wanted.attempt, self._clock()))
        body = job.manifest(whole, wanted.attempt, wanted.job_name, self._template, token=self._token())
        try:
            made = await self._api.create(kube.JOBS, self._namespace, body)
            self._created()
        except kube.AlreadyExists:
            try:
                return await self._take_up(task, wanted)
            except kube.NotFound:
                # Deleted between the two requests; about the task itself this says nothing.
                return Trouble(f"Job {wanted.job_name} was there and is gone", operational=True)
        except kube.Unavailable as error:
            return await self._unheard(task, wanted, error)
        self._workloads.observe_job(made)
        await self._equip(whole, views.job_view(made))
        return None

    async def equip(self, task: pendingtask.PendingTask, run: JobView) -> None:
        """A running Job has its token. Raises `kube.Unavailable`, `kube.Refused`."""
        await self._tokens.ensure(task, run)

    async def _equip(self, task: pendingtask.PendingTask, run: JobView) -> None:
        """A new token for a run that begins or goes on. Without an answer the next look at the task tries again."""
        try:
            await self._tokens.issue(task, run)
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            log.warning("the run's token is not written yet", job=run.name, reason=error.message)

    async def _unheard(
        self, task: pendingtask.PendingTask, wanted: decision.Launch, error: kube.Unavailable
    ) -> Observation | None:
        """The answer to the creation was lost or an error, and the Job may be there all the same: its pod takes the
        booked slot, which nobody else must get then. Raises `error` when there is no such Job, `Untold` when the API
        does not say."""
        try:
            found = await self._take_up(task, wanted)
        except (kube.NotFound, kube.Forbidden):
            raise error from None
        except kube.Unavailable as away:
            raise Untold(f"whether Job {wanted.job_name} was created is not known: {away.message}") from error
        self._created()
        return found

    async def _take_up(self, task: pendingtask.PendingTask, wanted: decision.Launch) -> Observation | None:
        """The Job of that name, if it is ours; resumed when it was us who suspended it. Raises `kube.NotFound`."""
        made = await self._api.get(kube.JOBS, self._namespace, wanted.job_name)
        foreign = _foreign(made, self._namespace, task.metadata.uid, wanted.attempt)
        if foreign is not None:
            return foreign
        if made["metadata"].get("deletionTimestamp"):
            return Trouble(f"Job {wanted.job_name} is still being deleted", operational=True)
        await self._equip(task, views.job_view(made))
        if views.job_view(made).marked:
            made = await self._suspend(wanted.job_name, suspend=False)
        self._workloads.observe_job(made)
        return None

    async def suspend(self, task: pendingtask.PendingTask, wanted: decision.SuspendJob) -> None:
        """Ask the Job to drain."""
        try:
            self._workloads.observe_job(await self._suspend(wanted.job_name, suspend=True))
        except kube.NotFound:
            self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def resume(self, task: pendingtask.PendingTask, wanted: decision.ResumeJob) -> None:
        """Let the Job go on, with a token that lasts as long as it may now."""
        try:
            known = self._workloads.job(wanted.job_name)
            if known is not None:
                await self._equip(task, known)
            self._workloads.observe_job(await self._suspend(wanted.job_name, suspend=False))
        except kube.NotFound:
            self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def delete(self, task: pendingtask.PendingTask, wanted: decision.DeleteJob) -> None:
        """Remove the Job; its pod gets SIGTERM."""
        known = self._workloads.job(wanted.job_name)
        uid = known.uid if known is not None else None
        await self._api.delete(kube.JOBS, self._namespace, wanted.job_name, uid=uid)
        self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def expire(self, task: pendingtask.PendingTask, wanted: decision.ExpireJob) -> None:
        """Start the Job's time to live; a Job that is gone already is fine."""
        patch = job.expiry(wanted.ttl_seconds, self._token())
        try:
            await self._api.merge(kube.JOBS, self._namespace, wanted.job_name, patch)
        except kube.NotFound:
            log.debug("job gone before its time to live began", job=wanted.job_name)

    async def copy(self, task: pendingtask.PendingTask, wanted: decision.Copy) -> Observation:
        """The execution copy of a recurring task; a second one for the same moment is refused by its name."""
        return await copies.make(self._api, task, wanted.due)

    async def recall(self, task: pendingtask.PendingTask, wanted: decision.Recall) -> Observation:
        """The execution copy of a recurring task's latest run that is there."""
        return await copies.latest(self._api, task, wanted.most)

    async def _suspend(self, name: str, *, suspend: bool) -> kube.Object:
        return await self._api.merge(kube.JOBS, self._namespace, name, job.suspension(suspend, self._token()))


def _foreign(found: kube.Object, namespace: str, uid: str, attempt: int) -> Trouble | None:
    """Whose is the Job that has our name?"""
    if views.believed(found, namespace) and views.task_uid(found) == uid and views.attempt(found) == attempt:
        return None
    return Trouble(
        f"a Job called {found['metadata']['name']} exists and is not this task's run",
        operational=False,
        field="metadata.name",
        remedy="Delete or rename that Job, then approve another try.",
    )


log = structlog.get_logger(__name__)

AGAIN_SECONDS = 2.0
"""After a token could not be written, or a Job's creation was not answered."""


class EffectExecutor:
    """`performer` has the effects on the cluster, `qualifier` those on the knowledge base."""

    def __init__(
        self,
        on_cluster: ClusterEffects,
        qualifier: ingest.Qualifier,
        cached: cache.TaskCache,
        *,
        measured: metrics.Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._effects, self._qualifier, self._cache = on_cluster, qualifier, cached
        self._metrics, self._monotonic = measured, monotonic

    async def perform(self, task: pendingtask.PendingTask, effect: decision.Effect, raw: kube.Object | None) -> bool:
        """Perform one effect; True when its outcome is to be decided about.

        `raw` is the whole task, content included, when the intent has just been written: it need not be read again.
        """
        uid = task.metadata.uid
        match effect:
            case decision.Ingest():
                found = self._cache.observations.get(uid)
                if isinstance(found, Ingested | Trouble) and found.generation in (None, task.metadata.generation):
                    return True  # it began before this was written, and has ended meanwhile
                self._qualifier.start(uid, raw, found)
                return False
            case decision.Launch():
                return await self._launch(task, effect, raw)
            case decision.Copy():
                self._cache.observations[uid] = await self._effects.copy(task, effect)
                return True
            case decision.Recall():
                self._cache.observations[uid] = await self._effects.recall(task, effect)
                return True
            case decision.SuspendJob():
                await self._effects.suspend(task, effect)
                waited = self._cache.scheduler.waited(uid)
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
            self._cache.later(task.metadata.uid, AGAIN_SECONDS)

    async def _launch(self, task: pendingtask.PendingTask, wanted: decision.Launch, raw: kube.Object | None) -> bool:
        """Dispatching is what the circuit breakers count, by cause."""
        breakers, namespace = self._cache.scheduler.breaker, task.metadata.namespace
        breakers.started(self._monotonic(), namespace)
        try:
            found = await self._effects.launch(task, wanted, raw)
        except lease.Fenced:
            raise
        except kube.NotFound:
            self._cache.workloads.abandon(task.metadata.uid)
            self._cache.forget(task.metadata.uid, 0)
            return False
        except Untold as error:
            # The task keeps the slot, which the Job may have; only an answer of the API ends that.
            log.warning("a dispatch was not answered", task=task.metadata.name, reason=error.message)
            breakers.failed(self._monotonic())
            self._cache.later(task.metadata.uid, AGAIN_SECONDS)
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
            self._cache.observations[task.metadata.uid] = found
        return True
