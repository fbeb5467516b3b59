"""What a person wants -> the merge patch of the spec that says so. Pure.

Each function looks at the object as it was read and answers a patch, or None when the object says so already: a
command that is given twice is harmless. What does not fit the state of the task raises `Misplaced` with the remedy.
The operator's side of these rules is `controllers.pendingtask.decide`; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pydantic

from cli import approving, errors, order, reading
from crds import conditions, connection, labels, pendingtask, phases
from crds.connection import Remedy
from crds.model import Model
from crds.pendingtask import UserTaskKind, Verdict
from crds.phases import Phase

Patch = dict[str, Any]


def answer(raw: Mapping[str, Any], question: str, text: str, author: str) -> Patch | None:
    """Answer one open question."""
    task = reading.task(raw)
    given = next((one for one in task.spec.answers if one.id == question), None)
    if given is not None:
        if given.text == text:
            return None
        raise errors.Misplaced(
            f"Question {question!r} of {_name(task)} has been answered already"
            f"{f' by {given.author}' if given.author else ''}: {given.text!r}.",
            field="spec.answers",
            remedy=f"Answers are not changed; say more with: kubectl jervis tell {task.metadata.name} TEXT",
        )
    asked = _asked(task, "asks nothing")
    if asked.kind is not UserTaskKind.QUESTION:
        raise _other_kind(task, asked.kind)
    known = [one.id for one in asked.questions]
    if known and question not in known:
        raise errors.Misplaced(
            f"{_name(task)} asks no question {question!r}.",
            field="QUESTION_ID",
            remedy=f"Its questions are: {', '.join(known)}.",
        )
    return _appended(raw, "answers", _entry(pendingtask.Answer, "spec.answers", id=question, text=text, author=author))


def decide(raw: Mapping[str, Any], choice: approving.Choice, author: str) -> Patch | None:
    """Approve or reject the open request, or a part of it; for a failure that means: try again, or give up."""
    task = reading.task(raw)
    old, wanted = task.spec.approval, task.status.request_id
    if old is not None and task.status.user_task is not None:
        # One that the operator cannot use leaves the request open.
        old = None if pendingtask.unusable(task.status.user_task, old) else old
    open_ = order.phase(task) is Phase.USER_TASK
    # The run that was asked for has started or ended meanwhile: the same word again changes nothing.
    if not open_ and choice.plain and _accepted(task, choice.verdict):
        return None
    asked = _asked(task, "waits for no decision")
    if asked.kind is UserTaskKind.QUESTION:
        raise _other_kind(task, asked.kind)
    given = approving.decision(task, asked, choice)
    said = {**given, "request_id": wanted, "author": author}
    approval = _entry(pendingtask.Approval, "spec.approval", **said)
    if old is not None and old.request_id == wanted:
        words = ("verdict", "forTask", "effects")
        if all(old.wire().get(word) == approval.get(word) for word in words):
            return None
        raise errors.Misplaced(
            f"{_name(task)} has been decided already: {old.verdict.value}{f' by {old.author}' if old.author else ''}.",
            field="spec.approval",
            remedy="Wait until the operator has acted on it.",
        )
    # A merge patch merges objects: what the old decision had and the new one has not is taken out by name.
    previous = dict.fromkeys((raw["spec"].get("approval") or {}).keys(), None)
    return {"spec": {"approval": {**previous, **approval}}}


def _accepted(task: pendingtask.PendingTask, verdict: Verdict) -> bool:
    """Whether the last request was decided so, and nothing else of it."""
    last = task.status.approvals[-1:]
    return bool(last) and {one.verdict for one in task.status.approvals if one.request_id == last[0].request_id} == {
        verdict
    }


def retry(raw: Mapping[str, Any], author: str) -> Patch | None:
    """Have a failed task tried again."""
    task = reading.task(raw)
    name, phase = task.metadata.name, order.phase(task)
    if phase in phases.TERMINAL:
        raise errors.Misplaced(
            f"{_name(task)} has ended in {phase.value}; no phase follows it, whatever is changed in its spec.",
            field="status.phase",
            remedy=f"Make a new task of it with: kubectl jervis retry {name} --as {name}-again",
        )
    if phase is Phase.USER_TASK and task.status.user_task is not None:
        if task.status.user_task.kind is not UserTaskKind.FAILURE:
            raise _other_kind(task, task.status.user_task.kind)
        return decide(raw, approving.Choice(Verdict.APPROVED, "retry"), author)
    waits = task.status.retry
    raise errors.Misplaced(
        f"{_name(task)} has not failed: its phase is {phase.value}.",
        field="status.phase",
        remedy="The operator tries it again by itself"
        + (f" at {waits.next_at.isoformat()}." if waits is not None and waits.next_at is not None else "."),
    )


def again(raw: Mapping[str, Any], name: str) -> Patch:
    """A new task with the spec of an ended one; answers and the decision belonged to the old one's questions."""
    task = reading.task(raw)
    if order.phase(task) not in phases.TERMINAL:
        raise errors.Misplaced(
            f"{_name(task)} has not ended: its phase is {order.phase(task).value}.",
            field="--as",
            remedy=f"Leave --as out, or give the task up first: kubectl jervis reject {task.metadata.name}",
        )
    spec = {key: value for key, value in raw["spec"].items() if key not in ("answers", "approval", "suspend")}
    meta = raw["metadata"]
    # The new task has not been archived.
    kept = {key: value for key, value in meta.get("labels", {}).items() if key != labels.ARCHIVED}
    annotations = {key: value for key, value in meta.get("annotations", {}).items() if key.startswith("jervis.dev/")}
    return {
        "apiVersion": task.api_version,
        "kind": task.kind,
        "metadata": {"name": name, "labels": kept, "annotations": annotations},
        "spec": spec,
    }


def say(raw: Mapping[str, Any], key: str, text: str, author: str, at: datetime) -> Patch | None:
    """Add a message; the same id twice is the same message."""
    task = reading.task(raw)
    if any(one.id == key for one in task.spec.messages):
        return None
    _alive(task, "reads no more messages", "Submit a new task.")
    said = _entry(pendingtask.Message, "spec.messages", id=key, text=text, author=author, at=at)
    return _appended(raw, "messages", said)


def position(raw: Mapping[str, Any], wanted: int | None) -> Patch | None:
    """Give the task an explicit place in the queue; None takes it away."""
    task = reading.task(raw)
    if task.spec.queue_position == wanted:
        return None
    _alive(task, "is in no queue", "Only a task that has not ended has a place.")
    return {"spec": {"queuePosition": wanted}}


def hold(raw: Mapping[str, Any], held: bool) -> Patch | None:
    """Hold the task where it is, or let it go on."""
    task = reading.task(raw)
    if task.spec.suspend == held:
        return None
    _alive(task, "cannot be held", "Only a task that has not ended can be held.")
    return {"spec": {"suspend": held}}


def pause(raw: Mapping[str, Any], held: bool) -> Patch | None:
    """Stop polling a Connection, or go on."""
    return None if reading.connection(raw).spec.suspend == held else {"spec": {"suspend": held}}


def wish(raw: Mapping[str, Any], annotation: str, value: str) -> Patch | None:
    """Have the failed items of a Connection retried, or its source read from the beginning; a wish that is not done yet
    is the same one."""
    one = reading.connection(raw)
    name, status = one.metadata.name, one.status
    ready = conditions.find(status.conditions, "Ready")
    if one.spec.suspend:
        raise errors.Misplaced(
            f"Connection {name!r} is paused: nothing is read of its source.",
            field="spec.suspend",
            remedy=f"Let it go on first: kubectl jervis resume connection/{name}",
        )
    if ready is not None and ready.reason == "PollingNotEnabled":
        raise errors.Misplaced(
            f"Connection {name!r} is not polled.", field="spec.type", remedy=f"See: kubectl jervis connections {name}"
        )
    retry = annotation == labels.RETRY
    handled = status.last_handled_retry if retry else status.last_handled_resync
    if connection.wish(one, annotation) not in ("", handled):
        return None
    failed = status.items.failed if status.items else 0
    if retry and not failed:
        raise errors.Misplaced(
            f"Connection {name!r} has no failed items.",
            field="status.items.failed",
            remedy=f"Have its source read from the beginning with: kubectl jervis resync {name}",
        )
    if retry and failed == len(status.failures) and all(x.remedy is Remedy.RESYNC for x in status.failures):
        raise errors.Misplaced(
            f"The failed items of Connection {name!r} could not be read, so that nothing of them is stored.",
            field="status.failures",
            remedy=f"Have the source read once more with: kubectl jervis resync {name}",
        )
    return {"metadata": {"annotations": {annotation: value}}}


def confirm(raw: Mapping[str, Any], seen: str) -> Patch | None:
    """Have the items of a Connection leave that the sweep of the time `seen` missed."""
    one = reading.connection(raw)
    held = conditions.find(one.status.conditions, "DeletionsApplied")
    show = f"See: kubectl jervis connections {one.metadata.name}"
    if connection.wish(one, labels.CONFIRM_DELETIONS) == seen:
        return None
    if held is None or held.reason != "TooManyMissing":
        raise errors.Misplaced(
            f"No deletions of Connection {one.metadata.name!r} are kept back.", field="status.conditions", remedy=show
        )
    try:
        zone = datetime.fromisoformat(seen).tzinfo
    except ValueError:
        zone = None
    if zone is None:
        raise errors.Unusable(f"{seen!r} is no time with a zone.", field="--confirm", remedy=show)
    return {"metadata": {"annotations": {labels.CONFIRM_DELETIONS: seen}}}


def _appended(raw: Mapping[str, Any], key: str, entry: Mapping[str, Any]) -> Patch:
    # A merge patch replaces lists as a whole; the caller's resourceVersion keeps what others add meanwhile.
    return {"spec": {key: [*raw["spec"].get(key, []), entry]}}


def _entry(model: type[Model], where: str, **values: Any) -> dict[str, Any]:
    """What a person said, as the object spells it; raises `Unusable` naming what is too long or empty."""
    try:
        return model.model_validate(values).wire()
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        field = ".".join([where, *(str(part) for part in first["loc"])])
        raise errors.Unusable(f"{field}: {first['msg']}.", field=field, remedy="Say it within these bounds.") from error


def _asked(task: pendingtask.PendingTask, otherwise: str) -> pendingtask.UserTask:
    asked = task.status.user_task
    if asked is None or order.phase(task) is not Phase.USER_TASK:
        raise errors.Misplaced(
            f"{_name(task)} {otherwise}: its phase is {order.phase(task).value}.",
            field="status.phase",
            remedy=f"Look at it with: kubectl jervis get {task.metadata.name}",
        )
    return asked


def _alive(task: pendingtask.PendingTask, otherwise: str, remedy: str) -> None:
    if order.phase(task) in phases.TERMINAL:
        raise errors.Misplaced(
            f"{_name(task)} {otherwise}: it has ended in {order.phase(task).value}.",
            field="status.phase",
            remedy=remedy,
        )


_USE = {
    UserTaskKind.QUESTION: ("waits for answers", "answer"),
    UserTaskKind.APPROVAL: ("waits for a decision", "approve|reject"),
    UserTaskKind.FAILURE: ("has failed", "retry|reject"),
}


def _other_kind(task: pendingtask.PendingTask, kind: UserTaskKind) -> errors.Misplaced:
    state, command = _USE[kind]
    return errors.Misplaced(
        f"{_name(task)} {state}.",
        field="status.userTask.kind",
        remedy=f"Use: kubectl jervis {command} {task.metadata.name}",
    )


def _name(task: pendingtask.PendingTask) -> str:
    return f"PendingTask {task.metadata.name!r}"
