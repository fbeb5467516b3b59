"""From tasks with `spec.git` to Jobs: the task's status says what is to be done, the apiserver what became of it.

The Job's name is written into `status.git` before the Job is made, and its uid after that: a kill in between is made up
for, and a Job that vanished is not made again. Every look compares, so nothing depends on having seen an event. One
task whose Job is refused holds up no other; no end of a Job is a failure of its task.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

import kube
from controllers import job_tracker, metrics
from controllers.codeanalysis import job, jobs, outcome, queries, status
from controllers.pendingtask import cache, decision, status_writer, transitions
from crds import conditions, connection, errors, labels, pendingtask
from crds.phases import TERMINAL, Phase

log = structlog.get_logger(__name__)
EVERY_SECONDS = 5.0
IDLE_LOOKS = 12
"""Of so many looks without anything to do, one lists Jobs: for those that were left behind."""
Find = Callable[[str, str], connection.Connection | None]
"""The Connection of a namespace and name."""


class Analyses:
    """`at_once` Jobs run at the same time, those of ad-hoc queries among them. `made` is None where none can be made,
    and `asked` where there are no queries; `wall` is UTC."""

    def __init__(
        self,
        api: kube.Kube,
        cached: cache.TaskCache,
        written: status_writer.Writer,
        made: jobs.Jobs | None,
        asked: queries.Queries | None,
        *,
        at_once: int,
        find: Find,
        measured: metrics.Metrics,
        wall: Callable[[], datetime],
    ) -> None:
        self._api, self._cache, self._writer, self._jobs, self._asked = api, cached, written, made, asked
        self._at_once, self._find, self._metrics, self._wall = at_once, find, measured, wall
        self._turns: dict[str, int] = {}
        """By namespace: the number of its last turn."""
        self._idle = IDLE_LOOKS
        self._refused: dict[str, datetime] = {}
        """By uid: since when its Job is forbidden, by a quota for example."""

    async def reconcile_once(self) -> None:
        """Do what can be done now. Raises `crds.errors.Operational`."""
        waiting = [task for uid in self._cache.tasks.analyzing() if (task := self._cache.tasks.get(uid)) is not None]
        if self._jobs is None:
            for task in waiting:
                await self._end(task, outcome.Ended(outcome.Report(), _DISABLED))
            return
        self._idle += 1
        if not waiting and self._asked is None and self._idle <= IDLE_LOOKS:
            return
        there = await self._jobs.all()
        begun = [task for task in waiting if task.status.git is not None and task.status.git.job]
        running = [task.metadata.namespace for task in begun if await self._runs(task, there)]
        mine = {task.metadata.uid for task in waiting}
        for name, raw in there.items():
            if not name.startswith(job.QUERY_PREFIX) and raw["metadata"]["labels"][labels.CODE_ANALYSIS] not in mine:
                running += [""] if await self._stray(raw) else []
        if self._asked is not None:
            running += [""] * await self._asked.reconcile(there, self._at_once - len(running))
        self._idle = 0 if there or waiting else self._idle % (IDLE_LOOKS + 1)
        self._metrics.code_jobs.set(len(running))
        await self._admit([task for task in waiting if task not in begun], running)

    async def _admit(self, waiting: list[pendingtask.PendingTask], running: list[str]) -> None:
        """Begin as many as there are places, in turns of namespaces: one of them may have many."""
        ready = [task for task in waiting if not self._held(task) and await self._readable(task)]
        while ready and len(running) < self._at_once:
            spaces = {task.metadata.namespace for task in ready}
            chosen = min(spaces, key=lambda name: (running.count(name), self._turns.get(name, 0), name))
            self._turns[chosen] = 1 + max(self._turns.values(), default=0)
            task = next(one for one in ready if one.metadata.namespace == chosen)
            ready.remove(task)
            if await self._begin(task):
                running.append(chosen)
        self._metrics.code_jobs.set(len(running))

    def _held(self, task: pendingtask.PendingTask) -> bool:
        return pendingtask.held(task) or task.metadata.deletion_timestamp is not None

    async def _readable(self, task: pendingtask.PendingTask) -> bool:
        """Whether there is a Job to make. A Connection that cannot be read is waited for, and then given up. What
        needs no Job waits for no place."""
        assert task.spec.git is not None
        why = status.blocked(task, self._find(task.metadata.namespace, task.spec.git.connection))
        if why is None:
            made = self._attempt(task)
            if isinstance(made, outcome.Failure):
                await self._end(task, outcome.Ended(outcome.Report(), made))
            return isinstance(made, job.Attempt)
        if status.patient(task, self._wall()):
            await self._show(task, *why)
        else:
            reason, message = why
            await self._end(task, outcome.Ended(outcome.Report(), outcome.Failure(reason=reason, message=message)))
        return False

    async def _begin(self, task: pendingtask.PendingTask) -> bool:
        """Write the intent, then make the Job. Whether it runs, or may."""
        named = job.name(task.metadata.uid)
        running = status.condition(task, None, status.RUNNING, f"Job {named} analyzes it.", self._wall())
        fresh = await self._write(task, {"job": named}, running)
        return fresh is not None and await self._runs(fresh, {})

    async def _runs(self, task: pendingtask.PendingTask, there: dict[str, kube.Object]) -> bool:
        """Whether its Job still runs, or may. One that is forbidden, by a quota for example, is tried for a while."""
        jobs_, uid = self._jobs, task.metadata.uid
        assert jobs_ is not None
        assert task.status.git is not None

        async def reconcile() -> bool:
            try:
                runs = await self._reconcile_job(task, there)
            except kube.Forbidden as error:
                since = self._refused.setdefault(uid, self._wall())
                if self._wall() - since >= status.PATIENCE:
                    raise kube.Refused(error.message) from error
                await self._show(task, "JobRefused", f"Its Job is refused: {error.message}")
                return True
            self._refused.pop(uid, None)
            return runs

        async def refused(error: errors.Permanent) -> None:
            self._refused.pop(uid, None)
            why = outcome.Failure(reason="JobRefused", message=f"Its Job is refused: {error.message}")
            await self._end(task, outcome.Ended(outcome.Report(), why))

        return await jobs_.reconcile_job(task.status.git.job, reconcile, refused)

    async def _reconcile_job(self, task: pendingtask.PendingTask, there: dict[str, kube.Object]) -> bool:
        made, git, uid = self._jobs, task.status.git, task.metadata.uid
        assert made is not None
        assert git is not None
        found = there.get(git.job)
        if found is None and git.job_uid:
            await self._end(task, outcome.Ended(outcome.Report(), _LOST))
            return False
        if found is None or not git.job_uid:
            one = self._attempt(task)
            if isinstance(one, outcome.Failure):
                # The Connection is gone, or Joern was taken away: its pod would wait for a token.
                await made.delete(git.job)
                await self._end(task, outcome.Ended(outcome.Report(), one))
                return False
            job_uid = await made.make(one, found)
            fresh = await self._write(task, {"jobUid": job_uid}, None)
            if fresh is None or found is None:
                return True
            task = fresh
        end = job_tracker.ended(found)
        if end is None:
            why = next((said for pod in await made.pods(uid) if (said := outcome.waiting(pod))), "")
            await self._show(task, status.RUNNING, f"Job {git.job} analyzes it. {why}".strip())
            return True
        await self._end(task, await made.result(uid, end))
        await made.expire(git.job)
        return False

    async def _stray(self, raw: kube.Object) -> bool:
        """A Job whose task does not wait for it: whether it still runs. It ends if the task is over or gone."""
        assert self._jobs is not None
        meta, over = raw["metadata"], job_tracker.ended(raw) is not None
        if meta.get("deletionTimestamp") or (over and self._jobs.expires(raw)):
            return False
        named = meta.get("annotations") or {}
        namespace, name = (named.get(key, "") for key in (labels.TASK_NAMESPACE, labels.TASK_NAME))
        if not namespace or not name:
            return not over  # none of ours
        try:
            task = pendingtask.PendingTask.model_validate(await self._api.get(kube.TASKS, namespace, name))
        except kube.NotFound:
            task = None
        except (errors.JervisError, ValueError) as error:
            # Its namespace may not be read now. Its deadline ends the Job.
            log.info("task of an analysis not read", job=meta["name"], reason=str(error))
            return not over
        gone = task is None or task.metadata.uid != meta["labels"][labels.CODE_ANALYSIS]
        if task is not None and not gone and pendingtask.awaits_analysis(task) and task.status.phase not in TERMINAL:
            return not over  # not known yet, or held in another phase
        if over and not gone:
            await self._jobs.expire(meta["name"])
        else:
            await self._jobs.delete(meta["name"])
        return False

    def _attempt(self, task: pendingtask.PendingTask) -> job.Attempt | outcome.Failure:
        """The Job to make; why there is none."""
        assert self._jobs is not None
        assert task.spec.git is not None
        source = self._find(task.metadata.namespace, task.spec.git.connection)
        if source is None or not status.readable(source, status.scope_of(task)):
            return outcome.Failure(reason=status.NOT_FOUND, message="Its Connection is gone, or another one.")
        try:
            return job.of_task(task, source.spec, joern=bool(self._jobs.template.joern)) or _NO_JOERN
        except errors.Permanent as error:
            # Its URL names no repository.
            return outcome.Failure(reason=status.NOT_READY, message=error.message)

    async def _show(self, task: pendingtask.PendingTask, reason: str, message: str) -> None:
        await self._write(task, {}, status.condition(task, None, reason, message, self._wall()))

    async def _end(self, task: pendingtask.PendingTask, end: outcome.Ended) -> None:
        """Record it; the task goes on."""
        joern = self._jobs is not None and bool(self._jobs.template.joern)
        found, said = status.result(task, end, self._wall(), joern=joern)
        if await self._write(task, found, said, note=True) is not None:
            self._metrics.code_analyses.labels(status.label(said.reason)).inc()
            log.info("repository analyzed", task=task.metadata.name, reason=said.reason)

    async def _write(
        self,
        task: pendingtask.PendingTask,
        git: dict[str, Any],
        said: conditions.Condition | None,
        *,
        note: bool = False,
    ) -> pendingtask.PendingTask | None:
        """Merge into its status; the task as it is then, None if it changed meanwhile: the next look sees it."""
        known = task.status.conditions
        same = said is None or any(_words(one) == _words(said) for one in known)
        if same and not git:
            return task
        patch: dict[str, Any] = {"git": git} if git else {}
        if said is not None and not same:
            patch["conditions"] = [one.wire() for one in conditions.put(known, said)]
        noted = None
        if note and said is not None:
            noted = decision.Note(said.reason, said.message, warning=said.status is not conditions.Status.TRUE)
        made = decision.Decision(patch, note=noted)
        step = transitions.Step(task.status.phase or Phase.NEW, made)
        raw = await self._writer.persist(task, transitions.Batch(made, (step,), more=False))
        self._cache.enqueue(task.metadata.uid)
        return None if raw is None else pendingtask.PendingTask.model_validate(raw)


def _words(one: conditions.Condition) -> tuple[str, ...]:
    return one.type, one.status.value, one.reason, one.message


_DISABLED = outcome.Failure(reason=status.DISABLED, message="This release analyzes no repositories.")
_NO_JOERN = outcome.Failure(reason=status.DISABLED, message="This release has no Joern.")
_LOST = outcome.Failure(reason="JobLost", message="Its Job vanished.")
