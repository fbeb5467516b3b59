"""A fake kubelet and Job controller: plays the nodes' part through the API, which is the outside of the operator.

A Job without a task, of the warm pool, gets a pod that runs until the Job is claimed, fails or goes. It `asks` for its
task, as the program in it does, and works once it has it.

For every Job it creates a pod, lets it run, ends it with a termination message, and sets the Job's conditions as the
real controller does (SuccessCriteriaMet before Complete). What a run says is decided by `says(attempt, task)`. It
collects garbage as well: pods whose Job is gone. The Jobs of tasks that are gone are the operator's to delete.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

from kubernetes import client

from controllers.pendingtask import job, warm
from crds import exit_reasons, labels
from tests import waiting
from tests.fakes import nodes

Object = nodes.Object
Says = Callable[[str, int], dict[str, Any] | int | None]
"""(task name, attempt) -> termination message; an exit code without one; None: keep running."""


def answered(_: str, __: int) -> dict[str, Any]:
    return {"exitReason": "Answered", "summary": "It is done.", "ref": {"key": "k"}}


def never(_: str, __: int) -> None:
    """Runs go on for ever."""


class Work:
    """What runs say: nothing, until their task is let go."""

    def __init__(self) -> None:
        self.done: set[str] = set()

    def __call__(self, task: str, attempt: int) -> dict[str, Any] | None:
        return answered(task, attempt) if task in self.done else None


class Kubelet:
    """Polls the Jobs of one namespace in a thread. `seen`: (task uid, attempt) of each Job by its uid."""

    def __init__(
        self, api: Any, namespace: str, says: Says = answered, asks: Callable[[Object], None] = lambda _: None
    ) -> None:
        self._batch: Any = client.BatchV1Api(api)
        self._core: Any = client.CoreV1Api(api)
        self._namespace, self.says, self._asks = namespace, says, asks
        self.seen: dict[str, tuple[str, str]] = {}
        self.order: list[str] = []
        self._stop = threading.Event()
        self.lingering: set[str] = set()
        """Names of tasks whose pods ignore that they are to end."""
        self.late: set[str] = set()
        """Names of Jobs whose deadline is over."""
        self.killed: set[str] = set()
        """Names of Jobs whose container gets SIGKILL."""
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
        self._thread.join(waiting.PATIENCE)
        assert not self.errors, self.errors

    def duplicates(self) -> list[tuple[str, str]]:
        """(task uid, attempt) pairs that had more than one Job."""
        pairs = list(self.seen.values())
        return sorted({pair for pair in pairs if pairs.count(pair) > 1})

    def pods(self) -> list[Any]:
        """Pods of tasks that are there and have not ended, or have and stay for their Job."""
        return list(self._core.list_namespaced_pod(self._namespace, label_selector=job.UID_LABEL).items)

    def _listed(self, listing: Callable[..., Any], **selected: Any) -> list[Object]:
        """Objects as the API writes them: the client's models would cost more than all else here."""
        answer = listing(self._namespace, _preload_content=False, **selected)
        found: list[Object] = json.loads(answer.data)["items"]
        return found

    def _expire(self, one: Object, pods: list[Object]) -> None:
        """What the Job controller does at the deadline: the pod is asked to end, the Job has failed."""
        for each in pods:
            if each["metadata"]["name"] == _pod_name(one):
                self._end_early(each)
        for status in nodes.ends(1, "DeadlineExceeded"):
            self._status(one, status)

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            try:
                jobs = self._listed(self._batch.list_namespaced_job)
                # After the Jobs: a pod whose Job is not among them has none.
                pods = self._listed(self._core.list_namespaced_pod, label_selector=job.UID_LABEL)
                for one in jobs:
                    self._tend(one, pods)
                names = {_pod_name(one) for one in jobs}
                for each in pods:
                    if each["metadata"]["name"] not in names:
                        self._end_early(each)  # what the garbage collector does in the background
            except client.ApiException as error:
                if error.status not in (404, 409):
                    self.errors.append(f"{error.status}: {error.body}")
                    return

    def _tend(self, one: Object, pods: list[Object]) -> None:
        """`pods` are all that there were after the Jobs were listed."""
        meta, status = one["metadata"], one.get("status", {})
        uid, attempt = meta["labels"][job.UID_LABEL], meta["labels"].get(job.ATTEMPT_LABEL, "0")
        claimed = uid != labels.NO_TASK
        if claimed and meta["uid"] not in self.seen:
            self.seen[meta["uid"]] = (uid, attempt)
            self.order.append(meta["labels"][job.TASK_LABEL])
        if any(c["type"] in ("Complete", "Failed") for c in status.get("conditions", ())):
            return
        if meta["name"] in self.late:
            self._expire(one, pods)
            return
        name = _pod_name(one)
        own = [each for each in pods if each["metadata"]["name"] == name]
        if one["spec"].get("suspend"):
            for each in own:
                self._end_early(each)
            return
        if not status.get("startTime"):
            # Before the first pod, as the real controller does. Each step stands for itself: a conflict ends a pass,
            # and the next one goes on from what the apiserver has.
            self._status(one, {"startTime": nodes.moment()})
            return
        if not own:
            self._start(one, name)
            return
        if own[0]["status"]["phase"] == "Pending":
            if not self.absent:
                self._status(one, {"active": 1, "ready": 1})
                self._pod(name, "Running", nodes.running())
            return
        if meta["name"] in self.killed:
            self._end(one, name, 137)
            return
        if not warm.has_task(own[0]):
            self._asks(own[0])
            return
        said = self.says(meta["labels"][job.TASK_LABEL], int(attempt))
        if said is not None:
            self._end(one, name, said)

    def _end_early(self, pod: Object) -> None:
        """SIGTERM: it drains at once, and is gone; unless it lingers."""
        name, task = pod["metadata"]["name"], pod["metadata"]["labels"].get(job.TASK_LABEL, "")
        if task in self.lingering:
            return
        if pod["status"]["phase"] == "Running":
            said = {"exitReason": "Drained", "summary": "SIGTERM"}
            self._pod(name, "Failed", nodes.ended(exit_reasons.DRAINED, said))
        self.drained.append(task)
        self._core.delete_namespaced_pod(name, self._namespace, grace_period_seconds=0)

    def _start(self, one: Object, name: str) -> None:
        self._core.create_namespaced_pod(self._namespace, nodes.pod(one, name))

    def _end(self, one: Object, name: str, said: dict[str, Any] | int) -> None:
        if isinstance(said, int):
            code, message = said, None
        else:
            code = said.get(
                "exitCode",
                0 if exit_reasons.ExitReason(said["exitReason"]) in exit_reasons.FINAL | exit_reasons.ASKS else 42,
            )
            message = said
        self._pod(name, "Succeeded" if code == 0 else "Failed", nodes.ended(code, message))
        for status in nodes.ends(code):
            self._status(one, status)

    def _pod(self, name: str, phase: str, state: dict[str, Any]) -> None:
        body = {"status": nodes.pod_status(phase, state)}
        self._core.patch_namespaced_pod_status(name, self._namespace, body)

    def _status(self, one: Object, status: dict[str, Any]) -> None:
        self._batch.patch_namespaced_job_status(one["metadata"]["name"], self._namespace, {"status": status})


def _pod_name(one: Object) -> str:
    """Of the only pod of a Job."""
    return f"{one['metadata']['name']}-pod00"
