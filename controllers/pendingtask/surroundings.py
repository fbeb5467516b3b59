"""What the API and MongoDB say about one task's run: asked for only where its phase needs it.

The index may not know a Job yet (after a restart) or know one that is gone: before a decision rests on the absence of
a Job or on the end of a run, the API itself is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

from controllers import kube
from controllers.memory import mongo
from controllers.pendingtask import job as job_names
from controllers.pendingtask import views
from controllers.pendingtask import workloads as loads
from controllers.pendingtask.world import JobState, JobView, Outcome, last_word
from crds import pendingtask
from crds.phases import HOLDS_SLOT, Phase


@dataclass(frozen=True, slots=True)
class Found:
    """The Job of the current attempt and its stored result; pods go to `workloads`."""

    job: JobView | None = None
    recorded: Outcome | None = None


class Surroundings:
    """Reads only."""

    def __init__(self, api: kube.Kube, memory: mongo.Memory, workloads: loads.Workloads) -> None:
        self._api, self._memory, self._workloads = api, memory, workloads

    async def of(self, task: pendingtask.PendingTask) -> Found:
        """Job and stored result, asked for only where the phase needs them; pods go to `workloads`."""
        status, meta = task.status, task.metadata
        if status.phase is Phase.READY_FOR_GPU and status.attempt > 0:
            await self._list_pods(task)
            # A Job that is not known is created, or found, by the launch.
            kept = status.dispatch
            return Found(None if kept is None else self._workloads.job(kept.job_name))
        if status.phase not in HOLDS_SLOT or status.dispatch is None:
            return Found()
        name = status.dispatch.job_name
        job = self._workloads.job(name)
        if job is None or job.state is JobState.DELETING:
            job = await self._read_job(task, name)
        if job is not None and job.state not in (JobState.COMPLETE, JobState.FAILED):
            if job.suspended:
                await self._list_pods(task)
            return Found(job)
        told = last_word(self._workloads.pods(meta.uid), status.attempt, job)
        live = any(pod.live for pod in self._workloads.pods(meta.uid))
        if not told or live:
            await self._list_pods(task)
            told = last_word(self._workloads.pods(meta.uid), status.attempt, job)
        if told or status.phase is not Phase.ORCHESTRATING:
            return Found(job)
        stored = await self._memory.result(meta.uid, status.attempt)
        return Found(job, views.recorded(stored) if stored is not None else None)

    async def _read_job(self, task: pendingtask.PendingTask, name: str) -> JobView | None:
        uid = task.metadata.uid
        try:
            raw = await self._api.get(kube.JOBS, self._workloads.namespace, name)
        except kube.NotFound:
            self._workloads.forget_job(uid, name)
            return None
        if not views.believed(raw, self._workloads.namespace) or views.task_uid(raw) != uid:
            return None
        self._workloads.observe_job(raw)
        return self._workloads.job(name)

    async def _list_pods(self, task: pendingtask.PendingTask) -> None:
        labels = f"{job_names.UID_LABEL}={task.metadata.uid}"
        found = [raw async for raw in self._api.each(kube.PODS, self._workloads.namespace, labels)]
        self._workloads.replace_pods(task.metadata.uid, found)
