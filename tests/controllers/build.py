"""Tasks and worlds for tests, with everything defaulted that a test does not care about."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from controllers.pendingtask import decision, observed
from controllers.pendingtask import job as jobs
from controllers.pendingtask.decide import decide
from controllers.pendingtask.slots import router_use
from crds import pendingtask
from crds.phases import Phase

T = TypeVar("T")
RELEASE = "jervis"
"""The namespace of the release, where runs live."""
NOW = datetime(2027, 3, 1, 12, 0, 0, tzinfo=UTC)
UID = "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"
GPU = observed.Slots(total=2, free=(("gpu-0", 2),))


def present(value: T | None) -> T:
    """What has to be there."""
    assert value is not None
    return value


def task(
    phase: Phase | None = None,
    *,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **metadata: Any,
) -> pendingtask.PendingTask:
    """A Background mail of client acme in `phase`."""
    return pendingtask.PendingTask.model_validate(
        {
            "metadata": {
                "name": "mail-1",
                "namespace": "default",
                "uid": UID,
                "resourceVersion": "7",
                "generation": 1,
                "creationTimestamp": "2027-03-01T11:00:00Z",
                **metadata,
            },
            "spec": {"type": "EmailProcessing", "clientId": "acme", "content": "hello", **(spec or {})},
            "status": {**({"phase": phase.value} if phase else {}), **(status or {})},
        }
    )


def routed(phase: Phase, *, spec: dict[str, Any] | None = None, **status: Any) -> pendingtask.PendingTask:
    """A qualified task; in a phase that holds a slot it has its dispatch too."""
    known: dict[str, Any] = {"route": {"decision": "Execute", "reason": "asked"}}
    if phase in (Phase.DISPATCHED_GPU, Phase.ORCHESTRATING):
        known |= {
            "attempt": 1,
            "dispatch": {"jobName": "mail-1-0f9a1c2e-1", "backend": "gpu-0", "threadId": UID},
            "phaseTimes": {phase.value: "2027-03-01T11:59:00Z"},
        }
    return task(phase, spec=spec, status={**known, **status})


def asked(kind: str, *ids: str, spec: dict[str, Any] | None = None, **more: Any) -> pendingtask.PendingTask:
    """A task that waits for a person, since generation 4; `ids` are its questions'. It was edited since."""
    questions = [{"id": one, "text": "?"} for one in ids]
    waiting = condition("WaitingForUser", "True", kind, observedGeneration=4)
    status = {"attempt": 2, "userTask": {"kind": kind, "questions": questions}, "conditions": [waiting], **more}
    current = routed(Phase.USER_TASK, spec=spec, **status)
    return changed(current, metadata={"generation": 5})


def changed(
    current: pendingtask.PendingTask,
    *,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> pendingtask.PendingTask:
    """The same task with other values of these fields, by their names in Python."""
    return current.model_copy(
        update={
            "spec": current.spec.model_copy(update=spec),
            "status": current.status.model_copy(update=status),
            "metadata": current.metadata.model_copy(update=metadata),
        }
    )


def condition(type_: str, status: str, reason: str, **more: Any) -> dict[str, Any]:
    """One that is an hour old, as the API serves it."""
    return {"type": type_, "status": status, "reason": reason, "lastTransitionTime": "2027-03-01T11:00:00Z", **more}


def job(state: observed.JobState = observed.JobState.ACTIVE, **more: Any) -> observed.JobView:
    """The Job of attempt 1."""
    suspended = state is observed.JobState.SUSPENDED
    return observed.JobView(name="mail-1-0f9a1c2e-1", uid="job-uid", state=state, suspended=suspended, **more)


def pod(attempt: int = 1, *, live: bool = True, started: bool = True, **more: Any) -> observed.PodView:
    """A pod of that attempt."""
    return observed.PodView(name=f"pod-{attempt}", attempt=attempt, live=live, started=started, **more)


def raw_job(uid: str = UID, attempt: int = 1, *, task: str = "mail-1", **more: Any) -> dict[str, Any]:
    """The Job of a run as the API serves it. `more`: metadata, and `status` and `spec`."""
    labels = {
        "jervis.dev/task-uid": uid,
        "jervis.dev/task": task,
        "jervis.dev/task-namespace": "team-a",
        "jervis.dev/attempt": str(attempt),
    }
    name = jobs.name(task, uid, attempt)
    meta = {"name": name, "namespace": RELEASE, "uid": f"uid of {name}", "resourceVersion": "5", "labels": labels}
    found = {"spec": more.pop("spec", {}), "status": more.pop("status", {})}
    return {"metadata": {**meta, "annotations": {"jervis.dev/task-name": task}, **more}, **found}


def raw_pod(name: str, uid: str = UID, attempt: int = 1, *, task: str = "mail-1", **more: Any) -> dict[str, Any]:
    """A pod of that run as the API serves it, Running and owned by its Job. `more`: metadata, and `status`."""
    owner = raw_job(uid, attempt, task=task)["metadata"]
    status = more.pop("status", {"phase": "Running"})
    meta = {
        "name": name,
        "namespace": RELEASE,
        "uid": name,
        "resourceVersion": "5",
        "creationTimestamp": "2027-03-01T12:00:00Z",
        "labels": owner["labels"],
        "annotations": {"jervis.dev/backend": "gpu-0"},
        "ownerReferences": [{"kind": "Job", "name": owner["name"], "uid": owner["uid"], "controller": True}],
    }
    return {"metadata": {**meta, **more}, "status": status}


def users(wall: Callable[[], datetime]) -> router_use.UserActivity:
    """What is known of users' activity where there is no router to ask."""
    return router_use.UserActivity(
        None,
        needed=lambda: False,
        changed=lambda: None,
        answered=lambda _: None,
        wall=wall,
        monotonic=lambda: wall().timestamp(),
    )


def apply(current: pendingtask.PendingTask, patch: Any, version: int = 0) -> pendingtask.PendingTask:
    """The task after the apiserver merged `patch` into its status (RFC 7396)."""
    raw = current.wire()
    raw["status"] = _merge(raw.get("status") or {}, patch)
    if version:
        raw["metadata"]["resourceVersion"] = str(version)
    return pendingtask.PendingTask.model_validate(raw)


def decided(
    current: pendingtask.PendingTask, around: observed.ObservedState, now: datetime = NOW
) -> pendingtask.PendingTask:
    """The task once the decision about it is written."""
    return apply(current, decide(current, around, now).status_patch)


def after(current: pendingtask.PendingTask, made: decision.Decision) -> pendingtask.Status:
    return apply(current, made.status_patch).status


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result
