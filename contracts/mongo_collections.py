"""The MongoDB collections that hold data of tasks: one list for every process that deletes.

The operator and the runs write them. The operator deletes documents when they expire, the knowledge base when a scope
is erased.
"""

from __future__ import annotations

from collections.abc import Mapping

from crds import scope

ARCHIVE = "task_archive"
"""Finished tasks: {_id: uid, clientId, object: {spec: {projectId?, groupId?}}, ...} (`controllers.archive.record`)."""
MEMORY = "task_memory"
"""Input of runs: {_id: uid, scope: {clientId, projectId, groupId}, ...} (`controllers.memory.document`)."""
RESULTS = "task_results"
NOTICES = "task_notices"
"""What webhooks are sent about tasks (`controllers.notices`)."""
SOURCE_ITEMS = "source_items"
"""Items of Connections: {_id, scope: {clientId, projectId, groupId}, content?, ...} (`sources.core.items`)."""
MEETINGS, TRANSCRIPTS = "meetings", "meeting_transcripts"
"""Meetings: {_id, clientId, projectId, groupId, file?, ...} and {_id, told, attempt?}
(`sources.providers.meetings.store`)."""
RECORDINGS, RECORDING_CHUNKS = "recordings.files", "recordings.chunks"
"""GridFS: {_id: the meeting's `file`, ...} and {files_id: the same, n, data} (`sources.providers.meetings.audio`)."""
METRICS = "delegation_metrics"
"""What delegations took: {_id, taskUid, clientId, projectId, ...} (`orchestrator_job.agents.metrics`). They outlive
their tasks, and hold no word of them."""
CHAT, CHAT_SUMMARIES = "chat_history", "chat_summaries"
"""What was said in conversations: {_id, clientId, projectId, groupId, conversation, ...}
(`orchestrator_job.context.conversation`). They outlive their tasks."""
CONTEXT = "orchestrator_context"
"""What steps and goals of runs came to: {_id, clientId, projectId, groupId, taskUid, ...}
(`orchestrator_job.context.entries`). They outlive their tasks."""
SESSIONS = "session_memory"
"""What happened lately: {_id, clientId, projectId, groupId, summary, ...} (`orchestrator_job.effects.results`,
`kb.memory.session`). They outlive their tasks."""
EFFECTS = "source_effects"
"""What runs did at Connections: {_id, taskUid, scope: {...}, ...} (`sources.effects.ledger`)."""
OF_RUNS: Mapping[str, str] = {
    # The fence first: a run that is unexpectedly still alive can write nothing after that.
    "orchestrator_fences": "_id",
    "orchestrator_checkpoint_writes": "thread_id",
    "orchestrator_checkpoints": "thread_id",
    "orchestrator_artifacts": "taskUid",
    "orchestrator_ledger": "taskUid",
    "orchestrator_journal": "taskUid",
    "orchestrator_prepared": "taskUid",
    "orchestrator_workspaces": "taskUid",
    "sandbox_commands": "taskUid",
    NOTICES: "taskUid",
    EFFECTS: "taskUid",
    RESULTS: "_id",
    # The memory last: an interrupted removal finds the task by it again.
    MEMORY: "_id",
}
"""Collections of `orchestrator_job`, the notices and the effects, in the order of removal: collection -> the field that
holds the task's uid."""


def session_owner(where: scope.Scope) -> dict[str, str]:
    """Fields of an entry of `SESSIONS`, which find those of exactly this owner. An entry of a project names no group,
    because the project may change it."""
    group = "" if where.project_id else where.group_id
    return {"clientId": where.client_id, "projectId": where.project_id, "groupId": group}
