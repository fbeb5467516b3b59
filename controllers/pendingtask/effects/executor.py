"""Effects on the cluster and on the task memory. Each can be repeated: names are deterministic, patches idempotent.

Performs the effects of a decision once it is persisted, and notes what came of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import structlog

import kube
from controllers import metrics
from controllers.memory import document, mongo
from controllers.pendingtask import cache, decision, job, views
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.effects import copies, ingest, run_token
from controllers.pendingtask.observed import Ingested, JobView, Observation, TokenNotWritten, Trouble, trouble
from controllers.pendingtask.policy import dispatched
from crds import errors, pendingtask
from crds.phases import HOLDS_SLOT, Phase
from kube import lease

log = structlog.get_logger(__name__)


class OutcomeUnknown(errors.Operational):
    """The run's Job may work, and may not: a request about it was not answered."""


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

    async def launch(self, whole: pendingtask.PendingTask, wanted: decision.Launch) -> Trouble | TokenNotWritten | None:
        """Memory first, then the Job, then its token: the Job owns the Secret, and the pod waits for it.

        An existing Job of ours is success; one that we have suspended is resumed. `whole` is the task as the API has
        just served it, content included. Raises `OutcomeUnknown`, and what MongoDB and the API fail with before there
        is a Job.
        """
        await self._memory.write(whole.metadata.uid, document.of_task(whole, wanted.attempt, self._clock()))
        body = job.manifest(whole, wanted.attempt, wanted.job_name, self._template, token=self._token())
        try:
            made = await self._api.create(kube.JOBS, self._namespace, body)
        except (kube.AlreadyExists, kube.Unavailable) as error:
            return await self._existing(whole, wanted, error)
        self._created()
        self._workloads.observe_job(made)
        return await self.equip(whole, views.job_view(made))

    def lacks_token(self, task: pendingtask.PendingTask, run: JobView) -> bool:
        """Is the token of that run to be written now?"""
        return self._tokens.lacks(run) and not dispatched.token_postponed(task, self._clock())

    async def equip(self, task: pendingtask.PendingTask, run: JobView) -> TokenNotWritten | None:
        """Write a new token for a run that begins or goes on; what came in the way."""
        try:
            await self._tokens.issue(task, run)
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            # What is wrong with our keys is no fault of the task's, whatever the error says of trying again.
            permanent = isinstance(error, kube.Refused)
            log.warning("the run's token is not written", job=run.name, reason=error.message)
            return TokenNotWritten(replace(self.trouble(error), operational=not permanent))
        return None

    def trouble(self, error: errors.JervisError) -> Trouble:
        """An error of a dispatch. What is forbidden is so for the release's namespace, where all runs are."""
        found = trouble(error)
        if not isinstance(error, kube.Forbidden):
            return found
        return replace(found, remedy=f"See the quota or policy of the release's namespace {self._namespace}.")

    async def _existing(
        self, task: pendingtask.PendingTask, wanted: decision.Launch, error: errors.JervisError
    ) -> Trouble | TokenNotWritten | None:
        """The Job is there already; or the answer to its creation was lost or an error, and it may be there all the
        same: its pod takes the booked slot, which no other run must get then. Raises `error` when there is no such Job,
        `OutcomeUnknown` when the API does not say, `kube.Forbidden` when it stays suspended."""
        known, unknown = isinstance(error, kube.AlreadyExists), f"whether Job {wanted.job_name} works is not known"
        gone = Trouble(f"Job {wanted.job_name} was there and is gone", operational=True)
        try:
            made = await self._api.get(kube.JOBS, self._namespace, wanted.job_name)
        except kube.NotFound:
            if known:  # Deleted between the two requests; about the task itself this says nothing.
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
        """The Job of that name, if it is ours; resumed when it was us who suspended it."""
        foreign = _foreign(made, self._namespace, task.metadata.uid, wanted.attempt)
        if foreign is not None:
            return foreign
        if made["metadata"].get("deletionTimestamp"):
            return Trouble(f"Job {wanted.job_name} is still being deleted", operational=True)
        lacking = await self.equip(task, views.job_view(made))
        if views.job_view(made).marked:
            made = await self._suspend(wanted.job_name, suspend=False)
        self._workloads.observe_job(made)
        return lacking

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
                await self.equip(task, known)
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
"""After a request about a run's Job was not answered."""


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
            case decision.Ingest(after):
                found = self._cache.observations.get(uid)
                if isinstance(found, Ingested | Trouble) and found.generation in (None, task.metadata.generation):
                    return True  # it began before this was written, and has ended meanwhile
                self._qualifier.start(uid, raw, found, after)
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
        """A run has its token, or what is in the way is an observation: its pod waits for the Secret.

        One whose pod works has an older token: it is renewed with the next look.
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
        """A dispatch has ended: with a trouble that other tasks would have as well, or none of that kind."""
        breaker = self._cache.scheduler.breaker
        if shared is not None and shared.operational:
            breaker.failed(self._monotonic(), shared.remedy or "")
        else:
            breaker.succeeded()

    async def _launch(self, task: pendingtask.PendingTask, wanted: decision.Launch, raw: kube.Object | None) -> bool:
        """Dispatching is what the circuit breaker counts, once there is a task to be dispatched."""
        uid, breaker = task.metadata.uid, self._cache.scheduler.breaker
        # A task that cannot be read, by its namespace's fault, is no dispatch that failed; nor is one that is gone.
        whole = await self._cache.fetch(uid) if raw is None else pendingtask.PendingTask.model_validate(raw)
        if whole is None or whole.metadata.deletion_timestamp is not None:
            return whole is not None
        breaker.started(self._monotonic())
        found: Trouble | TokenNotWritten | None
        try:
            found = await self._effects.launch(whole, wanted)
        except lease.Fenced:
            raise
        except OutcomeUnknown as error:
            # The task keeps the slot, which the Job may have; only an answer of the API ends that.
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
