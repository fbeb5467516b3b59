"""A fake kubelet and Job controller: plays the nodes' part through the API, which is the outside of the operator.

For every Job it creates a pod, lets it run, ends it with a termination message, and sets the Job's conditions as the
real controller does (SuccessCriteriaMet before Complete). What a run says is decided by `says(attempt, task)`. It
collects garbage as well: pods whose Job is gone. The Jobs of tasks that are gone are the operator's to delete.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kubernetes import client

from controllers.pendingtask import job
from crds import exits

Says = Callable[[str, int], dict[str, Any] | int | None]
"""(task name, attempt) -> termination message; an exit code without one; None: keep running."""


def answered(_: str, __: int) -> dict[str, Any]:
    return {"exitReason": "Answered", "summary": "It is done.", "ref": {"key": "k"}}


class Kubelet:
    """Polls the Jobs of one namespace in a thread. `seen`: (task uid, attempt) of each Job by its uid."""

    def __init__(self, api: Any, namespace: str, says: Says = answered) -> None:
        self._batch: Any = client.BatchV1Api(api)
        self._core: Any = client.CoreV1Api(api)
        self._namespace, self.says = namespace, says
        self.seen: dict[str, tuple[str, str]] = {}
        self.order: list[str] = []
        self._stop = threading.Event()
        self.lingering: set[str] = set()
        """Names of tasks whose pods ignore that they are to end."""
        self.late: set[str] = set()
        """Names of Jobs whose deadline is over."""
        self.absent = False
        """No node takes a pod: they stay Pending."""
        self.drained: list[str] = []
        """Names of tasks whose pods ended because their Job was suspended or deleted, in order."""
        self.errors: list[str] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Kubelet:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(20)
        assert not self.errors, self.errors

    def duplicates(self) -> list[tuple[str, str]]:
        """(task uid, attempt) pairs that had more than one Job."""
        pairs = list(self.seen.values())
        return sorted({pair for pair in pairs if pairs.count(pair) > 1})

    def pods(self) -> list[Any]:
        """Pods that are there and have not ended, or have and stay for their Job."""
        return list(self._core.list_namespaced_pod(self._namespace, label_selector=job.UID_LABEL).items)

    def _expire(self, one: Any) -> None:
        """What the Job controller does at the deadline: the pod is asked to end, the Job has failed."""
        for each in self.pods():
            if each.metadata.labels[job.UID_LABEL] == one.metadata.labels[job.UID_LABEL]:
                self._end_early(each)
        over = {"active": 0, "ready": 0, "failed": 1}
        self._status(one, {**over, **_over("FailureTarget", reason="DeadlineExceeded")})
        self._status(one, _over("FailureTarget", "Failed", reason="DeadlineExceeded"))

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            try:
                jobs = self._batch.list_namespaced_job(self._namespace).items
                for one in jobs:
                    self._tend(one)
                self._collect(jobs)
            except client.ApiException as error:
                if error.status not in (404, 409):
                    self.errors.append(f"{error.status}: {error.body}")
                    return

    def _tend(self, one: Any) -> None:
        attempt = one.metadata.labels[job.ATTEMPT_LABEL]
        if one.metadata.uid not in self.seen:
            self.seen[one.metadata.uid] = (one.metadata.labels[job.UID_LABEL], attempt)
            self.order.append(one.metadata.labels[job.TASK_LABEL])
        if any(c.type in ("Complete", "Failed") for c in one.status.conditions or ()):
            return
        if one.metadata.name in self.late:
            self._expire(one)
            return
        name = f"{one.metadata.name}-pod00"
        pods = self._core.list_namespaced_pod(self._namespace, field_selector=f"metadata.name={name}").items
        if one.spec.suspend:
            for each in pods:
                self._end_early(each)
            return
        if not one.status.start_time:
            # Before the first pod, as the real controller does. Each step stands for itself: a conflict ends a pass,
            # and the next one goes on from what the apiserver has.
            self._status(one, {"startTime": _now()})
            return
        if not pods:
            self._start(one, name)
            return
        if pods[0].status.phase == "Pending":
            if not self.absent:
                self._status(one, {"active": 1, "ready": 1})
                self._pod(name, "Running", {"running": {"startedAt": _now()}})
            return
        said = self.says(one.metadata.labels[job.TASK_LABEL], int(attempt))
        if said is not None:
            self._end(one, name, said)

    def _collect(self, jobs: list[Any]) -> None:
        """What the garbage collector does in the background."""
        names = {f"{one.metadata.name}-pod00" for one in jobs}
        for each in self._core.list_namespaced_pod(self._namespace, label_selector=job.UID_LABEL).items:
            if each.metadata.name not in names:
                self._end_early(each)

    def _end_early(self, pod: Any) -> None:
        """SIGTERM: it drains at once, and is gone; unless it lingers."""
        task = pod.metadata.labels[job.TASK_LABEL]
        if task in self.lingering:
            return
        if pod.status.phase == "Running":
            said = json.dumps({"exitReason": "Drained", "summary": "SIGTERM"})
            ended = {"exitCode": 42, "message": said, "reason": "Error", "startedAt": _now(), "finishedAt": _now()}
            self._pod(pod.metadata.name, "Failed", {"terminated": ended})
        self.drained.append(task)
        self._core.delete_namespaced_pod(pod.metadata.name, self._namespace, grace_period_seconds=0)

    def _start(self, one: Any, name: str) -> None:
        template = one.spec.template
        body = {
            "metadata": {
                "name": name,
                "labels": template.metadata.labels,
                "annotations": template.metadata.annotations,
                "ownerReferences": [
                    {
                        "apiVersion": "batch/v1",
                        "kind": "Job",
                        "name": one.metadata.name,
                        "uid": one.metadata.uid,
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "containers": [{"name": job.CONTAINER, "image": "fake"}],
                "restartPolicy": "Never",
                "automountServiceAccountToken": False,
                "nodeName": "fake-node",
            },
        }
        self._core.create_namespaced_pod(self._namespace, body)

    def _end(self, one: Any, name: str, said: dict[str, Any] | int) -> None:
        if isinstance(said, int):
            code, message, reason = said, "", "Error"
        else:
            code = said.get("exitCode", 0 if exits.ExitReason(said["exitReason"]) in exits.FINAL | exits.ASKS else 42)
            message, reason = json.dumps(said), "Completed"
        ended = {"exitCode": code, "message": message, "reason": reason, "startedAt": _now(), "finishedAt": _now()}
        self._pod(name, "Succeeded" if code == 0 else "Failed", {"terminated": ended})
        if code == 0:
            self._status(one, {"active": 0, "ready": 0, "succeeded": 1, **_over("SuccessCriteriaMet")})
            self._status(one, {"completionTime": _now(), **_over("SuccessCriteriaMet", "Complete")})
        else:
            self._status(one, {"active": 0, "ready": 0, "failed": 1, **_over("FailureTarget")})
            self._status(one, _over("FailureTarget", "Failed"))

    def _pod(self, name: str, phase: str, state: dict[str, Any]) -> None:
        container = {
            "name": job.CONTAINER,
            "state": state,
            "ready": False,
            "restartCount": 0,
            "image": "fake",
            "imageID": "fake",
        }
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        self._core.patch_namespaced_pod_status(name, self._namespace, body)

    def _status(self, one: Any, status: dict[str, Any]) -> None:
        self._batch.patch_namespaced_job_status(one.metadata.name, self._namespace, {"status": status})


def _over(*types: str, reason: str = "BackoffLimitExceeded") -> dict[str, Any]:
    reasons = {"Failed": reason, "FailureTarget": reason}
    return {
        "conditions": [
            {
                "type": one,
                "status": "True",
                "reason": reasons.get(one, "CompletionsReached"),
                "lastProbeTime": _now(),
                "lastTransitionTime": _now(),
            }
            for one in types
        ]
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
