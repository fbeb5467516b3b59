"""Jobs that the operator makes besides runs: each made once, with the Secret of its token, observed, and read.

What is to be done stands elsewhere, in MongoDB or in a task's status, and says whether its Job was made. So a kill
between two steps is made up for, and a Job that vanished is not made again. Every pass compares with the apiserver;
nothing depends on having seen an event.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog

import kube
from crds import errors
from kube import lease

log = structlog.get_logger(__name__)


class NameTaken(kube.Refused):
    """Another Job has the name; it is left alone."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A Job as its record wants it. `identity` is the value of the tracker's label, and `made` whether the record says
    that the Job exists.

    `manifest` builds the Job, and `secret` the Secret that its pod waits for, owned by the Job with that uid. `created`
    is called when there was no Job. `record_made` notes in the record that the Job and the Secret exist.
    """

    name: str
    identity: str
    made: bool
    manifest: Callable[[], dict[str, Any]]
    secret: Callable[[str], dict[str, Any]]
    record_made: Callable[[], Awaitable[None]]
    created: Callable[[], object] = lambda: None


class JobEnd(NamedTuple):
    """How a Job ended, as its conditions say; `reason` and `message` are "" for one that is complete."""

    complete: bool
    reason: str = ""
    message: str = ""


class JobTracker:
    """The Jobs of one kind, all in `namespace`: those with the label `label`, whose value is what they are made for."""

    def __init__(self, api: kube.Kube, namespace: str, label: str) -> None:
        self.api, self.namespace, self._label = api, namespace, label

    def belongs(self, raw: kube.Object, identity: str) -> bool:
        """Whether it is the Job of that identity."""
        return bool((raw["metadata"].get("labels") or {}).get(self._label) == identity)

    async def all(self) -> dict[str, kube.Object]:
        """Every Job of this kind, by name."""
        return {raw["metadata"]["name"]: raw async for raw in self.api.each(kube.JOBS, self.namespace, self._label)}

    async def pods(self, identity: str) -> list[kube.Object]:
        """The pods of one Job."""
        return [raw async for raw in self.api.each(kube.PODS, self.namespace, f"{self._label}={identity}")]

    async def delete(self, name: str) -> None:
        """End the Job, with its pod. One that is gone is fine."""
        await self.api.delete(kube.JOBS, self.namespace, name)

    async def create(self, body: dict[str, Any]) -> tuple[kube.Object, bool]:
        """The Job, and whether it is new: one of that name was made before a kill."""
        try:
            return await self.api.create(kube.JOBS, self.namespace, body), True
        except kube.AlreadyExists:
            return await self.api.get(kube.JOBS, self.namespace, body["metadata"]["name"]), False

    async def create_token_secret(
        self, job: kube.Object, identity: str, secret: Callable[[str], dict[str, Any]]
    ) -> str:
        """Write the Secret that the Job's pod waits for, unless it is there; the Job's uid. Raises `NameTaken`."""
        name, uid = job["metadata"]["name"], str(job["metadata"]["uid"])
        if not self.belongs(job, identity):
            raise NameTaken(f"another Job has its name: {name}", remedy=f"Delete Job {name} in {self.namespace}.")
        with suppress(kube.AlreadyExists):
            await self.api.create(kube.SECRETS, self.namespace, secret(uid))
        return uid

    async def ensure(self, wanted: Wanted) -> kube.Object | None:
        """The Job, made now if it was never made; None if it has vanished. Raises `crds.errors.JervisError`."""
        try:
            job = await self.api.get(kube.JOBS, self.namespace, wanted.name)
        except kube.NotFound:
            if wanted.made:
                return None
            job, _ = await self.create(wanted.manifest())
            wanted.created()
        if not wanted.made:
            await self.create_token_secret(job, wanted.identity, wanted.secret)
            await wanted.record_made()
        elif not self.belongs(job, wanted.identity):
            raise NameTaken(f"another Job has its name: {wanted.name}")
        return job

    async def reconcile_job(
        self,
        name: str,
        reconcile: Callable[[], Awaitable[bool]],
        refused: Callable[[errors.Permanent], Awaitable[None]],
    ) -> bool:
        """Whether the Job runs, or may, as `reconcile` says. An Operational error leaves that open until the next pass.

        After a Permanent one (a quota, an admission policy, a manifest that the settings spoil) the Job is deleted,
        since without its token it would wait, and `refused` is called.
        """
        try:
            return await reconcile()
        except lease.Fenced:
            raise
        except errors.Operational as error:
            log.info("a Job is not reconciled", job=name, reason=error.message)
            return True
        except errors.Permanent as error:
            if not isinstance(error, NameTaken):
                with suppress(errors.JervisError):
                    await self.delete(name)
            await refused(error)
            return False


def ended(job: kube.Object) -> JobEnd | None:
    """How the Job ended; None while it runs."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition.get("status") != "True":
            continue
        if condition.get("type") == "Complete":
            return JobEnd(complete=True)
        if condition.get("type") == "Failed":
            return JobEnd(False, str(condition.get("reason") or ""), str(condition.get("message") or ""))
    return None


def latest_pod(pods: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The pod that was created last; empty if there is none."""
    return max(pods, key=lambda pod: str(pod["metadata"].get("creationTimestamp", "")), default={})


def container_statuses(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The statuses of the pod's containers, in the order in which they run."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def terminated(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container ended, from its status; empty while it runs."""
    return (status.get("state") or {}).get("terminated") or {}


def termination_message(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a container left as its termination message, if that is a JSON object; foreign code may have written it."""
    try:
        message = json.loads(state.get("message") or "{}")
    except (ValueError, RecursionError):  # brackets enough for the latter fit into a message
        return {}
    return message if isinstance(message, dict) else {}
