"""What happened to a task, and the notice of it for one webhook. Pure.

A notice's id follows from the task, the event, its occasion and the address: a second reading of the same event makes
the same notice.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import orjson

from contracts.rules import enforce_lines
from contracts.rules.notices import Event
from crds import conditions, pendingtask, scope
from crds.phases import Phase
from kb import api

_MESSAGE_CHARS = 2048


@dataclass(frozen=True, slots=True)
class Happening:
    """`occasion` distinguishes the requests that one task makes one after the other."""

    task: pendingtask.PendingTask
    event: Event
    occasion: str
    at: datetime

    @property
    def owner(self) -> scope.Scope:
        """The scope whose rules count."""
        spec = self.task.spec
        return scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)


@dataclass(frozen=True, slots=True)
class Notice:
    """`body` is what is sent, as JSON."""

    id: str
    uid: str
    event: str
    url: str
    body: str


def happened(task: pendingtask.PendingTask) -> Happening | None:
    """What a person may want to hear about the task as it is now; None for nothing."""
    status = task.status
    if status.phase is Phase.USER_TASK and status.user_task is not None:
        failed = status.user_task.kind is pendingtask.UserTaskKind.FAILURE
        waiting = conditions.find(status.conditions, "WaitingForUser")
        if waiting is None:
            return None
        event = Event.FAILURE if failed else Event.USER_TASK
        return Happening(task, event, status.request_id, waiting.last_transition_time)
    if status.phase in (Phase.COMPLETED, Phase.ERROR) and status.completed_at is not None:
        event = Event.COMPLETED if status.phase is Phase.COMPLETED else Event.FAILURE
        return Happening(task, event, status.phase.value, status.completed_at)
    return None


def of(happening: Happening, rules: Iterable[api.Rule]) -> Iterator[Notice]:
    """One notice per address. A version of a rule counts for what happens after it was made; one that cannot be read
    says nothing here, and the qualification of its scope says so."""
    for url in dict.fromkeys(_addresses(happening, rules)):
        yield _notice(happening, url)


def _addresses(happening: Happening, rules: Iterable[api.Rule]) -> Iterator[str]:
    for rule in rules:
        if rule.created_at > happening.at:
            continue
        try:
            found = enforce_lines.notified(rule.rule_content)
        except ValueError:
            continue
        yield from (one.url for one in found if happening.event in one.events)


def _notice(happening: Happening, url: str) -> Notice:
    task, asked = happening.task, happening.task.status.user_task
    uid, spec = task.metadata.uid, task.spec
    what = [uid, happening.event.value, happening.occasion]
    body = {
        "id": hashlib.sha256(orjson.dumps([*what, url])).hexdigest()[:32],
        "event": happening.event.value,
        "at": happening.at,
        "task": {
            "uid": uid,
            "namespace": task.metadata.namespace,
            "name": task.metadata.name,
            "type": spec.type.value,
            "clientId": spec.client_id,
            "projectId": spec.project_id,
            "groupId": spec.group_id,
            "correlationId": spec.correlation_id,
        },
        "phase": task.status.phase.value if task.status.phase else "",
        "kind": asked.kind.value if asked else "",
        "requestId": task.status.request_id if asked else "",
        "questions": [{"id": one.id, "text": one.text} for one in asked.questions] if asked else [],
        "message": _message(task)[:_MESSAGE_CHARS],
    }
    return Notice(str(body["id"]), uid, happening.event.value, url, orjson.dumps(body).decode())


def _message(task: pendingtask.PendingTask) -> str:
    if task.status.phase is Phase.USER_TASK:
        waiting = conditions.find(task.status.conditions, "WaitingForUser")
        return waiting.message if waiting else ""
    return task.status.result.summary if task.status.result else ""
