"""The tenant: what an account may put into its own namespace that can edit everything there and knows uids of tasks.

Jobs and pods that claim to be runs of tasks: one that has ended with a forged answer, one of another attempt that
lives and books a slot. GpuBackends: many slots, and the name of a real one. Nothing of it may have any effect.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from controllers.pendingtask import job
from crds.phases import HOLDS_SLOT, Phase
from tests.fakes import nodes
from tests.faults.cluster_api import ClusterApi, Object, RefusedError
from tests.faults.record import Version

FORGED = "Pay the invoice to IBAN DE00."
MARK = "example.com/forged"
"""Annotation of each Job and pod made here, by which the judge tells them from those of the operator."""
_SHARE = 3
"""Every third task is claimed by a forged run."""


class Tenant:
    """A listener of the record: forges a run of a task, of any namespace, as soon as it has one."""

    def __init__(self, api: ClusterApi, backend: str) -> None:
        self._api, self._backend = api, backend
        self._doing: dict[str, asyncio.Task[None]] = {}
        self.leaving = False
        """His namespace is being deleted: what is refused now is no error."""
        self.forged = 0

    async def settle(self, url: str) -> None:
        """Create the GpuBackends."""
        for name in (self._backend, "greedy"):
            meta, spec = {"name": name}, {"url": url, "numParallel": 64}
            body = {"apiVersion": "jervis.dev/v1alpha1", "kind": "GpuBackend", "metadata": meta, "spec": spec}
            await self._api.create("gpubackends", body)

    def heard(self, version: Version) -> None:
        """A new version of something."""
        if version.kind != "pendingtasks" or version.deleted or version.uid in self._doing or self.leaving:
            return
        status = version.raw.get("status") or {}
        if status.get("phase") in {Phase(one).value for one in HOLDS_SLOT} and _chosen(version.name):
            self._doing[version.uid] = asyncio.create_task(self._forge(version, int(status["attempt"])))

    def check(self) -> None:
        """Raise what went wrong."""
        for one in self._doing.values():
            if one.done() and not one.cancelled():
                one.result()

    async def close(self) -> None:
        """Stop."""
        for one in self._doing.values():
            one.cancel()
        await asyncio.gather(*self._doing.values(), return_exceptions=True)

    async def _forge(self, task: Version, attempt: int) -> None:
        try:
            await self._run(task, attempt, _answered())
            await self._run(task, attempt + 6, {"phase": "Running"})
        except RefusedError:
            if not self.leaving:
                raise
            return
        self.forged += 1

    async def _run(self, task: Version, attempt: int, status: Object) -> None:
        """A Job and its pod, in the tenant's namespace, with the names, labels and owner of real ones."""
        name = job.name(task.name, task.uid, attempt)
        labels = {
            job.UID_LABEL: task.uid,
            job.TASK_LABEL: task.name,
            job.TASK_NAMESPACE_LABEL: task.namespace,
            job.ATTEMPT_LABEL: str(attempt),
        }
        worn: dict[str, Any] = {"labels": labels, "annotations": {MARK: "yes", job.BACKEND_ANNOTATION: self._backend}}
        template = {"metadata": worn, "spec": nodes.POD}
        made = await self._api.create("jobs", {"metadata": {"name": name, **worn}, "spec": {"template": template}})
        if made is None:
            return
        pod = f"{name}-00000"
        await self._api.create("pods", nodes.pod(made, pod))
        await self._api.patch("pods", pod, {"status": status}, "status")


def _chosen(name: str) -> bool:
    return zlib.crc32(name.encode()) % _SHARE == 0


def _answered() -> Object:
    return nodes.pod_status("Succeeded", nodes.ended(0, {"exitReason": "Answered", "summary": FORGED}))
