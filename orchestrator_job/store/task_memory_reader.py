"""Reads the task memory, which the operator wrote before it created the Job."""

from __future__ import annotations

from pydantic import ValidationError

from orchestrator_job import errors
from orchestrator_job.store import mongo, task_memory

COLLECTION = "task_memory"


async def load(database: mongo.Database, task_uid: str) -> task_memory.TaskMemory:
    """The memory of a task. Raises InvalidInput naming the field that is wrong, NoMemory when there is none."""
    document = await database.find_one(COLLECTION, {"_id": task_uid})
    if document is None:
        raise errors.NoMemory(
            f"There is no task memory for task {task_uid!r}.",
            field="JERVIS_TASK_UID",
            remedy=f"The operator writes {COLLECTION!r} before it creates the Job; check that both use one MongoDB.",
        )
    try:
        # The driver returns null as None; absent and null mean the same here.
        return task_memory.TaskMemory.model_validate(
            {key: value for key, value in document.items() if value is not None}
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(str(part) for part in first["loc"]) or "content"
        raise errors.InvalidInput(
            f"The task memory of {task_uid!r} is unusable: {path}: {first['msg']}.",
            field=f"{COLLECTION}.{path}",
        ) from error
