"""PendingTasks as the apiserver serves them, for tests without one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)

QUESTIONS = [{"id": "r1-q1", "text": "Which rack?"}, {"id": "r1-q2", "text": "Which disk?"}]


def at(seconds: float) -> str:
    """A moment relative to NOW."""
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def task(name: str = "mail-7", *, spec: Any = None, status: Any = None, age: float = 60, **metadata: Any) -> Any:
    """A mail of client acme; `spec`, `status` and metadata are merged over it."""
    return {
        "apiVersion": "jervis.dev/v1alpha1",
        "kind": "PendingTask",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "generation": 3,
            "creationTimestamp": at(-age),
            **metadata,
        },
        "spec": {
            "type": "EmailProcessing",
            "clientId": "acme",
            "mode": "Background",
            "content": "Please replace the disk.",
            **(spec or {}),
        },
        "status": status or {},
    }


def asking(kind: str, questions: Any = (), **spec: Any) -> Any:
    """A task that waits for a person after its second run."""
    waiting = {
        "type": "WaitingForUser",
        "status": "True",
        "reason": kind,
        "message": "Please.",
        "lastTransitionTime": at(-5),
        "observedGeneration": 3,
    }
    return task(
        spec=spec,
        status={
            "phase": "UserTask",
            "attempt": 2,
            "route": {"decision": "Execute"},
            "userTask": {"kind": kind, "questions": list(questions)},
            "conditions": [waiting],
        },
    )


def merged(raw: Any, patch: Any) -> Any:
    """What the apiserver makes of a merge patch of the spec (RFC 7396); a changed spec is a new generation."""

    def merge(old: Any, new: Any) -> Any:
        if not isinstance(new, dict):
            return new
        result = dict(old) if isinstance(old, dict) else {}
        for key, value in new.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merge(result.get(key), value)
        return result

    after = merge(raw, patch)
    after["metadata"]["generation"] += after["spec"] != raw["spec"]
    return after
