"""The document of `task_archive`: the whole object without managedFields, the stored result, and what is asked for.

    {_id: uid, namespace, name, clientId, phase, completedAt, archivedAt, version, object, result, sweptAt?, outcome?}

`version` is the resourceVersion that was archived, as text. `sweptAt` is set once the run's own documents are removed,
`outcome` {told, reason, at} once the outcome was reported to the knowledge base (`controllers.outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from controllers.archive.finished import Finished


def of(task: Finished, raw: Mapping[str, Any], result: Mapping[str, Any] | None, now: datetime) -> dict[str, Any]:
    """`raw` is the object at `task.version`; `result` its document of `task_results`, or None when there is none."""
    meta = {key: value for key, value in raw["metadata"].items() if key != "managedFields"}
    return {
        "_id": task.uid,
        "namespace": task.namespace,
        "name": task.name,
        "clientId": task.client,
        "phase": task.phase.value,
        # One that does not say when it ended is listed by when it was archived.
        "completedAt": task.completed or now,
        "archivedAt": now,
        "version": task.version,
        "object": {**raw, "metadata": meta},
        "result": None if result is None else dict(result),
    }
