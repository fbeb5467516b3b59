"""A task whose content another task has brought before: what became of that one decides.

The knowledge base answers without a model call that the same document came with task X (`kb.api.Repeat`). The second
task is Done when X was decided about and has not failed: it is open, or it ended in Done or Completed. It waits while
the document is being read for X, and while X is not qualified yet, for `PATIENCE` tries. In all other cases it is read
as if it were the first: X failed, was given up, waits for a person as a failure, is being deleted, is gone without a
trace, or is in another namespace. A reading for X is taken over then.

The wait ends with X (`status.retry.waitsFor`), not with the next try: what becomes of X, its deletion too, is an event.
A task of X's name with another uid is not X.

What a user created on purpose, a task for which a person waits, and the runs of a recurring task always are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pydantic

import kube
from controllers.pendingtask.observed import Trouble
from crds import labels, order, pendingtask
from crds.pendingtask import Type
from crds.phases import Phase
from kb import api

READ_ALWAYS = frozenset({Type.USER_TASK, Type.SCHEDULED, Type.USER_INPUT, Type.LINK})
"""Made on purpose, or known by other means: a link has one task."""
PATIENCE = 8
"""Tries for which a task waits until the one that it repeats is qualified."""
_ENDED_WELL = frozenset({Phase.DONE, Phase.COMPLETED})

Archived = Callable[[str], Awaitable[Mapping[str, Any] | None]]
"""The archived document of a task by its uid, None where there is none."""


def origin(task: pendingtask.PendingTask, digest: str, instead_of: Sequence[str] = ()) -> api.TaskOrigin:
    """`task` for the knowledge base; `digest` is that of its input. Of one that always is read it has no hash.

    `instead_of`: the uids of tasks with the same content that came to nothing.
    """
    meta, spec = task.metadata, task.spec
    copied = labels.TEMPLATE_UID in meta.labels or spec.schedule is not None
    always = spec.type in READ_ALWAYS or order.foreground(spec) or copied or not spec.source_urn
    # Another correlation makes no other document, nor does the uid of the task itself.
    return api.TaskOrigin(
        uid=meta.uid,
        name=f"{meta.namespace}/{meta.name}",
        fingerprint="" if always else digest,
        instead_of=list(instead_of) or None,
    )


def digest(title: str, spec: pendingtask.Spec) -> str:
    """Of what comes with a task: its type, title, content, files, facts and access."""
    content = hashlib.sha256(spec.content.encode(errors="surrogatepass")).hexdigest() if spec.content else ""
    stored = spec.content_ref.sha256 if spec.content_ref else ""
    files = [(one.name, one.media_type, one.content_ref.sha256) for one in spec.attachments]
    said = (
        spec.type.value,
        title,
        content or stored,
        files,
        *(one.model_dump_json() for one in (spec.facts, spec.access) if one),
    )
    return hashlib.sha256(repr(said).encode()).hexdigest()


def similar(reply: api.IngestReply) -> str:
    """The earlier document that says nearly the same, as a sentence; "" without one."""
    found = reply.duplicate
    if found is None:
        return ""
    named = f" ({found.title[:200]})" if found.title else ""
    return f"{found.share:.0%} of its words are those of {found.source_urn}{named}. Both are processed."


async def settled(
    cluster: kube.Kube, archived: Archived, task: pendingtask.PendingTask, of: api.Repeat
) -> str | Trouble | None:
    """Why the task is Done, as a sentence; what it waits for; None: it is to be read.

    Raises errors of the API and of the archive.
    """
    namespace, _, name = of.task.partition("/")
    if namespace != task.metadata.namespace:
        return await _elsewhere(cluster, namespace, name, of) if of.reading else None
    said = f"The same content came with task {name}, and nothing is done twice"
    first = await _find(cluster, namespace, name, of.task_uid)
    if first is None:
        kept = await archived(of.task_uid)
        ended = kept is not None and kept.get("namespace") == namespace and kept.get("phase") in _ENDED_WELL
        return f"{said}. It ended as {kept['phase']}." if ended and kept is not None else None
    phase = first.status.phase
    if phase in _ENDED_WELL:
        return f"{said}. It ended as {phase}."
    if not _comes_to_nothing(first) and first.status.route is not None:
        return f"{said}. It is in {phase}."
    tried = task.status.retry.count if task.status.retry else 0
    if not pendingtask.undecided(first) or (tried >= PATIENCE and not of.reading):
        return None
    waits = f"task {name} has the same content and is not qualified yet"
    if of.reading:
        waits = f"the same document is being read for task {name}"
    return Trouble(waits, operational=True, waits_for=of.task_uid)


def _comes_to_nothing(first: pendingtask.PendingTask) -> bool:
    """Whether it failed, or is being deleted."""
    phase, asked = first.status.phase, first.status.user_task
    failed = phase is Phase.ERROR or (
        phase is Phase.USER_TASK and asked is not None and asked.kind is pendingtask.UserTaskKind.FAILURE
    )
    return failed or first.metadata.deletion_timestamp is not None


async def _elsewhere(cluster: kube.Kube, namespace: str, name: str, of: api.Repeat) -> Trouble | None:
    """The same of a reading for a task of another namespace, whose name is not shown. Only the proof that the task is
    gone, or came to nothing, lets another one take the reading over: its operator may be another one."""
    waits = Trouble("the same document is being read for a task of another namespace", operational=True)
    try:
        first = await _find(cluster, namespace, name, of.task_uid)
    except kube.Forbidden:
        return waits
    return None if first is None or _comes_to_nothing(first) else waits


async def _find(cluster: kube.Kube, namespace: str, name: str, uid: str) -> pendingtask.PendingTask | None:
    try:
        raw = await cluster.get(kube.TASKS, namespace, name)
    except kube.NotFound:
        return None
    if raw["metadata"]["uid"] != uid:
        return None
    try:
        return pendingtask.PendingTask.model_validate(raw)
    except pydantic.ValidationError:
        # Nothing becomes of a task that cannot be parsed, until a person repairs it.
        return None
