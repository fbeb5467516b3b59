"""The cache of Jobs and pods (small, versioned, never the truth), and the reader of one task's run.

`Workloads` stores only runs of the release's namespace that `views` accepts. A pod counts for a task once the uid of
its Job is known. Until then (after a restart: always, for the last pods of a deleted Job) it takes its slot, and its
outcome is ignored.

`WorkloadReader` asks the API and MongoDB about a task's run, where the task's phase needs it. The cache may lack a Job
after a restart, or hold one that was deleted: before a decision rests on the absence of a Job or on the end of a run,
the API is asked.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import kube
from controllers.memory import mongo
from controllers.pendingtask import job, task_index, views, warm
from controllers.pendingtask import job as job_names
from controllers.pendingtask.observed import JobState, JobView, Outcome, PodView, last_word
from crds import labels as marks
from crds import pendingtask
from crds.phases import HOLDS_SLOT, Phase

Raw = Mapping[str, Any]
MAY_RUN = frozenset({JobState.ACTIVE, JobState.SUSPENDED})


class _Pod(NamedTuple):
    """`job` is the uid of the controlling Job."""

    version: int
    job: str
    view: PodView


class Workloads:
    """Jobs by name, pods by the uid of their task. `namespace` is the release's.

    A warm Job is known by its own name and by that which a Job made for its run would have. Of two Jobs of one run, as
    after a claim that arrived late, the one made for it counts, else the first by name; the others are strays.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._jobs: dict[str, tuple[int, JobView]] = {}
        self._names: dict[str, set[str]] = {}
        self._warm: dict[str, set[str]] = {}  # names of warm Jobs by the name of their run
        self._job_uids: dict[str, set[str]] = {}
        self._pods: dict[str, dict[str, _Pod]] = {}
        self._live: dict[str, tuple[PodView, ...]] = {}
        self.abandoned: set[str] = set()
        """Uids of tasks that no longer exist and had a Job; `orphans` removes them."""
        self.abandonment = asyncio.Event()
        """Set whenever a uid is added."""

    def observe_job(self, raw: Raw) -> bool:
        """Store a version; False if it is older than the stored one, or not accepted by `views`."""
        if not views.believed(raw, self.namespace):
            return False
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        known = self._jobs.get(name)
        if known is not None and known[1].uid == uid and task_index.version(raw) < known[0]:
            return False
        task = views.task_uid(raw)
        self._jobs[name] = (task_index.version(raw), views.job_view(raw))
        if warm.is_warm(raw):
            self._warm.setdefault(views.run_name(raw), set()).add(name)
        self._names.setdefault(task, set()).add(name)
        self._job_uids.setdefault(task, set()).add(uid)
        return True

    def forget_job(self, uid: str, name: str) -> None:
        """The Job was deleted; `uid` is its task's."""
        names = self._names.get(uid, set())
        if name in names:
            names.discard(name)
            if self._jobs.pop(name)[1].warm:
                for run, found in list(self._warm.items()):
                    found.discard(name)
                    if not found:
                        del self._warm[run]
        self._prune(uid)

    def known_jobs(self, namespace: str) -> Iterator[Raw]:
        """The Jobs of a namespace, with the fields that a deletion event needs."""
        for uid, names in self._names.items() if namespace == self.namespace else ():
            for name in names:
                meta = {"uid": self._jobs[name][1].uid, "namespace": namespace, "name": name}
                yield {"metadata": {**meta, "labels": {job.UID_LABEL: uid}}}

    def ran(self, uid: str) -> bool:
        """Whether a Job of the task is known."""
        return uid in self._names

    def present(self, uid: str) -> bool:
        """Is a Job or a living pod of the task there, as far as is known?"""
        return uid in self._names or uid in self._live

    def job(self, name: str) -> JobView | None:
        """The Job as last seen, by its name or its run's; None means "not seen", not "does not exist"."""
        known = self._jobs.get(name) or self._jobs.get(min(self._warm.get(name, ()), default=""))
        return None if known is None else known[1]

    def jobs(self) -> Iterator[tuple[str, tuple[JobView, ...]]]:
        """The Jobs of each task, by its uid."""
        for uid, names in list(self._names.items()):
            yield uid, tuple(self._jobs[name][1] for name in sorted(names))

    def strays(self, task: pendingtask.PendingTask) -> tuple[str, ...]:
        """Jobs of the task that have not ended, except the one that its dispatch names."""
        current = None if task.status.dispatch is None else self.job(task.status.dispatch.job_name)
        views_ = (self._jobs[name][1] for name in self._names.get(task.metadata.uid, ()))
        return tuple(sorted(one.name for one in views_ if one.state in MAY_RUN and one != current))

    def observe_pod(self, raw: Raw) -> bool:
        """Store a version; False if it is older than the stored one, or not accepted by `views`."""
        owner, task, name = views.controlling_job(raw, self.namespace), views.task_uid(raw), raw["metadata"]["name"]
        known = self._pods.get(task, {}).get(name)
        if not owner or (known is not None and task_index.version(raw) < known.version):
            return False
        self._pods.setdefault(task, {})[name] = _Pod(task_index.version(raw), owner, views.pod_view(raw))
        self._update_live(task)
        return True

    def forget_pod(self, uid: str, name: str) -> None:
        """The pod was deleted. An ended pod, with its outcome, stays until its task is forgotten."""
        pods = self._pods.get(uid, {})
        known = pods.get(name)
        if known is not None and known.view.live:
            del pods[name]
        self._update_live(uid)
        self._prune(uid)

    def replace_pods(self, uid: str, raws: Iterable[Raw]) -> None:
        """Apply a fresh list from the API: pods that are not listed no longer live."""
        listed = {raw["metadata"]["name"]: raw for raw in raws}
        for name in list(self._pods.get(uid, {})):
            if name not in listed:
                self.forget_pod(uid, name)
        for raw in listed.values():
            self.observe_pod(raw)

    def pods(self, uid: str) -> tuple[PodView, ...]:
        """Pods of the task as last seen. Pods of an unknown Job only while they live, without an outcome."""
        known = self._job_uids.get(uid, set())
        pods = self._pods.get(uid, {}).values()
        return tuple(
            one.view if one.job in known else dataclasses.replace(one.view, outcome=None, exit_code=None)
            for one in pods
            if one.job in known or one.view.live
        )

    def forget_task(self, uid: str) -> None:
        """The task is finished or deleted: drop its ended pods. Live pods stay."""
        left = {name: known for name, known in self._pods.pop(uid, {}).items() if known.view.live}
        if left:
            self._pods[uid] = left
        self._update_live(uid)
        self._prune(uid)

    def abandon(self, uid: str, *, finishing: bool = False) -> None:
        """The task is gone, for example deleted by its user: its Jobs are to be deleted.

        With `finishing` the task may instead have finished by a write whose response is still outstanding. Its Job has
        ended then, and is left to the regular sweeps of `orphans`.
        """
        jobs = (self._jobs[name][1] for name in self._names.get(uid, ()))
        if any(not finishing or one.state in MAY_RUN for one in jobs):
            self.abandoned.add(uid)
            self.abandonment.set()

    def occupied(self, now: datetime, *, but: Collection[str]) -> dict[str, str]:
        """Uid of each task with a live pod, except those in `but` -> the backend whose slot the pod takes."""
        found: dict[str, str] = {}
        for uid in self._live.keys() - but:
            backends = [pod.backend for pod in self._live[uid] if pod.lives(now)]
            if backends:
                found[uid] = backends[0]
        return found

    def _update_live(self, uid: str) -> None:
        live = tuple(known.view for known in self._pods.get(uid, {}).values() if known.view.live)
        if live:
            self._live[uid] = live
        else:
            self._live.pop(uid, None)

    def _prune(self, uid: str) -> None:
        """Drop the entries of a task without Jobs and pods."""
        if not self._names.get(uid):
            self._names.pop(uid, None)
        if not self._pods.get(uid):
            self._pods.pop(uid, None)
        if uid not in self._names and uid not in self._pods:
            self._job_uids.pop(uid, None)


@dataclass(frozen=True, slots=True)
class RunState:
    """The Job of the current attempt and its stored result, which alone has effects that wait; pods are stored in
    `Workloads`."""

    job: JobView | None = None
    recorded: Outcome | None = None


class WorkloadReader:
    """Reads only."""

    def __init__(self, api: kube.Kube, memory: mongo.Memory, workloads: Workloads) -> None:
        self._api, self._memory, self._workloads = api, memory, workloads

    async def of(self, task: pendingtask.PendingTask) -> RunState:
        """Job and stored result, requested only where the phase needs them."""
        status, meta = task.status, task.metadata
        if status.phase is Phase.READY_FOR_GPU and status.attempt > 0:
            await self._list_pods(task)
            # A Job that is not in the cache is found or created by the launch.
            dispatch = status.dispatch
            return RunState(None if dispatch is None else self._workloads.job(dispatch.job_name))
        if status.phase not in HOLDS_SLOT or status.dispatch is None:
            return RunState()
        name = status.dispatch.job_name
        job = self._workloads.job(name)
        if job is None or job.state is JobState.DELETING:
            job = await self._read_job(task, name)
        if job is not None and job.state not in (JobState.COMPLETE, JobState.FAILED):
            if job.suspended:
                await self._list_pods(task)
            return RunState(job)
        reported = last_word(self._workloads.pods(meta.uid), status.attempt, job)
        live = any(pod.live for pod in self._workloads.pods(meta.uid))
        if not reported or live:
            await self._list_pods(task)
            reported = last_word(self._workloads.pods(meta.uid), status.attempt, job)
        if (reported and not reported.waiting) or status.phase is not Phase.ORCHESTRATING:
            return RunState(job)
        stored = await self._memory.result(meta.uid, status.attempt)
        return RunState(job, views.recorded(stored) if stored is not None else None)

    async def _read_job(self, task: pendingtask.PendingTask, name: str) -> JobView | None:
        uid = task.metadata.uid
        try:
            raw = await self._api.get(kube.JOBS, self._workloads.namespace, name)
        except kube.NotFound:
            self._workloads.forget_job(uid, name)
            found = await claimed(self._api, self._workloads.namespace, uid, task.status.attempt)
            if found is None:
                return None
            raw = found
            name = raw["metadata"]["name"]
        if not views.believed(raw, self._workloads.namespace) or views.task_uid(raw) != uid:
            return None
        self._workloads.observe_job(raw)
        return self._workloads.job(name)

    async def _list_pods(self, task: pendingtask.PendingTask) -> None:
        labels = f"{job_names.UID_LABEL}={task.metadata.uid}"
        found = [raw async for raw in self._api.each(kube.PODS, self._workloads.namespace, labels)]
        self._workloads.replace_pods(task.metadata.uid, found)


async def claimed(api: kube.Kube, namespace: str, uid: str, attempt: int) -> kube.Object | None:
    """The warm Job that was claimed for the run, as the API has it now; None without one."""
    labels = f"{job_names.UID_LABEL}={uid},{job_names.ATTEMPT_LABEL}={attempt},{marks.WARM}"
    found = [raw async for raw in api.each(kube.JOBS, namespace, labels)]
    believed = (raw for raw in found if views.believed(raw, namespace))
    return min(believed, key=lambda raw: str(raw["metadata"]["name"]), default=None)
