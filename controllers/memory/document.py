"""The task memory of one task as a document: what the orchestrator's Job may know about it.

Source: seed 000 "TaskMemory - Context Passing"; the Job has no access to the Kubernetes API.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from crds import labels, order, pendingtask

TITLE_ANNOTATION = labels.TITLE


def of_task(task: pendingtask.PendingTask, attempt: int, now: datetime) -> dict[str, Any]:
    """Everything but the qualifier's findings. Absent values are null, so that an update takes old ones away.

    Of messages and answers only what the claim counted: a message that came after it makes the task run once more, and
    would otherwise be read by both runs.
    """
    spec, status, meta = task.spec, task.status, task.metadata
    return {
        "taskUid": meta.uid,
        "namespace": meta.namespace,
        "name": meta.name,
        "title": meta.annotations.get(TITLE_ANNOTATION, ""),
        "type": spec.type.value,
        "mode": order.mode(spec).value,
        "correlationId": spec.correlation_id,
        "scope": _scope(spec),
        "sourceUrn": spec.source_urn,
        "content": spec.content,
        "contentRef": spec.content_ref.wire() if spec.content_ref else None,
        "attachments": [one.wire() for one in spec.attachments],
        "messages": [one.wire() for one in spec.messages[: status.messages_seen]],
        "answers": [one.wire() for one in spec.answers[: status.answers_seen]],
        # Not spec.approval: that may be about a request of long ago, or about none.
        "approvals": [one.wire() for one in status.approvals],
        "budget": spec.budget.wire() if spec.budget else None,
        "routingDecision": status.route.decision.value if status.route else None,
        "routingReason": status.route.reason if status.route else None,
        "attempt": attempt,
        "updatedAt": now,
    }


def of_findings(
    task: pendingtask.PendingTask, summary: str, node_keys: Sequence[str], chunk_ids: Sequence[str], now: datetime
) -> dict[str, Any]:
    """What qualification found out; kept from then on. Whose it is stands with it: a task may never be dispatched."""
    return {
        "namespace": task.metadata.namespace,
        "name": task.metadata.name,
        "scope": _scope(task.spec),
        "contextSummary": summary,
        "graphNodeKeys": list(node_keys),
        "ragDocumentIds": list(chunk_ids),
        "updatedAt": now,
    }


def _scope(spec: pendingtask.Spec) -> dict[str, str]:
    return {"clientId": spec.client_id, "projectId": spec.project_id, "groupId": spec.group_id}
