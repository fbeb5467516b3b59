"""Effects on the cluster and on the task memory. Each can be repeated: names are deterministic, patches idempotent."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import structlog

from controllers import kube
from controllers.memory import document, mongo
from controllers.pendingtask import decision, index, job, views
from controllers.pendingtask.finish import LABELLED
from controllers.pendingtask.world import CopyMade, Observation, Trouble
from crds import pendingtask
from crds.pendingtask import Type

log = structlog.get_logger(__name__)


class Effects:
    """Performs what a decision asks for and reports what came of it."""

    def __init__(
        self,
        api: kube.Kube,
        memory: mongo.Memory,
        workloads: index.Workloads,
        template: job.Template,
        *,
        clock: Callable[[], datetime],
        created: Callable[[], None],
    ) -> None:
        self._api, self._memory, self._workloads, self._template = api, memory, workloads, template
        self._clock, self._created = clock, created

    async def fetch(self, namespace: str, name: str) -> tuple[kube.Object, pendingtask.PendingTask]:
        """The whole task from the API, content included."""
        raw = await self._api.get(kube.TASKS, namespace, name)
        return raw, pendingtask.PendingTask.model_validate(raw)

    async def launch(self, task: pendingtask.PendingTask, wanted: decision.Launch) -> Observation | None:
        """Memory first, then the Job. An existing Job of ours is success; one that is suspended is resumed."""
        raw, whole = await self.fetch(task.metadata.namespace, task.metadata.name)
        if raw["metadata"]["uid"] != task.metadata.uid:
            return None
        await self._memory.write(task.metadata.uid, document.of_task(whole, wanted.attempt, self._clock()))
        body = job.manifest(whole, wanted.attempt, wanted.job_name, self._template)
        try:
            made = await self._api.create(kube.JOBS, task.metadata.namespace, body)
            self._created()
        except kube.AlreadyExists:
            made = await self._api.get(kube.JOBS, task.metadata.namespace, wanted.job_name)
            foreign = _foreign(made, task.metadata.uid, wanted.attempt)
            if foreign is not None:
                return foreign
            if made["metadata"].get("deletionTimestamp"):
                return Trouble(f"Job {wanted.job_name} is still being deleted", operational=True)
            if made["spec"].get("suspend"):
                made = await self._suspend(task.metadata.namespace, wanted.job_name, suspend=False)
        self._workloads.observe_job(made)
        return None

    async def suspend(self, task: pendingtask.PendingTask, wanted: decision.SuspendJob) -> None:
        """Ask the Job to drain."""
        try:
            self._workloads.observe_job(await self._suspend(task.metadata.namespace, wanted.job_name, suspend=True))
        except kube.NotFound:
            self._workloads.forget_job(task.metadata.namespace, wanted.job_name)

    async def delete(self, task: pendingtask.PendingTask, wanted: decision.DeleteJob) -> None:
        """Remove the Job; its pod gets SIGTERM."""
        known = self._workloads.job(task.metadata.namespace, wanted.job_name)
        await self._api.delete(
            kube.JOBS, task.metadata.namespace, wanted.job_name, uid=known.uid if known is not None else None
        )
        self._workloads.forget_job(task.metadata.namespace, wanted.job_name)

    async def expire(self, task: pendingtask.PendingTask, wanted: decision.ExpireJob) -> None:
        """Start the Job's time to live; a Job that is gone already is fine."""
        patch = {"spec": {"ttlSecondsAfterFinished": wanted.ttl_seconds}}
        try:
            await self._api.merge(kube.JOBS, task.metadata.namespace, wanted.job_name, patch)
        except kube.NotFound:
            log.debug("job gone before its time to live began", job=wanted.job_name)

    async def label(self, task: pendingtask.PendingTask) -> None:
        """Take the finished task out of the watch. A label needs no precondition: nothing undoes it."""
        patch = {"metadata": {"labels": {pendingtask.FINISHED_LABEL: LABELLED}}}
        try:
            await self._api.merge(kube.TASKS, task.metadata.namespace, task.metadata.name, patch)
        except kube.NotFound:
            log.debug("task deleted before it was labelled", task=task.metadata.name)

    async def copy(self, task: pendingtask.PendingTask, wanted: decision.Copy) -> Observation:
        """The execution copy of a recurring task; a second one for the same moment is refused by its name."""
        raw, _ = await self.fetch(task.metadata.namespace, task.metadata.name)
        body = copy_manifest(raw, wanted.due)
        try:
            await self._api.create(kube.TASKS, task.metadata.namespace, body)
        except kube.AlreadyExists:
            there = await self._api.get(kube.TASKS, task.metadata.namespace, body["metadata"]["name"])
            if views.owner_uid(there) != task.metadata.uid:
                return Trouble(f"a foreign task is called {body['metadata']['name']}", operational=False)
        return CopyMade(wanted.due)

    async def _suspend(self, namespace: str, name: str, *, suspend: bool) -> kube.Object:
        return await self._api.merge(kube.JOBS, namespace, name, {"spec": {"suspend": suspend}})


def copy_manifest(raw: kube.Object, due: datetime) -> kube.Object:
    """`<template>-<YYYYMMDDHHMM>`: the template's spec, due once, owned by the template."""
    meta = raw["metadata"]
    spec: dict[str, Any] = {key: value for key, value in raw["spec"].items() if key not in ("schedule", "suspend")}
    if spec["type"] == Type.SCHEDULED.value:
        # This type must have a schedule: the copy's is the moment itself.
        spec["schedule"] = {"at": decision.moment(due)}
    return {
        "apiVersion": raw["apiVersion"],
        "kind": raw["kind"],
        "metadata": {
            "name": f"{meta['name'][:240].rstrip('.-')}-{due:%Y%m%d%H%M}",
            "namespace": meta["namespace"],
            "labels": {k: v for k, v in (meta.get("labels") or {}).items() if k != pendingtask.FINISHED_LABEL},
            "annotations": {k: v for k, v in (meta.get("annotations") or {}).items() if k.startswith("jervis.dev/")},
            "ownerReferences": [
                {
                    "apiVersion": raw["apiVersion"],
                    "kind": raw["kind"],
                    "name": meta["name"],
                    "uid": meta["uid"],
                    "controller": True,
                    "blockOwnerDeletion": False,
                }
            ],
        },
        "spec": spec,
    }


def _foreign(found: kube.Object, uid: str, attempt: int) -> Trouble | None:
    """Whose is the Job that has our name?"""
    if views.owner_uid(found) == uid and views.attempt(found) == attempt:
        return None
    return Trouble(
        f"a Job called {found['metadata']['name']} exists and is not this task's run",
        operational=False,
        field="metadata.name",
        remedy="Delete or rename that Job, then approve another try.",
    )
