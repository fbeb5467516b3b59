"""What was said before in a document's thread, and the tasks of it that the document answers.

Looked for before models read the document, in what its scope sees. A parent that is not there is no failure, and what
was observed later is left out, so that the same document read again has the same context.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from crds import scope
from kb import api, selection
from kb.extract import caller_facts, document_node, draft, mail, thread
from kb.extract.qualifier import state
from kb.graph import store as graph
from kb.vectors import model
from kb.vectors import store as vectors

_ACTING = frozenset({"REQUEST", "CANCEL"})
"""Methods of iTIP by which an organizer sends, changes and cancels an event."""
_PER_NODE = 50
_MOST = 20
_TELLS = frozenset(
    one.value
    for one in (
        api.EmailClassification.INFORMATION,
        api.EmailClassification.NEWSLETTER,
        api.EmailClassification.AUTOMATIC,
    )
)
"""What a mail is that asks for nothing; one that no model could classify may ask for something."""


@dataclass(frozen=True)
class _Document:
    """A document of the thread: its first chunk that is connected with it, and the headers of a mail."""

    chunk: model.Chunk
    headers: mail.Headers | None
    own: bool

    @property
    def task_uid(self) -> str:
        said = self.chunk.said().get("taskUid")
        return said if isinstance(said, str) else ""

    def key(self, where: scope.Scope) -> str:
        """Its base node, of a comment that of its issue; that of a mail without a source is its Message-ID."""
        found = document_node.derive(self.chunk.source_urn, self.chunk.kind, where).key
        topic = document_node.topic(found)
        if topic is not None:
            return topic.key
        named = self.headers.message_id if self.headers else ""
        return f"email::{named}" if named and not found.startswith("email::") else found


@dataclass(frozen=True)
class Found:
    """The thread as it was when the document came, the latest first. `told` are the base nodes of its mails that ask
    for nothing."""

    request: api.IngestRequest | None = None
    text: str = ""
    thread: thread.Thread = field(default_factory=thread.Thread)
    documents: tuple[_Document, ...] = ()
    mails: bool = False
    told: frozenset[str] = frozenset()
    events: tuple[str, ...] = ()
    """Nodes of the events that an invitation in the document changes or cancels."""

    def shown(self) -> str:
        """For the model that judges the document."""
        others = [one for one in self.documents if not one.own]
        return thread.shown(
            [
                thread.Said(
                    one.chunk.title, one.headers.sender if one.headers else "", one.chunk.observed_at, one.chunk.text
                )
                for one in others
            ]
        )

    def sources(self) -> list[str]:
        """The sourceUrns of the documents that are shown."""
        return [one.chunk.source_urn for one in self.documents if not one.own]

    def answered(self, now: state.QualifierPipelineState) -> list[api.Answered]:
        """The documents whose request the document answers: a model says that it answers one, the headers of a mail
        or the key of an issue say which.

        A mail of a program answers nothing, nor does that of a sender who neither took part in what he answers nor is
        one of us.
        """
        if self.request is None:
            return []
        headers = mail.read(self.text)
        listed = self._invited(headers)
        if listed or not now.answers_earlier:
            return listed
        if headers is not None and mail.is_automatic(headers, caller_facts.of_document(self.request.nodes)):
            return []
        for one in self._asked(self.request.scope):
            if not one.task_uid:
                continue
            among = (one.headers.sender, *one.headers.recipients) if one.headers else ()
            if headers is not None and not thread.participates(headers.sender, among, self.request.team):
                continue
            listed.append(api.Answered(source_urn=one.chunk.source_urn, task_uid=one.task_uid))
        return listed

    def _invited(self, headers: mail.Headers | None) -> list[api.Answered]:
        """The earlier invitations to the events that the document changes or cancels, of the same sender (RFC 5546
        3.2.2, 3.2.5): the calendar says so, and no model is asked."""
        if headers is None or not self.events:
            return []
        sender = mail.named(headers.sender)[1].casefold()
        return [
            api.Answered(source_urn=one.chunk.source_urn, task_uid=one.task_uid)
            for one in self.documents
            if one.task_uid and not one.own and one.headers is not None and sender
            and mail.named(one.headers.sender)[1].casefold() == sender
            and not set(self.events).isdisjoint(one.chunk.graph_refs)
        ]  # fmt: skip

    def _asked(self, where: scope.Scope) -> Iterator[_Document]:
        """What the document answers: all of an issue, and of mails the direct parent, and further ancestors as long as
        none of them asks for something (decision 0110)."""
        if not self.mails:
            yield from (one for one in self.documents if one.key(where) in self.thread.answered)
            return
        known = {one.key(where): one for one in self.documents}
        for key in reversed(self.thread.answered):
            if key in known:
                yield known[key]
                if key not in self.told:
                    return


async def find(
    graphs: graph.Store, chunks: vectors.Store, request: api.IngestRequest, text: str, made: draft.Draft
) -> Found:
    """The earlier documents of a thread. Raises `kb.errors.Away`."""
    known = thread.of(request, text, made.anchor)
    events = [one for one in made.given.nodes if one.type == "event"]
    keys = (*known.keys, *(one.key for one in events))
    if not keys:
        return Found()
    leads = await graphs.leads(request.scope, keys, per_node=_PER_NODE)
    found = await chunks.chunks(request.scope, {one.chunk_id for one in leads})
    first: dict[str, model.Chunk] = {}
    for chunk in sorted(found.values(), key=lambda one: (one.document_id, one.ordinal)):
        first.setdefault(chunk.document_id, chunk)
    listed = [
        _Document(chunk, mail.read(chunk.text), chunk.document_id == made.document_id)
        for chunk in first.values()
        if _belongs(chunk, known, made.anchor, request)
    ]
    listed.sort(key=lambda one: (one.chunk.observed_at, one.chunk.document_id), reverse=True)
    mails = made.anchor.type == "email"
    nodes = await graphs.nodes(request.scope, keys=known.answered, limit=len(known.answered)) if mails else []
    told = frozenset(one.key for one in nodes if one.properties.get("classification") in _TELLS)
    acting = tuple(one.key for one in events if json.loads(one.properties or "{}").get("method") in _ACTING)
    return Found(request, text, known, tuple(listed[:_MOST]), mails, told, acting)


def _belongs(
    chunk: model.Chunk, known: thread.Thread, own: document_node.DocumentNode, request: api.IngestRequest
) -> bool:
    """Not what only names the issue or the mail, and nothing that was observed later."""
    before, now = selection.moment(chunk.observed_at), request.observed_at
    if before is not None and now is not None and before > selection.millis(now):
        return False
    derived = document_node.derive(chunk.source_urn, chunk.kind, request.scope)
    topic = document_node.topic(own.key)
    if topic is not None:
        return document_node.topic(derived.key) == topic
    if own.type == "email":
        return derived.type == "email" or mail.read(chunk.text) is not None
    return bool(set(known.keys) & set(chunk.graph_refs))
