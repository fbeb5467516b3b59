"""Finished tasks for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from controllers.archive.finished import Finished
from crds import errors, scope
from crds.phases import Phase

NOW = datetime(2027, 3, 1, 12, 0, 0, tzinfo=UTC)
UID = "0f9a1c2e-5b7d-4e21-9a55-3c2f6d8b1e00"


def ended(uid: str, hours: float | None = 1, *, archived: bool = True, **more: Any) -> Finished:
    """A Completed task of client acme that ended `hours` ago; None: at an unknown time."""
    known: dict[str, Any] = {"namespace": "ns", "name": uid, "version": "7", "generation": 1, "client": "acme"}
    known |= {"phase": Phase.COMPLETED, **more}
    completed = None if hours is None else NOW - timedelta(hours=hours)
    return Finished(uid=uid, completed=completed, archived=archived, **known)


async def no_contents(_: scope.Scope, key: str) -> bytes:
    """A knowledge base that stores nothing."""
    raise errors.Permanent(f"There is no content {key}.")


def raw(phase: str = "Completed", **metadata: Any) -> dict[str, Any]:
    """An object as the API serves it."""
    meta = {
        "name": "mail-1",
        "namespace": "ns",
        "uid": UID,
        "resourceVersion": "41",
        "generation": 2,
        "creationTimestamp": "2027-03-01T10:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        **metadata,
    }
    return {
        "apiVersion": "jervis.dev/v1alpha1",
        "kind": "PendingTask",
        "metadata": meta,
        "spec": {"type": "EmailProcessing", "clientId": "acme", "content": "hello"},
        "status": {
            "phase": phase,
            "attempt": 2,
            "completedAt": "2027-03-01T11:00:00Z",
            "route": {"decision": "Execute"},
            "result": {"summary": "It is done.", "exitReason": "Answered"},
        },
    }
