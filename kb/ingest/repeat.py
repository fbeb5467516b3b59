"""The same document that comes with a second task: nothing is done with it, and no model is asked.

A version that was stored whole and judged has a stamp in its record: by which task it came, and a hash of everything
that its judgement depends on except the day. Where a second task brings a document of the same hash, the answer names
the first task. Its caller knows what became of that one, and sends the document `again` where it came to nothing.

The record goes with its document, so one that was deleted or erased is read anew, as is one that came meanwhile in
another version, under other rules, for another team, or that no model could judge.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from crds import errors as root
from kb import api, errors, identity
from kb.ingest import document, intent, source
from kb.rules import enforce

_SECONDS = 15.0


@dataclass(frozen=True)
class Stamp:
    """Of a version that is stored: the task that it came with, and the hash."""

    digest: str
    uid: str
    name: str

    def text(self) -> str:
        """As a record keeps it."""
        return json.dumps(asdict(self), sort_keys=True)


def stamp(request: api.IngestRequest, rules: str) -> str:
    """For the record of a request that was judged under `rules`; "" where it came with no task, or may come again."""
    came = request.task
    if came is None or not came.fingerprint:
        return ""
    return Stamp(_digest(request, rules), came.uid, came.name).text()


async def find(
    documents: document.Documents, request: api.IngestRequest, found: tuple[intent.Intent, str | None] | None
) -> api.Repeat | None:
    """The task that the same document came with before.

    Raises an `Operational` error while models read it for that task: it may still fail. Raises `kb.errors.Away`.
    """
    came = request.task
    if found is None or came is None or not came.fingerprint or came.again:
        return None
    known, text = found
    if known.state is intent.State.OPEN and text is not None and await documents.expected(known, text):
        first = _read(text, known)
        # The rules may be other ones now: that is known when it is stored.
        other = None if first is None else first.task
        if first is not None and other is not None and other.uid != came.uid and _same(first, request):
            raise root.Operational(f"the same document is being read for task {other.name}", retry_after=_SECONDS)
    if known.state is not intent.State.FINISHED or not known.stamp:
        return None
    kept = Stamp(**json.loads(known.stamp))
    if kept.uid == came.uid or kept.digest != _digest(request, enforce.in_force(await documents.rules(request.scope))):
        return None
    return api.Repeat(task_uid=kept.uid, task=kept.name)


def answer(request: api.IngestRequest, of: api.Repeat) -> api.IngestReply:
    """The answer to a request with which nothing is done."""
    why = f"The same content came with task {of.task}."
    return api.IngestReply(
        source_urn=request.source_urn,
        replaced=False,
        chunk_ids=[],
        node_keys=[],
        edge_count=0,
        summary="",
        hints=api.Hints(
            has_actionable_content=False,
            is_assigned_to_me=False,
            has_future_deadline=False,
            urgency="low",
            reason=why,
        ),
        repeats=of,
    )


def _same(one: api.IngestRequest, other: api.IngestRequest) -> bool:
    return _digest(one, "") == _digest(other, "")


def _digest(request: api.IngestRequest, rules: str) -> str:
    assert request.task is not None
    whole = request.model_dump(mode="json", exclude={"scope", "task", "observed_at", "metadata", "team"})
    own = identity.owner(request.scope)
    return identity.digest(json.dumps([own, request.task.fingerprint, whole, sorted(request.team), rules]))


def _read(text: str, known: intent.Intent) -> api.IngestRequest | None:
    try:
        return source.recorded(text, known.owner)
    except errors.Invalid:
        # A deletion, or a request of another version of this program.
        return None
