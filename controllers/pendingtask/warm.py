"""A Job that is created before there is a task for it, and the one write that makes it the Job of a run. Pure.

A warm Job has the template of every run, without what a run has of its own: no task, no token, no deadline, no slot.
The claim is a merge patch with the resourceVersion that was seen: of several claims of one Job one alone succeeds. From
then on it has the labels of a run, and is one in every respect; only its name is not made of the task's. What its pod
is to do the pod asks for itself (`handover`), as the template of a Job cannot be changed.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from contracts.api import warm_assignment
from controllers import confined
from controllers.pendingtask import job
from crds import labels as names
from crds import pendingtask
from kube import lease

Raw = Mapping[str, Any]

LABEL = names.WARM
ASKED, GIVEN = "asked", "given"
"""Values of the annotation `crds.labels.HANDOVER`."""
PREFIX = "jervis-warm-"
"""Of the names of warm Jobs; no run made for a task is called so, as its name ends with a number."""
_IDENTITY = "/var/run/jervis-identity"
_TOKEN_SECONDS = 3600
"""Of the token by which a pod asks; the kubelet renews it."""


def manifest(suffix: str, template: job.Template, url: str, token: lease.FencingToken) -> dict[str, Any]:
    """A warm Job called PREFIX + `suffix`, as the leader with that `token` creates it. `url`: where its pod asks."""
    worn = {**template.labels, **job.COMMON_LABELS, job.UID_LABEL: names.NO_TASK, LABEL: digest(template, url)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": PREFIX + suffix,
            "namespace": template.namespace,
            "labels": dict(worn),
            "annotations": {**template.annotations, **job.fence(token)},
        },
        "spec": {
            **job.ONCE,
            "template": {
                "metadata": {"labels": worn, "annotations": dict(template.annotations)},
                "spec": _pod(template, url),
            },
        },
    }


def digest(template: job.Template, url: str) -> str:
    """16 hexadecimal digits: of all that a warm Job has from its template, whatever the order of the fields. A Job with
    another one is replaced."""
    whole = [dict(job.ONCE), _pod(template, url), dict(template.labels), dict(template.annotations)]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:16]


def claim(
    raw: Raw,
    task: pendingtask.PendingTask,
    attempt: int,
    template: job.Template,
    *,
    token: lease.FencingToken,
    now: datetime,
) -> dict[str, Any]:
    """The merge patch that makes the Job, as it was seen in `raw`, that of the run.

    Kubernetes counts activeDeadlineSeconds from the start of the Job: the time that it waited is added.
    """
    backend = task.status.dispatch.backend if task.status.dispatch else ""
    return {
        "metadata": {
            "resourceVersion": raw["metadata"]["resourceVersion"],
            "labels": job.labels(task, attempt),
            "annotations": {
                job.BACKEND_ANNOTATION: backend,
                job.TASK_NAME_ANNOTATION: task.metadata.name,
                **job.fence(token),
            },
        },
        "spec": {"activeDeadlineSeconds": _waited(raw, now) + job.deadline(task, template)},
    }


def marks(claimed: Raw, pod: Raw) -> dict[str, Any] | None:
    """The merge patch by which the pod of a claimed Job gets the labels of its run; None if it has them.

    Selectors (network policies, the command line, the caches of the operator) find the pods of a run by them.
    """
    run = {key: value for key, value in claimed["metadata"]["labels"].items() if key in _RUN_LABELS}
    if run.items() <= (pod["metadata"].get("labels") or {}).items():
        return None
    notes = claimed["metadata"].get("annotations") or {}
    backend = {job.BACKEND_ANNOTATION: notes.get(job.BACKEND_ANNOTATION, "")}
    # The uid is a precondition: another pod of that name is another object.
    return {"metadata": {"uid": pod["metadata"]["uid"], "labels": run, "annotations": backend}}


def asks(pod: Raw) -> dict[str, Any]:
    """The merge patch that records that the pod has reached the operator."""
    return {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {names.HANDOVER: ASKED}}}


def gives(claimed: Raw, pod: Raw) -> dict[str, Any] | None:
    """The merge patch that records that the pod gets the task of its Job, with the labels of the run; None if it has
    been written."""
    if has_task(pod):
        return marks(claimed, pod)
    patch: dict[str, Any] = marks(claimed, pod) or {"metadata": {"uid": pod["metadata"]["uid"]}}
    patch["metadata"]["annotations"] = {**patch["metadata"].get("annotations", {}), names.HANDOVER: GIVEN}
    return patch


def has_asked(pod: Raw) -> bool:
    """Whether the pod has reached the operator: its network, its token and the operator's rights are as they should."""
    return names.HANDOVER in (pod["metadata"].get("annotations") or {})


def has_task(pod: Raw) -> bool:
    """Whether the pod works: one that was not started in advance does from the start."""
    return not is_warm(pod) or (pod["metadata"].get("annotations") or {}).get(names.HANDOVER) == GIVEN


def is_warm(raw: Raw) -> bool:
    """Whether a Job or pod was started in advance, claimed or not."""
    return LABEL in (raw["metadata"].get("labels") or {})


def is_claimed(raw: Raw) -> bool:
    """Whether a Job or pod belongs to a run: a warm one does once it is claimed, another one always."""
    return bool((raw["metadata"].get("labels") or {}).get(job.UID_LABEL) != names.NO_TASK)


def named(name: str) -> bool:
    """Whether a Job's name is that of a warm one."""
    return name.startswith(PREFIX)


_RUN_LABELS = frozenset({job.UID_LABEL, job.TASK_LABEL, job.TASK_NAMESPACE_LABEL, job.ATTEMPT_LABEL})


def _pod(template: job.Template, url: str) -> dict[str, Any]:
    pod = job.pod(template, job.shared(template))
    source = {"audience": warm_assignment.AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "token"}
    identity = {"name": "identity", "projected": {"sources": [{"serviceAccountToken": source}], "defaultMode": 0o440}}
    job.mount(pod, identity, _IDENTITY)
    # The run's token is written here by the pod itself: in memory, and gone with the pod.
    job.mount(
        pod, {"name": "run-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}, job.RUN_TOKEN, read_only=False
    )
    job.set_variable(pod, "JERVIS_HANDOVER_URL", url)
    job.set_variable(pod, "JERVIS_HANDOVER_TOKEN_FILE", f"{_IDENTITY}/token")
    job.set_variable(pod, "JERVIS_HANDOVER_KEEP", f"{job.RUN_TOKEN}/{confined.TOKEN_KEY}")
    return pod


def _waited(raw: Raw, now: datetime) -> int:
    """Whole seconds, rounded up, since the Job started."""
    started = (raw.get("status") or {}).get("startTime")
    return max(0, math.ceil((now - datetime.fromisoformat(started)).total_seconds())) if started else 0
