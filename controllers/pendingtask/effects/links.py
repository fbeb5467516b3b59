"""One LinkProcessing task for each link of a mail, an issue, a page or a commit: names, manifests, creation.

- A name follows from client, project and URL: a second document with the same link creates nothing while that task
  exists, and finds its page in the knowledge base afterwards. What one project read, another one is not shown: it has a
  task of its own.
- The tasks are created before the route of their document is persisted; a repeated creation finds them.
- A client has at most `MOST_WAITING` of them unfinished, those that wait for a person included; the links of later
  documents are recorded and left out.
- They have no owner: they stay when their document's task is deleted after its time.
- A link about which a person was asked is read again with the answer (`request`), and its task has no route until then.
- A link's task makes no further ones: the knowledge base names no links of a linked page, and `HOLDERS` leaves it out.

Source: seed 000 "Link Handling Flow - SEPARATE PENDING TASKS".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import kube
from contracts import link_tasks
from controllers.pendingtask.observed import Linked
from crds import GROUP, VERSION, conditions, errors, labels, pendingtask, scope
from crds.pendingtask import Type
from kb import api as kb_api
from kube import lease

HOLDERS = frozenset({Type.EMAIL, Type.WIKI, Type.BUG_TRACKER, Type.GIT})
"""The types of which links become tasks."""
MOST_WAITING = 1000
_TITLE_CHARS = 200
_NOT_INHERITED = frozenset({labels.ARCHIVED, labels.TEMPLATE_UID})
_ANSWERS: Mapping[kb_api.LinkAnswer, frozenset[str]] = {
    kb_api.LinkAnswer.YES: frozenset({"yes", "y", "ok", "open", "ja", "ano"}),
    kb_api.LinkAnswer.NO: frozenset({"no", "n", "nein", "ne"}),
    kb_api.LinkAnswer.ALWAYS: frozenset({"always", "immer", "vždy", "vzdy"}),
    kb_api.LinkAnswer.NEVER: frozenset({"never", "niemals", "nikdy"}),
}
"""First words of a person's answer. Another one is no answer: the question comes again, with the words in it."""


def manifest(task: pendingtask.PendingTask, link: kb_api.Link, about: Mapping[str, str]) -> kube.Object:
    """The task of `link`, found in `task`; `about` are fields of `kb.api.LinkSource` that the document has once."""
    spec, meta = task.spec, task.metadata
    owner = scope.Scope(client_id=spec.client_id, project_id=spec.project_id, group_id=spec.group_id)
    source = kb_api.LinkSource(url=link.url, before=link.before, after=link.after, **about)
    made: dict[str, Any] = {
        "type": Type.LINK.value,
        "clientId": spec.client_id,
        "projectId": spec.project_id,
        "groupId": spec.group_id,
        "sourceUrn": f"{kb_api.LINK_URN}{link.url}",
        "correlationId": spec.correlation_id,
        "mode": pendingtask.Mode.BACKGROUND.value,
        "content": source.model_dump_json(by_alias=True, exclude_defaults=True, indent=2),
    }
    inherited = {key: value for key, value in meta.labels.items() if key not in _NOT_INHERITED}
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "PendingTask",
        "metadata": {
            "name": link_tasks.name(owner, link.url),
            "namespace": meta.namespace,
            "labels": {**inherited, labels.FOUND_IN_UID: meta.uid},
            "annotations": {
                labels.FOUND_IN: meta.name,
                labels.TITLE: f"Link in {source.subject or meta.name}"[:_TITLE_CHARS],
            },
        },
        "spec": {key: value for key, value in made.items() if value},
    }


def request(task: pendingtask.PendingTask, plain: kb_api.IngestRequest) -> kb_api.LinkRequest:
    """The reading of a link's task: `plain`, with what a person has answered since the last reading."""
    answer, by = _answered(task)
    return kb_api.LinkRequest.model_construct(**dict(plain), answer=answer, answered_by=by)


def _answered(task: pendingtask.PendingTask) -> tuple[kb_api.LinkAnswer | None, str]:
    """The last answer, else the last message, of those that came after the question; and whose it is."""
    spec, status = task.spec, task.status
    if conditions.find(status.conditions, "WaitingForUser") is None:
        return None, ""  # nothing was asked
    given = [(one.text, one.author) for one in spec.messages[status.messages_seen :]]
    given += [(one.text, one.author) for one in spec.answers[status.answers_seen :]]
    for text, author in reversed(given):
        first = next(iter(re.findall(r"\w+", text.casefold())), "")
        for answer, words in _ANSWERS.items():
            if first in words:
                return answer, author
    return None, ""


async def make(
    cluster: kube.Kube,
    task: pendingtask.PendingTask,
    found: Sequence[kb_api.Link],
    about: Mapping[str, str],
    *,
    patient: bool,
    waiting: int = 0,
) -> Linked:
    """Create the tasks that do not exist. What the namespace does not take is recorded and left out, and what is more
    than `MOST_WAITING` with the client's `waiting` ones.

    While `patient`, an error that passes is raised, and the document is read again later.
    """
    made = 0
    refused: list[str] = []
    for link in found:
        if waiting + made >= MOST_WAITING:
            refused.append(f"{waiting + made} links of the client wait already")
            continue
        body = manifest(task, link, about)
        try:
            await cluster.create(kube.TASKS, task.metadata.namespace, body)
        except kube.AlreadyExists:
            continue
        except lease.Fenced:
            raise
        except errors.JervisError as error:
            # A quota is asked before the name is, and an answer may be lost.
            if await _exists(cluster, task.metadata.namespace, body["metadata"]["name"]):
                continue
            if patient and isinstance(error, errors.Operational):
                raise
            refused.append(error.message)
        else:
            made += 1
    return Linked(links=len(found), made=made, refused=tuple(refused))


async def _exists(cluster: kube.Kube, namespace: str, name: str) -> bool:
    try:
        await cluster.get(kube.TASKS, namespace, name)
    except errors.JervisError:
        return False
    return True
