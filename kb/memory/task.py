"""Task memory: what one task knows (seed 000 "TaskMemory - Context Passing").

The operator writes `task_memory` before it creates a Job; here it is read, and a run may add structured data to it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from contracts import mongo_collections
from crds import scope
from kb import api, errors, mongo, visibility

COLLECTION = mongo_collections.MEMORY
MOST_OF_ONE = 200
"""Tasks of one correlationId that are read."""
# Keys of a task's structured data; a run that has more to say ingests it as knowledge.
_MOST = 1000


class Tasks:
    """Raises `kb.errors.Away`, and `kb.errors.NotFound` for what is not there or not visible."""

    def __init__(self, database: mongo.Database, clock: Callable[[], datetime]) -> None:
        self._tasks = database[COLLECTION]
        self._clock = clock

    async def load(self, viewer: scope.Scope, task_uid: str) -> api.TaskMemory:
        """The memory of a task."""
        return _memory(await self._visible(viewer, task_uid))

    async def conversation(self, viewer: scope.Scope, correlation_id: str) -> list[api.TaskMemory]:
        """The memories of the tasks with that correlationId which the viewer sees; at most `MOST_OF_ONE`."""
        wanted = {"correlationId": correlation_id, "scope.clientId": viewer.client_id}
        with mongo.translated():
            rows = [one async for one in self._tasks.find(wanted).sort("_id", 1).limit(MOST_OF_ONE)]
        return [_memory(one) for one in rows if visibility.sees(viewer, scope.Scope.model_validate(one["scope"]))]

    async def owner(self, viewer: scope.Scope, task_uid: str) -> scope.Scope:
        """Whose task it is."""
        return scope.Scope.model_validate((await self._visible(viewer, task_uid))["scope"])

    async def add(self, viewer: scope.Scope, task_uid: str, findings: api.Findings) -> api.TaskMemory:
        """Merge structured data into the memory; keys that are there are replaced."""
        known = await self._visible(viewer, task_uid)
        merged = {**(known.get("structuredData") or {}), **findings.structured_data}
        if len(merged) > _MOST:
            raise errors.TooLarge(
                f"the task has {len(merged)} pieces of structured data, at most {_MOST} are kept",
                field="structuredData",
                remedy="Ingest what is worth knowing with POST /api/v1/ingest.",
            )
        said: dict[str, Any] = {f"structuredData.{key}": value for key, value in findings.structured_data.items()}
        with mongo.translated():
            await self._tasks.update_one({"_id": task_uid}, {"$set": {**said, "updatedAt": self._clock()}})
        return _memory(await self._visible(viewer, task_uid))

    async def _visible(self, viewer: scope.Scope, task_uid: str) -> dict[str, Any]:
        with mongo.translated():
            found: dict[str, Any] | None = await self._tasks.find_one({"_id": task_uid})
        owner = scope.Scope.model_validate(found["scope"]) if found and found.get("scope") else None
        if found is None or owner is None or not visibility.sees(viewer, owner):
            raise errors.NotFound(
                f"no memory of a task {task_uid!r} in this scope",
                field="uid",
                remedy="Use metadata.uid of a PendingTask that has been dispatched, and its scope.",
            )
        return found


def _memory(row: dict[str, Any]) -> api.TaskMemory:
    # Absent and null mean the same in these documents.
    return api.TaskMemory.model_validate({name: value for name, value in row.items() if value is not None})
