"""The history as JSON: one truth for the answers and for their OpenAPI document. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from controllers.archive.query import Place, Query, rfc3339
from crds import model, phases


class Entry(model.Model):
    """A finished task in a list."""

    uid: str
    """Identity of the object that it was."""
    namespace: str
    """Its namespace."""
    name: str
    """Its name; another task may have it now."""
    client_id: str
    """The client that its data belongs to."""
    project_id: str = ""
    """The client's project."""
    type: str
    """Where the work came from."""
    phase: phases.Phase
    """Done, Completed or Error."""
    created_at: str
    """When it was created; RFC 3339, as all times here."""
    completed_at: str
    """When it ended."""
    archived_at: str
    """When it was archived."""
    attempt: int = 0
    """Runs that it took."""
    decision: str = ""
    """What qualification decided."""
    exit_reason: str = ""
    """Why the last run ended."""
    summary: str = ""
    """How it ended, in words."""
    correlation_id: str = ""
    """Ties together what belongs to one conversation or import."""


class Page(model.Model):
    """Finished tasks, the one that ended last first."""

    items: tuple[Entry, ...]
    """At most `limit`."""
    next: str | None = None
    """Give it as `before` for the page that follows; null on the last one."""


class Whole(Entry):
    """Everything that is known of one finished task."""

    object: dict[str, Any]
    """The PendingTask as it was archived, without managedFields."""
    result: dict[str, Any] | None = None
    """What its last run stored in `task_results`; null when no run did."""


class Problem(model.Model):
    """What is wrong."""

    code: str
    """bad_request, not_found or unavailable."""
    message: str
    """A sentence."""
    field: str | None = None
    """The parameter that is wrong."""
    remedy: str | None = None
    """How to mend it."""


class Failure(model.Model):
    """Every answer that is not 200."""

    error: Problem
    """What is wrong."""


def page(found: Sequence[Mapping[str, Any]], query: Query) -> Page:
    """`found` are documents of the archive in order."""
    last = found[-1] if len(found) == query.limit else None
    following = Place(last["completedAt"], last["_id"]).text() if last is not None else None
    return Page(items=tuple(Entry.model_validate(_entry(one)) for one in found), next=following)


def whole(found: Mapping[str, Any]) -> Whole:
    """`found` is a document of the archive; times in the result become RFC 3339."""
    return Whole.model_validate({**_entry(found), "object": found["object"], "result": plain(found["result"])})


def plain(value: Any) -> Any:
    """Whatever MongoDB holds, as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, datetime):
        return rfc3339(value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def _entry(found: Mapping[str, Any]) -> dict[str, Any]:
    raw = found["object"]
    spec, status = raw["spec"], raw.get("status") or {}
    result = status.get("result") or {}
    return {
        "uid": found["_id"],
        "namespace": found["namespace"],
        "name": found["name"],
        "clientId": found["clientId"],
        "projectId": spec.get("projectId", ""),
        "type": spec["type"],
        "phase": found["phase"],
        "createdAt": raw["metadata"]["creationTimestamp"],
        "completedAt": rfc3339(found["completedAt"]),
        "archivedAt": rfc3339(found["archivedAt"]),
        "attempt": status.get("attempt", 0),
        "decision": (status.get("route") or {}).get("decision", ""),
        "exitReason": result.get("exitReason", ""),
        "summary": result.get("summary", ""),
        "correlationId": spec.get("correlationId", ""),
    }
