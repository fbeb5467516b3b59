"""The files that came with a task become knowledge before the task is routed; one that cannot does not hold it up.

What the knowledge base refuses (a damaged file, a macro, one that is too large) is told by the condition
`AttachmentsIngested`, and the task goes on. While something is merely away the task waits as it does for its content,
but for files no longer than `PATIENCE` tries: then it goes on without them, and the condition says so.
"""

from __future__ import annotations

from controllers.pendingtask import ingestion
from controllers.pendingtask.decision import View, condition
from controllers.pendingtask.world import Attached, Ingested
from crds import conditions, pendingtask, scope
from crds.priority import Priority
from kb import client, wire, writing

CONDITION = "AttachmentsIngested"
PATIENCE = 8
"""Tries of a task's qualification after which files whose readers are away are left out: about fifteen minutes."""
_SHOWN = 10
_REASON_CHARS = 150


def drafts(task: pendingtask.PendingTask) -> list[writing.AttachmentDraft]:
    """One per file; the names are `ingestion.files`, so that none replaces another."""
    spec = task.spec
    made = []
    for one, name in zip(spec.attachments, ingestion.files(task), strict=True):
        ref = one.content_ref
        made.append(
            writing.AttachmentDraft(
                scope=scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id),
                attached_to=ingestion.source(task),
                name=name,
                content_ref=wire.ContentRef(key=ref.key, sha256=ref.sha256, bytes=ref.bytes),
                title=ingestion.title(task)[:700],
                observed_at=task.metadata.creation_timestamp,
            )
        )
    return made


async def ingest(kb: client.Client, task: pendingtask.PendingTask, urgency: Priority) -> Attached:
    """Send every file. Raises `kb.client.Unavailable` while waiting can still help."""
    tried = task.status.retry.count if task.status.retry else 0
    chunk_ids: list[str] = []
    refused: list[tuple[str, str]] = []
    away = False
    for draft in drafts(task):
        try:
            reply = await kb.learning.attachment(draft, urgency=urgency)
        except client.Rejected as error:
            remedy = f" {error.remedy}" if error.remedy else ""
            refused.append((draft.name, f"{error.message}.{remedy}"))
        except client.Unavailable as error:
            if tried < PATIENCE:
                raise
            away = True
            refused.append((draft.name, f"{error.message} (after {tried} tries)"))
        else:
            chunk_ids += reply.chunk_ids
    return Attached(tuple(chunk_ids), tuple(refused), away)


def told(view: View, found: Ingested) -> tuple[conditions.Condition, ...]:
    """What became of the files, as a condition; nothing when there were none."""
    files = len(view.task.spec.attachments)
    if found.attached is None or not files:
        return ()
    refused = found.attached.refused
    if not refused:
        message = f"{files} of {files} files are in the knowledge base."
        return (condition(view, CONDITION, True, "Ingested", message),)
    listed = [f"{name}: {why[:_REASON_CHARS]}" for name, why in refused[:_SHOWN]]
    more = [f"and {len(refused) - _SHOWN} more"] if len(refused) > _SHOWN else []
    message = f"{files - len(refused)} of {files} files are in the knowledge base. " + "; ".join([*listed, *more])
    reason = "Unavailable" if found.attached.away else "Rejected"
    return (condition(view, CONDITION, False, reason, message[:2048]),)
