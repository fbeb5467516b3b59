"""What the operator remembers of Jobs and pods: small, versioned, never the truth.

Only runs of the release's namespace come in, as `views` believes them. A pod counts for a task once the uid of its Job
is known. Until then, and after a restart for the last pods of a Job that is gone, it takes its slot and says nothing:
what it has written of its end is heard when its Job is.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from controllers.pendingtask import index, job, views
from controllers.pendingtask.world import JobState, JobView, PodView
from crds import pendingtask

Raw = Mapping[str, Any]
MAY_RUN = frozenset({JobState.ACTIVE, JobState.SUSPENDED})


class _Pod(NamedTuple):
    """`job` is the uid of the Job that controls it."""

    version: int
    job: str
    view: PodView


class Workloads:
    """Jobs by their names, pods by the uid of their task. `namespace` is the release's."""

    def __init__(self, namespace: str) -> None:
        self.namespace = namespace
        self._jobs: dict[str, tuple[int, JobView]] = {}
        self._names: dict[str, set[str]] = {}
        self._job_uids: dict[str, set[str]] = {}
        self._pods: dict[str, dict[str, _Pod]] = {}
        self._live: dict[str, tuple[PodView, ...]] = {}
        self.abandoned: set[str] = set()
        """Uids of tasks that are gone and had a Job; `orphans` takes them out."""
        self.abandonment = asyncio.Event()
        """Set with each of them."""

    def observe_job(self, raw: Raw) -> bool:
        """Take a version in; False when it is older than what is known, or not believed."""
        if not views.believed(raw, self.namespace):
            return False
        name, uid = raw["metadata"]["name"], raw["metadata"]["uid"]
        known = self._jobs.get(name)
        if known is not None and known[1].uid == uid and index.version(raw) < known[0]:
            return False
        task = views.task_uid(raw)
        self._jobs[name] = (index.version(raw), views.job_view(raw))
        self._names.setdefault(task, set()).add(name)
        self._job_uids.setdefault(task, set()).add(uid)
        return True

    def forget_job(self, uid: str, name: str) -> None:
        """The Job, of the task with that uid, is gone."""
        names = self._names.get(uid, set())
        if name in names:
            names.discard(name)
            del self._jobs[name]
        self._prune(uid)

    def known_jobs(self, namespace: str) -> Iterator[Raw]:
        """The Jobs of a namespace, as much of them as a deletion needs."""
        for uid, names in self._names.items() if namespace == self.namespace else ():
            for name in names:
                meta = {"uid": self._jobs[name][1].uid, "namespace": namespace, "name": name}
                yield {"metadata": {**meta, "labels": {job.UID_LABEL: uid}}}

    def ran(self, uid: str) -> bool:
        """Does the task still have a Job, as far as is known?"""
        return uid in self._names

    def job(self, name: str) -> JobView | None:
        """The Job as last seen; None means "not seen", not "not there"."""
        known = self._jobs.get(name)
        return None if known is None else known[1]

    def jobs(self) -> Iterator[tuple[str, tuple[JobView, ...]]]:
        """The Jobs of each task, by its uid."""
        for uid, names in list(self._names.items()):
            yield uid, tuple(self._jobs[name][1] for name in sorted(names))

    def strays(self, task: pendingtask.PendingTask) -> tuple[str, ...]:
        """Jobs of runs of the task that have not ended, but for the one that its dispatch names."""
        dispatch = task.status.dispatch
        views_ = (self._jobs[name][1] for name in self._names.get(task.metadata.uid, ()))
        found = (view.name for view in views_ if view.state in MAY_RUN)
        return tuple(sorted(name for name in found if dispatch is None or name != dispatch.job_name))

    def observe_pod(self, raw: Raw) -> bool:
        """Take a version in; False when it is older than what is known, or not believed."""
        owner, task, name = views.controlling_job(raw, self.namespace), views.task_uid(raw), raw["metadata"]["name"]
        known = self._pods.get(task, {}).get(name)
        if not owner or (known is not None and index.version(raw) < known.version):
            return False
        self._pods.setdefault(task, {})[name] = _Pod(index.version(raw), owner, views.pod_view(raw))
        self._note(task)
        return True

    def forget_pod(self, uid: str, name: str) -> None:
        """The pod is gone. What an ended one said stays until its task is forgotten."""
        pods = self._pods.get(uid, {})
        known = pods.get(name)
        if known is not None and known.view.live:
            del pods[name]
        self._note(uid)
        self._prune(uid)

    def replace_pods(self, uid: str, raws: Iterable[Raw]) -> None:
        """A fresh list from the API: pods that are not on it do not live any more."""
        listed = {raw["metadata"]["name"]: raw for raw in raws}
        for name in list(self._pods.get(uid, {})):
            if name not in listed:
                self.forget_pod(uid, name)
        for raw in listed.values():
            self.observe_pod(raw)

    def pods(self, uid: str) -> tuple[PodView, ...]:
        """Pods of the task as last seen. Of one whose Job is not known only that it lives."""
        known = self._job_uids.get(uid, set())
        pods = self._pods.get(uid, {}).values()
        return tuple(
            one.view if one.job in known else dataclasses.replace(one.view, outcome=None, exit_code=None)
            for one in pods
            if one.job in known or one.view.live
        )

    def forget_task(self, uid: str) -> None:
        """The task is finished or deleted: what its ended pods said is not needed any more. Live ones stay."""
        left = {name: known for name, known in self._pods.pop(uid, {}).items() if known.view.live}
        if left:
            self._pods[uid] = left
        self._note(uid)
        self._prune(uid)

    def abandon(self, uid: str, *, finishing: bool = False) -> None:
        """The task is gone, deleted by its user for instance: its Jobs are to go.

        With `finishing` it may as well have just been finished, by a write whose answer is under way. Its Job has ended
        then; those are asked about in turn.
        """
        jobs = (self._jobs[name][1] for name in self._names.get(uid, ()))
        if any(not finishing or one.state in MAY_RUN for one in jobs):
            self.abandoned.add(uid)
            self.abandonment.set()

    def occupied(self, now: datetime, *, but: Collection[str]) -> dict[str, str]:
        """Tasks with a live pod, those in `but` left out -> the backend whose slot it takes."""
        found: dict[str, str] = {}
        for uid in self._live.keys() - but:
            backends = [pod.backend for pod in self._live[uid] if pod.lives(now)]
            if backends:
                found[uid] = backends[0]
        return found

    def _note(self, uid: str) -> None:
        live = tuple(known.view for known in self._pods.get(uid, {}).values() if known.view.live)
        if live:
            self._live[uid] = live
        else:
            self._live.pop(uid, None)

    def _prune(self, uid: str) -> None:
        """Keep nothing about a task without Jobs and pods."""
        if not self._names.get(uid):
            self._names.pop(uid, None)
        if not self._pods.get(uid):
            self._pods.pop(uid, None)
        if uid not in self._names and uid not in self._pods:
            self._job_uids.pop(uid, None)
