"""The same document that comes with a second task: nothing is done with it, and no model is asked.

A version that was stored whole and judged has a stamp in its record: by which task it came, and a hash of everything
that its judgement depends on except the day. Where a second task brings a document of the same hash, the answer names
the first task. Its caller knows what became of that one, and sends the document `again` where it came to nothing.

So it is while models read it: the caller waits for the first task, and where that one is gone it sends the document in
its place (`insteadOf`). The reading that runs is waited for then, and what models have answered is not asked again; one
that has broken off is gone on with at once (decision 0176).

The record goes with its document, so one that was deleted or erased is read anew, as is one that came meanwhile in
another version, under other rules, for another team, or that no model could judge.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from kb import api, errors, identity
from kb.ingest import document, request_record, source
from kb.rules import enforce


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
    documents: document.Documents,
    request: api.IngestRequest,
    found: tuple[request_record.IngestRequestRecord, str | None] | None,
) -> api.Repeat | None:
    """The task that the same document came with before, or for which models read it. Raises `kb.errors.Away`."""
    came = request.task
    if found is None or came is None or not came.fingerprint or came.again:
        return None
    known, text = found
    mine = {came.uid, *(came.instead_of or ())}
    if known.state is request_record.State.OPEN and text is not None and await documents.expected(known, text):
        # The rules may be other ones now: that is known when it is stored.
        other = _opened_for(found, request)
        if other is not None and other.uid not in mine:
            return api.Repeat(task_uid=other.uid, task=other.name, reading=True)
    if known.state is not request_record.State.FINISHED or not known.stamp:
        return None
    kept = Stamp(**json.loads(known.stamp))
    if kept.uid in mine or kept.digest != _digest(request, enforce.in_force(await documents.rules(request.scope))):
        return None
    return api.Repeat(task_uid=kept.uid, task=kept.name)


def continues(found: tuple[request_record.IngestRequestRecord, str | None] | None, request: api.IngestRequest) -> bool:
    """Whether the request that is open is the same document, whichever task it came with."""
    return found is not None and (found[1] == source.record(request) or _opened_for(found, request) is not None)


def _opened_for(
    found: tuple[request_record.IngestRequestRecord, str | None], request: api.IngestRequest
) -> api.TaskOrigin | None:
    """The task of the open request, where that is the same document with a fingerprint."""
    known, text = found
    if (
        request.task is None
        or not request.task.fingerprint
        or known.state is not request_record.State.OPEN
        or text is None
    ):
        return None
    opened = _read(text, known)
    return opened.task if opened is not None and opened.task is not None and _same(opened, request) else None


def answer(request: api.IngestRequest, of: api.Repeat) -> api.IngestReply:
    """The answer to a request with which nothing is done."""
    why = f"The same content {'is being read for' if of.reading else 'came with'} task {of.task}."
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


def _read(text: str, known: request_record.IngestRequestRecord) -> api.IngestRequest | None:
    try:
        return source.recorded(text, known.owner)
    except errors.Invalid:
        # A deletion, or a request of another version of this program.
        return None
