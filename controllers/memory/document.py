"""The task memory of one task as a document: what the orchestrator's Job may know about it.

Source: seed 000 "TaskMemory - Context Passing"; the Job has no access to the Kubernetes API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from crds import labels, order, pendingtask
from crds.pendingtask import Type

TITLE_ANNOTATION = labels.TITLE
MOST_FACTS = 64
FACT_CHARS = 500
FACTS_BYTES = 8192
"""Bounds of `structuredData` as qualification writes it: a task's input shares MongoDB's 16 MiB with its content."""
_FACT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
_SOURCE_TYPES = {
    Type.EMAIL: "EMAIL",
    Type.WIKI: "CONFLUENCE",
    Type.BUG_TRACKER: "JIRA",
    Type.GIT: "GIT_COMMIT",
    Type.LINK: "LINK",
    Type.MEETING: "MEETING",
}
_OTHER_TRACKERS = {"github": "GITHUB_ISSUE", "gitlab": "GITLAB_ISSUE", "gitea": "GITEA_ISSUE"}
"""Seed 001 "SourceUrn Provider Dispatch" and one like them: issues of these come as BugTrackerProcessing too."""
_NAMED = re.compile(
    r"(?:^|[,;])\s*(?:message|msg|issue|page|commit)?(?:id|key|hash|sha)\s*[:=]\s*([^,;]+)", re.IGNORECASE
)


def of_task(task: pendingtask.PendingTask, attempt: int, now: datetime) -> dict[str, Any]:
    """Everything but the qualifier's findings. Absent values are null, so that an update takes old ones away.

    All messages: the run says how many it has read, and one that comes later makes the task run once more. Of answers
    only what the claim counted.
    """
    spec, status = task.spec, task.status
    return {
        **_identity(task),
        "mode": order.mode(spec).value,
        "content": spec.content,
        "contentRef": stored.wire() if (stored := pendingtask.stored_content(task)) is not None else None,
        "attachments": [one.wire() for one in spec.attachments],
        **of_messages(task, now),
        "answers": [one.wire() for one in spec.answers[: status.answers_seen]],
        # Not spec.approval: that may be about a request of long ago, or about none.
        "approvals": [one.wire() for one in status.approvals],
        "permits": [one.wire() for one in spec.permits],
        "budget": spec.budget.wire() if spec.budget else None,
        "routingDecision": status.route.decision.value if status.route else None,
        "routingReason": status.route.reason if status.route else None,
        "attempt": attempt,
    }


def of_messages(task: pendingtask.PendingTask, now: datetime) -> dict[str, Any]:
    """What the user has added, for a run that works already."""
    return {"messages": [one.wire() for one in task.spec.messages], "updatedAt": now}


def of_findings(
    task: pendingtask.PendingTask,
    summary: str,
    node_keys: Sequence[str],
    chunk_ids: Sequence[str],
    now: datetime,
    *,
    facts: Mapping[str, Any],
    decision: pendingtask.Decision,
    reason: str,
) -> dict[str, Any]:
    """What qualification found out; kept from then on. Whose it is stands with it: a task may never be dispatched.

    `facts` are added to `structuredData`, see `structured`; what a run added stays. `decision` is that of the status.
    """
    return {
        **_identity(task),
        "contextSummary": summary,
        "graphNodeKeys": list(node_keys),
        "ragDocumentIds": list(chunk_ids),
        "routingDecision": decision.value,
        "routingReason": reason,
        # One field each: a run may have added its own already.
        **{f"structuredData.{name}": value for name, value in structured(facts).items()},
        "updatedAt": now,
    }


def structured(given: Mapping[str, Any]) -> dict[str, str]:
    """A flat map of texts within the bounds, in the order given.

    Lists become one text; what is empty or nested, and a name that the knowledge base's API would refuse, is left out.
    """
    facts: dict[str, str] = {}
    room = FACTS_BYTES
    for name, value in given.items():
        text = _text(value)[:FACT_CHARS].strip()
        size = len(name) + len(text.encode())
        if text and _FACT_NAME.fullmatch(name) and size <= room and len(facts) < MOST_FACTS:
            facts[name] = text
            room -= size
    return facts


def source_type(spec: pendingtask.Spec) -> str | None:
    """The kind of source in the words of seed 000; None for content that a user wrote."""
    provider = re.match(r"[a-z]*", (spec.source_urn or "").casefold())
    tracker = _OTHER_TRACKERS.get((provider[0] if provider else "")[:6])
    return tracker if tracker and spec.type is Type.BUG_TRACKER else _SOURCE_TYPES.get(spec.type)


def source_id(spec: pendingtask.Spec) -> str | None:
    """The source's own name of the item: `<1@host>` of a mail without its brackets, the key of an issue, a hash."""
    rest = (spec.source_urn or "").partition(":")[2].lstrip(":")
    named = _NAMED.search(rest)
    return (named[1] if named else rest).strip().strip("<>") or None


def _identity(task: pendingtask.PendingTask) -> dict[str, Any]:
    spec = task.spec
    return {
        "taskUid": task.metadata.uid,
        "namespace": task.metadata.namespace,
        "name": task.metadata.name,
        "title": task.metadata.annotations.get(TITLE_ANNOTATION, ""),
        "type": spec.type.value,
        "correlationId": spec.correlation_id,
        "scope": {"clientId": spec.client_id, "projectId": spec.project_id, "groupId": spec.group_id},
        "sourceUrn": spec.source_urn,
        "sourceType": source_type(spec),
        "sourceId": source_id(spec),
        **({"onBehalfOf": sorted(spec.on_behalf_of)} if spec.on_behalf_of else {}),
        **({"timeZone": spec.time_zone} if spec.time_zone else {}),
    }


def _text(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(one for one in map(_text, value) if one)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""
