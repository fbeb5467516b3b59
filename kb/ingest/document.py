"""What is done with one document at a time: its turn, its record and its job, and its text.

Requests (`kb.ingest.pipeline`), jobs (`kb.ingest.jobs`) and deletions (`kb.ingest.delete`) work on documents through
this, each with the document's turn held.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from crds import errors as root
from crds import priority, scope
from kb import api, errors, identity, metrics
from kb.aliases import registry
from kb.content import store as content
from kb.erasure import closed
from kb.extract import draft, entity_types
from kb.files import inside
from kb.graph import store as graph
from kb.ingest import changes, document_locks, request_record, source
from kb.queue import job
from kb.rules import enforce
from kb.vectors import store as vectors

# How often an open request is tried, and how long it is left untried, until an older version no longer waits for it.
_TRIES = 10
_UNTRIED = timedelta(hours=1)


@dataclass(frozen=True)
class Limits:
    """Sizes in characters; `parallel` chunks of one document are extracted at once, `versions` of it are kept, the
    answer about it names `links`, `relationships` that its text states are read, and of the images that stand in it
    `images` are looked at. `tools`: the judging model may answer by calls of tools."""

    chunk_chars: int = 4000
    chunk_overlap: int = 200
    max_chars: int = 4_000_000
    parallel: int = 4
    versions: int = 20
    links: int = 20
    relationships: int = 2000
    tools: bool = False
    images: int = 10


class Derived(Protocol):
    """What is made of documents beside graph and vectors, and goes with them (`kb.visual.pages.Pages`)."""

    async def drop(self, owner: scope.Scope, document_id: str) -> int:
        """Forget what was made of a document; how much that was. Raises `kb.errors.Away`."""
        ...


class NothingDerived:
    """Nothing is made of documents."""

    async def drop(self, owner: scope.Scope, document_id: str) -> int:
        return 0


@dataclass(frozen=True)
class Stores:
    """What the pipeline writes to and reads from; without a queue there is no `index`."""

    intents: request_record.IngestRequestRecords
    changes: changes.Changes
    graph: graph.Store
    vectors: vectors.Store
    content: content.Store
    queue: job.Queue | None = None
    aliases: registry.Registry = field(default_factory=registry.Nothing)
    shut: closed.Closed = field(default_factory=closed.Closed)
    turns: document_locks.Port = field(default_factory=document_locks.Turns)
    types: entity_types.Registry = field(default_factory=entity_types.Nothing)
    rules: enforce.Port = field(default_factory=enforce.Nothing)
    derived: Derived = field(default_factory=NothingDerived)


class Documents:
    """`clock` gives the current time in UTC."""

    def __init__(self, stores: Stores, meters: metrics.Metrics, clock: Callable[[], datetime], limits: Limits) -> None:
        self._stores = stores
        self._meters = meters
        self._clock = clock
        self._limits = limits
        self._turns = stores.turns

    @asynccontextmanager
    async def turn(self, document_id: str) -> AsyncIterator[document_locks.Turn]:
        """Wait until the document is in no work and models have read its request, and keep it out of work."""
        found = await self._stores.intents.find(document_id)
        if found is not None:
            async with self._turns.take(reading(*found)):
                pass
        async with self._turns.take(document_id) as turn:
            yield turn

    @asynccontextmanager
    async def writing(self, owner: scope.Scope, document_id: str) -> AsyncIterator[document_locks.Turn]:
        """The turn for a write: raises `kb.errors.Erasing` when the owner's scope is being erased."""
        async with self._turns.take(document_id) as turn:
            # What waited for the turn must not come after the erasure.
            with self._stores.shut.entered(owner):
                yield turn

    async def in_work(self, document_id: str) -> bool:
        """Whether this process works on the document now, or waits for models that read its request."""
        found = await self._stores.intents.find(document_id)
        return self._turns.taken(document_id) or (found is not None and self._turns.taken(reading(*found)))

    async def working(self, document_ids: Collection[str]) -> set[str]:
        """Those of the documents whose ingest is not finished, or that any writing process works on now.

        A job of the queue finds its document's intent finished already, and changes the stores all the same.
        """
        unfinished = await self._stores.intents.working(document_ids)
        return unfinished | await self._turns.owned(document_ids)

    async def queued(self, document_id: str) -> bool:
        """Whether the queue has the job of the request that is open, and so finishes it."""
        found = await self.waiting(document_id)
        return found is not None and not await self.overtaken(document_id, found[1])

    async def outdated(self, document_id: str, request: api.IngestRequest, *, awaits: bool = True) -> bool:
        """Whether a newer version was stored before the request came (`request_record.IngestRequestRecord.outdates`).

        Raises `kb.errors.Undecided` while a newer request is open that is expected to end, where the request `awaits`
        that one.
        """
        found = None if request.observed_at is None else await self._stores.intents.find(document_id)
        if found is None or request.observed_at is None:
            return False
        if found[0].outdates(request.observed_at):
            return True
        if awaits and found[0].precedes(request.observed_at) and await self.expected(*found):
            raise errors.Undecided(found[0].reason)
        return False

    async def expected(self, opened: request_record.IngestRequestRecord, request: str | None) -> bool:
        """Whether an open request is expected to be stored or to fail: models read it, or it was tried lately and not
        too often."""
        async with self._turns.attempt(reading(opened, request)) as unread:
            if unread is None:
                return True
        waiting = await self.waiting(opened.document_id)
        tries = opened.attempts + (waiting[0].attempts if waiting is not None and waiting[1] == request else 0)
        return tries < _TRIES and self._clock() - opened.updated_at < _UNTRIED

    async def overtaken(self, document_id: str, request: str) -> bool:
        """Whether another request than a job's `request` is open: it was recorded to replace the job."""
        found = await self._stores.intents.find(document_id)
        return found is not None and found[0].state is request_record.State.OPEN and found[1] != request

    async def waiting(self, document_id: str) -> tuple[job.Job, str] | None:
        """The document's job, with its request."""
        return None if self._stores.queue is None else await self._stores.queue.find(document_id)

    def queue(self) -> job.Queue:
        """Raises `kb.errors.Misconfigured` when this process has none."""
        if self._stores.queue is None:
            raise errors.Misconfigured("this process has no extraction queue", remedy="Use one that writes.")
        return self._stores.queue

    async def extract_shown(self, owner: scope.Scope, source_urn: str, kind: str, turn: document_locks.Turn) -> None:
        """Queue what is shown of a document of which a newer version failed: its job may have ended with a process."""
        document_id = identity.document(owner, source_urn)
        if self._stores.queue is not None and await self.committed(owner, document_id):
            what = (source_urn, kind, job.Action.REBUILD_GRAPH, priority.Priority.P3, "")
            await self._stores.queue.put(document_id, owner, *what, fence=turn.fence)

    async def failed(self, document_id: str, error: root.Permanent, turn: document_locks.Turn) -> None:
        """Record and count that the request failed for good."""
        await self._stores.intents.fail(document_id, error.message, self._clock(), fence=turn.fence)
        self._meters.ingested.labels("failed").inc()

    async def interrupted(self, document_id: str, error: root.Operational, turn: document_locks.Turn) -> None:
        """Record and count that the request stays open, and why."""
        await self._stores.intents.interrupt(document_id, error.message, self._clock(), fence=turn.fence)
        self._meters.ingested.labels("interrupted").inc()

    async def committed(self, owner: scope.Scope, document_id: str, chunk_ids: Collection[str] = ()) -> set[str]:
        """The document's chunks that are shown: those of `chunk_ids`, and what the vectors hold of it besides."""
        known = await self._stores.vectors.known(owner, document_id)
        held = await self._stores.graph.held(owner.client_id, {*known, *chunk_ids})
        return {key for key, one in held.items() if one.document.id == document_id}

    async def read(self, request: api.IngestRequest) -> inside.Taken:
        """The text, and the images that stand in it. Raises what `kb.ingest.source.read` raises."""
        limits = inside.Limits(images=0 if request.kind in api.STRUCTURED else self._limits.images)
        return await source.read(request, self._stores.content, max_chars=self._limits.max_chars, limits=limits)

    async def meet_rules(self, request: api.IngestRequest, text: str) -> enforce.RuleMatches:
        """What the hard rules in force have to say about a document. Raises `kb.errors.Away`."""
        return await self.meeting(await self.rules(request.scope), request, text)

    async def meeting(self, rules: list[api.Rule], request: api.IngestRequest, text: str) -> enforce.RuleMatches:
        """What those rules have to say about a document."""
        # A long text takes a while, and a thread of its own.
        met = await asyncio.to_thread(enforce.match_rules, rules, request, text) if rules else enforce.RuleMatches()
        return replace(met, under=enforce.in_force(rules))

    async def rules(self, owner: scope.Scope) -> list[api.Rule]:
        """The hard rules that hold for the owner. Raises `kb.errors.Away`."""
        return await self._stores.rules.in_force(owner)

    def draft(self, request: api.IngestRequest, text: str) -> draft.Draft:
        """Raises what `kb.extract.draft.make` raises."""
        return draft.make(request, text, size=self._limits.chunk_chars, overlap=self._limits.chunk_overlap)


def reading(opened: request_record.IngestRequestRecord, request: str | None) -> str:
    """The key of a turn: held while models read the request of a record, and by that of no other record."""
    which = f"{opened.attempts} {opened.updated_at.timestamp():.3f} {request}"
    return f"reading:{opened.document_id}:{identity.digest(which)}"
