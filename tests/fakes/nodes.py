"""What the Job controller and the kubelet write: pods of Jobs, states of containers, the ends of Jobs.

Who plays them differs in what drives it: `tests/operator/kubelet.py` polls in a thread, `tests/faults/nodes.py` follows
the record of a campaign, `bench/operator/kubelet.py` a watch, with as few writes as it can.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from controllers.pendingtask import job

Object = dict[str, Any]
POD = {
    "containers": [{"name": job.CONTAINER, "image": "fake"}],
    "restartPolicy": "Never",
    "automountServiceAccountToken": False,
}
"""The spec of a pod that no node has."""


def moment() -> str:
    """Now, as objects have it."""
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def pod(made: Object, name: str) -> Object:
    """A pod of that Job, on a node."""
    meta, worn = made["metadata"], made["spec"]["template"]["metadata"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "metadata": {
            "name": name,
            "labels": worn.get("labels"),
            "annotations": worn.get("annotations"),
            "ownerReferences": [owner],
        },
        "spec": {**POD, "nodeName": "fake-node"},
    }


def running() -> Object:
    """The state of a container that has just begun."""
    return {"running": {"startedAt": moment()}}


def ended(code: int, message: Object | str | None = None, *, reason: str = "", began: str = "") -> Object:
    """The state of a container that has ended with this exit code and termination message."""
    told = {} if message is None else {"message": message if isinstance(message, str) else json.dumps(message)}
    reason = reason or ("Completed" if code == 0 else "Error")
    at = moment()
    return {"terminated": {"exitCode": code, "reason": reason, **told, "startedAt": began or at, "finishedAt": at}}


def container(state: Object, name: str = job.CONTAINER) -> Object:
    """The status of a container."""
    return {"name": name, "state": state, "ready": False, "restartCount": 0, "image": "fake", "imageID": "fake"}


def pod_status(phase: str, state: Object) -> Object:
    """The status of a pod with one container."""
    return {"phase": phase, "containerStatuses": [container(state)]}


def ends(code: int, reason: str = "BackoffLimitExceeded") -> tuple[Object, Object]:
    """The two statuses that the Job controller writes once the pod of a Job has ended, in order. `reason` is that of a
    failure."""
    if code == 0:
        over = {"active": 0, "ready": 0, "succeeded": 1, **_conditions("CompletionsReached", "SuccessCriteriaMet")}
        complete = _conditions("CompletionsReached", "SuccessCriteriaMet", "Complete")
        return over, {"completionTime": moment(), **complete}
    failed = _conditions(reason, "FailureTarget", "Failed")
    return {"active": 0, "ready": 0, "failed": 1, **_conditions(reason, "FailureTarget")}, failed


def _conditions(reason: str, *types: str) -> Object:
    at = moment()
    known = {"status": "True", "reason": reason, "lastProbeTime": at, "lastTransitionTime": at}
    return {"conditions": [{"type": one, **known} for one in types]}
