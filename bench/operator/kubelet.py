"""A fake Job controller and kubelet that costs little: four writes per Job, driven by a watch.

For every Job: a pod, running; then ended with a termination message; then the Job complete. With `hold` runs never end.
A suspended Job's pod goes at once, as if it had drained.
"""

from __future__ import annotations

import asyncio
from typing import Any

import kube
from controllers.pendingtask import job
from crds import errors, exit_reasons
from tests.fakes import nodes

KIND = {"apiVersion": "batch/v1", "kind": "Job"}
_SAID = {"exitReason": "Answered", "summary": "It is done.", "ref": {"key": "k"}}


class Kubelet:
    """`run_seconds` is how long a run takes. Stamps are monotonic seconds of the event's arrival."""

    def __init__(self, api: kube.Kube, namespace: str, *, run_seconds: float = 0.0, hold: bool = False) -> None:
        self._api, self._namespace = api, namespace
        self._seconds, self.hold = run_seconds, hold
        self._runs: dict[str, asyncio.Task[None]] = {}
        self._draining: set[asyncio.Task[None]] = set()
        self._pods: dict[str, kube.Object] = {}
        self.created: dict[str, float] = {}
        """By task name: when its first Job was seen."""
        self.suspended: dict[str, float] = {}
        """By task name: when its Job was first seen suspended."""
        self.jobs: dict[tuple[str, str], int] = {}
        """(task uid, attempt) -> how many Jobs."""
        self.failures: list[str] = []

    def received(self, kind: str, raw: kube.Object, at: float) -> None:
        """An event of a Job."""
        labels = raw["metadata"]["labels"]
        task, name = labels[job.TASK_LABEL], raw["metadata"]["name"]
        if kind == "ADDED":
            self.created.setdefault(task, at)
            key = (labels[job.UID_LABEL], labels[job.ATTEMPT_LABEL])
            self.jobs[key] = self.jobs.get(key, 0) + 1
        if kind == "DELETED":
            return
        over = any(one["type"] in ("Complete", "Failed") for one in (raw.get("status") or {}).get("conditions") or ())
        if raw["spec"].get("suspend"):
            self.suspended.setdefault(task, at)
            running = self._runs.pop(name, None)
            if running is not None:
                running.cancel()
                self._draining.add(asyncio.create_task(self._drain(name), name=f"drain {name}"))
        elif not over and name not in self._runs:
            self._runs[name] = asyncio.create_task(self._run(raw), name=f"run {name}")

    async def running(self, count: int) -> bool:
        """So many tasks have had a Job."""
        return len(self.created) >= count

    async def gave_way(self, count: int) -> bool:
        """So many Jobs have been suspended."""
        return len(self.suspended) >= count

    async def end(self) -> None:
        """Stop all runs."""
        everything = [*self._runs.values(), *self._draining]
        for one in everything:
            one.cancel()
        await asyncio.gather(*everything, return_exceptions=True)

    async def _run(self, raw: kube.Object) -> None:
        name, began = raw["metadata"]["name"], nodes.moment()
        try:
            pod = await self._api.create(kube.PODS, self._namespace, nodes.pod(raw, f"{name}-pod00"))
            self._pods[name] = await self._status(pod, "Running", nodes.running())
            if self.hold:
                return
            await asyncio.sleep(self._seconds)
            await self._status(self._pods[name], "Succeeded", nodes.ended(0, _SAID, began=began))
            over, complete = nodes.ends(0)
            status = {**over, **complete, "startTime": began}
            await self._api.replace(kube.JOBS, {**_lean(raw), **KIND, "status": status}, "status")
        except errors.JervisError as error:
            self.failures.append(error.message)

    async def _drain(self, name: str) -> None:
        """SIGTERM, a checkpoint, exit code 42."""
        said = {"exitReason": "Drained", "summary": "Drained."}
        try:
            await self._status(self._pods[name], "Failed", nodes.ended(exit_reasons.DRAINED, said))
        except errors.JervisError as error:
            self.failures.append(error.message)

    async def _status(self, pod: kube.Object, phase: str, state: dict[str, Any]) -> kube.Object:
        status = {**pod["status"], **nodes.pod_status(phase, state)}
        return await self._api.replace(kube.PODS, {**_lean(pod), "status": status}, "status")


def _lean(raw: kube.Object) -> kube.Object:
    """Without what the server keeps for itself and would only have to read: a real kubelet sends a patch."""
    return {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "managedFields"}}
