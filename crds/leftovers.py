"""What is kept of tasks in MongoDB beside their objects: by collection, so that nobody who deletes forgets one.

Written by the operator and by runs; deleted by the operator when its time is over, and by the knowledge base when a
scope is erased.
"""

from __future__ import annotations

from collections.abc import Mapping

ARCHIVE = "task_archive"
"""Finished tasks: {_id: uid, clientId, object: {spec: {projectId?, groupId?}}, ...} (`controllers.archive.record`)."""
MEMORY = "task_memory"
"""What a run may know: {_id: uid, scope: {clientId, projectId, groupId}, ...} (`controllers.memory.document`)."""
RESULTS = "task_results"
OF_RUNS: Mapping[str, str] = {
    # The fence first: a run that still lives, against all odds, may write nothing from then on.
    "orchestrator_fences": "_id",
    "orchestrator_checkpoint_writes": "thread_id",
    "orchestrator_checkpoints": "thread_id",
    "orchestrator_artifacts": "taskUid",
    "orchestrator_ledger": "taskUid",
    RESULTS: "_id",
    # The memory last: a removal that was cut off finds the task by it again.
    MEMORY: "_id",
}
"""What runs leave behind: collection -> the field that holds the task's uid (see `orchestrator_job`), in the order of
removal."""
