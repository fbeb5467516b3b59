"""Documents of the archive as the answers of `contracts.api.history`. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from contracts.api.history import Entry, Failure, Page, Problem, Result, Whole
from controllers.archive.query import Place, Query, rfc3339

__all__ = ["Entry", "Failure", "Page", "Problem", "Result", "Whole", "page", "result", "whole"]


def page(found: Sequence[Mapping[str, Any]], query: Query) -> Page:
    """`found` are documents of the archive in order."""
    last = found[-1] if len(found) == query.limit else None
    following = Place(last["completedAt"], last["_id"]).text() if last is not None else None
    return Page(items=tuple(Entry.model_validate(_entry(one)) for one in found), next=following)


def whole(found: Mapping[str, Any]) -> Whole:
    """`found` is a document of the archive; times in the result become RFC 3339."""
    return Whole.model_validate({**_entry(found), "object": found["object"], "result": plain(found["result"])})


def result(uid: str, found: Mapping[str, Any], *, archived: bool) -> Result:
    """`found` has the task's namespace and name, and as `result` its document of `task_results`."""
    fields = {"uid": uid, "namespace": found["namespace"], "name": found["name"], "archived": archived}
    return Result.model_validate({**fields, "result": plain(found["result"])})


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
