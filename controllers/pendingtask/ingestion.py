"""From a task to the request that makes its content known. Pure."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from email import errors as mail_errors
from email import message_from_string, policy

import orjson

from controllers.memory import document
from crds import pendingtask, scope
from crds.pendingtask import Type
from kb import wire

KINDS = {
    Type.EMAIL: "email",
    Type.WIKI: "wiki",
    Type.BUG_TRACKER: "issue",
    Type.GIT: "commit",
    Type.USER_INPUT: "user_input",
    Type.USER_TASK: "user_task",
    Type.SCHEDULED: "scheduled_task",
    Type.LINK: "link",
    Type.MEETING: "meeting",
}


def request(task: pendingtask.PendingTask, team: Sequence[str]) -> wire.IngestRequest:
    """The ingestion of `task`. Without a sourceUrn the task itself is the source."""
    spec = task.spec
    ref = spec.content_ref
    return wire.IngestRequest(
        scope=scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id),
        source_urn=source(task),
        kind=KINDS[spec.type],
        title=title(task)[:1000],
        content=spec.content,
        content_ref=wire.ContentRef(key=ref.key, sha256=ref.sha256, bytes=ref.bytes) if ref else None,
        observed_at=task.metadata.creation_timestamp,
        team=list(team),
        attachments=files(task),
        metadata={
            "taskUid": task.metadata.uid,
            "taskType": spec.type.value,
            "correlationId": spec.correlation_id,
        },
    )


_INPUT = {
    "type", "client_id", "project_id", "group_id", "source_urn", "correlation_id",
    "content", "content_ref", "attachments",
}  # fmt: skip


def digest(task: pendingtask.PendingTask) -> str:
    """SHA-256 of what a reading depends on in the spec, and of the title: a change of anything else asks for none."""
    known = (title(task), task.spec.model_dump(mode="json", include=_INPUT))
    return hashlib.sha256(orjson.dumps(known, option=orjson.OPT_SORT_KEYS)).hexdigest()


def source(task: pendingtask.PendingTask) -> str:
    """What the content is known by."""
    return task.spec.source_urn or f"task::{task.metadata.uid}"


def files(task: pendingtask.PendingTask) -> list[str]:
    """The names that the task's files are known by; those of the same name are told apart by a number."""
    seen: Counter[str] = Counter()
    names = []
    for one in task.spec.attachments:
        seen[one.name] += 1
        names.append(one.name if seen[one.name] == 1 else f"{one.name[:245]} ({seen[one.name]})")
    return names


def title(task: pendingtask.PendingTask) -> str:
    """The annotation, or the Subject of a mail, or nothing."""
    named = task.metadata.annotations.get(document.TITLE_ANNOTATION, "")
    if named or task.spec.type is not Type.EMAIL or not task.spec.content:
        return named
    try:
        return str(message_from_string(task.spec.content, policy=policy.default).get("Subject", ""))
    except (mail_errors.MessageError, ValueError, IndexError):
        # A header that cannot be parsed costs the title only.
        return ""
