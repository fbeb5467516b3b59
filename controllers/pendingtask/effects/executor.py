"""The effect executor: performs the effects of a persisted decision and records their observations.

Every effect can be repeated: names are deterministic, patches idempotent. `ClusterEffects` performs effects on the
cluster and on the task memory. `EffectExecutor` dispatches an effect to it or to the qualifier, stores the observation
in the task cache and reports dispatches to the circuit breaker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import structlog

import kube
from controllers import admission, metrics
from controllers.memory import document, mongo
from controllers.pendingtask import cache, decision, job, views, warm_pool
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.effects import copies, ingest, run_token
from controllers.pendingtask.observed import Ingested, JobView, Observation, TokenNotWritten, Trouble, trouble
from controllers.pendingtask.policy import dispatched
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT, Phase
from kube import lease

log = structlog.get_logger(__name__)


class OutcomeUnknown(errors.Operational):
    """It is not known whether the run's Job works: a request about it was not answered."""


class ClusterEffects:
    """Performs single effects and returns their observations. `token` returns that of the present lease."""

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
        pool: warm_pool.WarmPool | None = None,
        admitted: admission.Admission | None = None,
    ) -> None:
        self._pool = pool
        self._api, self._memory, self._workloads, self._template = api, memory, workloads, template
        self._namespace, self._tokens = workloads.namespace, tokens
        self._clock, self._created, self._token = clock, created, token
        self._admission = admitted

    async def launch(
        self, whole: pendingtask.PendingTask, wanted: decision.Launch, *, again: bool = True
    ) -> Trouble | TokenNotWritten | None:
        """Memory first, then the Job, then its token: the Job owns the Secret, and the pod waits for it.

        The Job is that of a warm pod if there is one, which asks for its token itself; else it is created. An existing
        Job of this run is success; if the operator has suspended it, it is resumed. `whole` is the task as the API has
        just served it, content included. `again`: it may have been launched before. Raises `OutcomeUnknown`, and errors
        of MongoDB and the API before the Job exists.
        """
        await self._memory.write(whole.metadata.uid, document.of_task(whole, wanted.attempt, self._clock()))
        run = await self._warm(whole, wanted, again=again)
        if run is not None:
            return await self._take_up(whole, wanted, run)
        chosen = admission.flags_of(self._admission, whole).values
        body = job.manifest(whole, wanted.attempt, wanted.job_name, self._template, token=self._token(), chosen=chosen)
        try:
            made = await self._api.create(kube.JOBS, self._namespace, body)
        except (kube.AlreadyExists, kube.Unavailable) as error:
            return await self._existing(whole, wanted, error)
        self._created()
        self._workloads.observe_job(made)
        return await self.equip(whole, views.job_view(made))

    async def _warm(self, task: pendingtask.PendingTask, wanted: decision.Launch, *, again: bool) -> kube.Object | None:
        """The warm Job that this run has, or gets now; None: one is created for it."""
        known = self._workloads.job(wanted.job_name)
        if known is not None:
            # One that was created for it is found by its name.
            if not known.warm:
                return None
            if not self._unreachable(known):
                return await self._read(known.name)
            await self._discard(task, known)
            return None
        if self._pool is None or not self._pool.size:
            return None
        try:
            if again:
                # A claim may have been answered to a former leader, or not at all.
                claimed = await loads.claimed(self._api, self._namespace, task.metadata.uid, wanted.attempt)
                if claimed is not None or await self._read(wanted.job_name) is not None:
                    return claimed
            if not self._tokens.usable(task, wanted.attempt):
                return None  # a created Job says so (`equip`), and starts once the keys are usable
            return await self._pool.claim(task, wanted.attempt)
        except kube.Forbidden:
            raise
        except kube.Unavailable as error:
            message = f"whether a warm pod has run {wanted.attempt} is not known: {error.message}"
            raise OutcomeUnknown(message) from error

    def _unreachable(self, run: JobView) -> bool:
        """Whether the next pod of a suspended warm Job would ask in vain: without a pool, its NetworkPolicy and the
        right to annotate it are gone, too."""
        return run.warm and run.marked and run.suspended and (self._pool is None or not self._pool.size)

    async def _discard(self, task: pendingtask.PendingTask, run: JobView) -> None:
        await self._api.delete(kube.JOBS, self._namespace, run.name, uid=run.uid)
        self._workloads.forget_job(task.metadata.uid, run.name)

    async def _read(self, name: str) -> kube.Object | None:
        try:
            return await self._api.get(kube.JOBS, self._namespace, name)
        except kube.NotFound:
            return None

    def lacks_token(self, task: pendingtask.PendingTask, run: JobView) -> bool:
        """Whether the token of that run is to be written now."""
        return self._tokens.lacks(run) and not dispatched.token_postponed(task, self._clock())

    async def equip(self, task: pendingtask.PendingTask, run: JobView) -> TokenNotWritten | None:
        """Write a new token for a run that starts or resumes; returns the failure, if any."""
        try:
            await self._tokens.issue(task, run)
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            # An error of the operator's keys is no error of the task: it is retried. Only a refusal by the API is
            # permanent.
            permanent = isinstance(error, kube.Refused)
            log.warning("the run's token is not written", job=run.name, reason=error.message)
            return TokenNotWritten(replace(self.trouble(error), operational=not permanent))
        return None

    def trouble(self, error: errors.JervisError) -> Trouble:
        """An error of a dispatch. Forbidden refers to the release's namespace, where all runs are."""
        found = trouble(error)
        if not isinstance(error, kube.Forbidden):
            return found
        return replace(found, remedy=f"See the quota or policy of the release's namespace {self._namespace}.")

    async def _existing(
        self, task: pendingtask.PendingTask, wanted: decision.Launch, error: errors.JervisError
    ) -> Trouble | TokenNotWritten | None:
        """The Job exists already, or may exist although the answer to its creation was lost or an error.

        Its pod would take the booked slot, which no other run may get then. Raises `error` if there is no such Job,
        `OutcomeUnknown` if the API does not answer, `kube.Forbidden` if the Job stays suspended.
        """
        known, unknown = isinstance(error, kube.AlreadyExists), f"whether Job {wanted.job_name} works is not known"
        gone = Trouble(f"Job {wanted.job_name} was there and is gone", operational=True)
        try:
            made = await self._api.get(kube.JOBS, self._namespace, wanted.job_name)
        except kube.NotFound:
            if known:  # Deleted between the two requests; the task itself may exist.
                return gone
            raise error from None
        except kube.Unavailable as away:
            if isinstance(error, kube.Forbidden) and isinstance(away, kube.Forbidden):
                raise error from None  # a refusal is an answer: nothing was created
            raise OutcomeUnknown(f"{unknown}: {away.message}") from error
        if not known:
            self._created()
        try:
            return await self._take_up(task, wanted, made)
        except kube.NotFound:
            return gone
        except kube.Forbidden:
            raise
        except (kube.Unavailable, kube.Conflict) as away:
            raise OutcomeUnknown(f"{unknown}: {away.message}") from error

    async def _take_up(
        self, task: pendingtask.PendingTask, wanted: decision.Launch, made: kube.Object
    ) -> Trouble | TokenNotWritten | None:
        """The Job of that name, if it is this run's; resumed if the operator suspended it."""
        foreign = _foreign(made, self._namespace, task.metadata.uid, wanted.attempt)
        if foreign is not None:
            return foreign
        if made["metadata"].get("deletionTimestamp"):
            return Trouble(f"Job {made['metadata']['name']} is still being deleted", operational=True)
        lacking = await self.equip(task, views.job_view(made))
        if views.job_view(made).marked:
            made = await self._resume(task, views.job_view(made))
        self._workloads.observe_job(made)
        return lacking

    async def remember(self, whole: pendingtask.PendingTask) -> None:
        """The user's messages for a run that works. Raises errors of MongoDB."""
        await self._memory.write(whole.metadata.uid, document.of_messages(whole, self._clock()))

    async def suspend(self, task: pendingtask.PendingTask, wanted: decision.SuspendJob) -> None:
        """Suspend the Job; its pod gets SIGTERM."""
        try:
            self._workloads.observe_job(await self._suspend(wanted.job_name, suspend=True))
        except kube.NotFound:
            self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def resume(self, task: pendingtask.PendingTask, wanted: decision.ResumeJob) -> None:
        """Resume the Job, with a new token for its new deadline."""
        try:
            known = self._workloads.job(wanted.job_name)
            if known is None:
                self._workloads.observe_job(await self._suspend(wanted.job_name, suspend=False))
                return
            if self._unreachable(known):
                await self._discard(task, known)  # the next attempt goes on from the checkpoint
                return
            await self.equip(task, known)
            self._workloads.observe_job(await self._resume(task, known))
        except kube.NotFound:
            self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def delete(self, task: pendingtask.PendingTask, wanted: decision.DeleteJob) -> None:
        """Remove the Job; its pod gets SIGTERM."""
        known = self._workloads.job(wanted.job_name)
        uid = known.uid if known is not None else None
        await self._api.delete(kube.JOBS, self._namespace, wanted.job_name, uid=uid)
        self._workloads.forget_job(task.metadata.uid, wanted.job_name)

    async def expire(self, task: pendingtask.PendingTask, wanted: decision.ExpireJob) -> None:
        """Start the Job's time to live; a Job that is gone already is no error."""
        patch = job.expiry(wanted.ttl_seconds, self._token())
        try:
            await self._api.merge(kube.JOBS, self._namespace, wanted.job_name, patch)
        except kube.NotFound:
            log.debug("job gone before its time to live began", job=wanted.job_name)

    async def copy(self, task: pendingtask.PendingTask, wanted: decision.Copy) -> Observation:
        """The execution copy of a recurring task; a second one for the same moment is refused by its name."""
        return await copies.make(self._api, task, wanted.due)

    async def recall(self, task: pendingtask.PendingTask, wanted: decision.Recall) -> Observation:
        """The execution copy of a recurring task's latest run that has one."""
        return await copies.latest(self._api, task, wanted.most)

    async def _resume(self, task: pendingtask.PendingTask, run: JobView) -> kube.Object:
        """Kubernetes counts the deadline anew: that of a warm Job no longer has the time that it waited."""
        patch = job.suspension(False, self._token())
        if run.warm:
            patch["spec"]["activeDeadlineSeconds"] = job.deadline(task, self._template)
        return await self._api.merge(kube.JOBS, self._namespace, run.name, patch)

    async def _suspend(self, name: str, *, suspend: bool) -> kube.Object:
        return await self._api.merge(kube.JOBS, self._namespace, name, job.suspension(suspend, self._token()))


def _foreign(found: kube.Object, namespace: str, uid: str, attempt: int) -> Trouble | None:
    """The error if the Job of that name is not this run's; None if it is."""
    if views.believed(found, namespace) and views.task_uid(found) == uid and views.attempt(found) == attempt:
        return None
    return Trouble(
        f"a Job called {found['metadata']['name']} exists and is not this task's run",
        operational=False,
        field="metadata.name",
        remedy="Delete or rename that Job, then approve another try.",
    )


_MOST_REMEMBERED = 1000
AGAIN_SECONDS = 2.0
"""Delay after a request about a run's Job was not answered."""


class EffectExecutor:
    """Performs effects: `on_cluster` has those on the cluster, `qualifier` those on the knowledge base."""

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
        self._remembered: dict[str, tuple[int, int]] = {}
        """Of tasks by uid: attempt and number of messages that were written last."""

    async def perform(self, task: pendingtask.PendingTask, effect: decision.Effect, raw: kube.Object | None) -> bool:
        """Perform one effect; True if a decision about its outcome is due.

        `raw` is the whole task, content included, if the intent has just been written: it is not read again.
        """
        uid = task.metadata.uid
        match effect:
            case decision.Ingest(after):
                found = self._cache.observations.get(uid)
                if isinstance(found, Ingested | Trouble) and found.generation in (None, task.metadata.generation):
                    return True  # the reading began before this write and has ended meanwhile
                self._qualifier.start(uid, raw, found, after)
                return False
            case decision.Launch():
                return await self._launch(task, effect, raw)
            case decision.Remember():
                await self._remember(task, effect)
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
        """Write the run's token if it lacks one; a failure becomes an observation, since the pod waits for the Secret.

        A run whose pod works has an older token: a failed renewal is repeated at the next reconciliation.
        """
        uid, phase = task.metadata.uid, task.status.phase
        if run is None or phase not in HOLDS_SLOT or uid in self._cache.observations:
            return
        if not self._effects.lacks_token(task, run):
            return
        if phase is not Phase.DISPATCHED_GPU:
            await self._effects.equip(task, run)
            return
        self._cache.scheduler.breaker.started(self._monotonic())
        found = await self._effects.equip(task, run)
        self._count(found.trouble if found is not None else None)
        if found is not None:
            self._cache.observations[uid] = found

    def _count(self, shared: Trouble | None) -> None:
        """A dispatch has ended. `shared`: an error that other tasks would have too; None without one."""
        breaker = self._cache.scheduler.breaker
        if shared is not None and shared.operational:
            breaker.failed(self._monotonic(), shared.remedy or "")
        else:
            breaker.succeeded()

    async def _remember(self, task: pendingtask.PendingTask, wanted: decision.Remember) -> None:
        uid, known = task.metadata.uid, self._remembered
        if known.get(uid) == (wanted.attempt, len(task.spec.messages)):
            return
        whole = await self._cache.fetch(uid)
        if whole is None or whole.metadata.deletion_timestamp is not None or whole.status.attempt != wanted.attempt:
            return
        try:
            await self._effects.remember(whole)
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            log.warning("messages did not reach the run", task=task.metadata.name, reason=error.message)
            return
        if len(known) >= _MOST_REMEMBERED:
            known.clear()  # they are written once more
        known[uid] = (wanted.attempt, len(whole.spec.messages))

    async def _launch(self, task: pendingtask.PendingTask, wanted: decision.Launch, raw: kube.Object | None) -> bool:
        """Launch the run. The circuit breaker counts it once the task has been read."""
        uid, breaker = task.metadata.uid, self._cache.scheduler.breaker
        # A task that is gone, or that its namespace does not let us read, is no failed dispatch.
        whole = await self._cache.fetch(uid) if raw is None else pendingtask.PendingTask.model_validate(raw)
        if whole is None or whole.metadata.deletion_timestamp is not None:
            return whole is not None
        breaker.started(self._monotonic())
        found: Trouble | TokenNotWritten | None
        try:
            # An attempt that the intent has just begun was launched by no process before.
            found = await self._effects.launch(whole, wanted, again=task.status.attempt >= wanted.attempt)
        except lease.Fenced:
            raise
        except OutcomeUnknown as error:
            # The task keeps its slot, since the Job may use it, until the API answers.
            log.warning("a dispatch was not answered", task=task.metadata.name, reason=error.message)
            breaker.failed(self._monotonic())
            self._cache.later(uid, AGAIN_SECONDS)
            return False
        except errors.JervisError as error:
            found = self._effects.trouble(error)
            self._count(found)
        else:
            self._count(found.trouble if isinstance(found, TokenNotWritten) else None)
        if found is not None:
            self._cache.observations[uid] = found
        return True
