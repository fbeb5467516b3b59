"""The pipeline: from a request to knowledge that can be found.

    intent -> draft -> extraction and hints (kept) -> vectors (not yet visible) -> graph (commit) -> clean -> finish

`ingest` does all of it before it returns. `index` leaves the models' part to the queue: the document can be found by
its words and by the relationships it states itself as soon as it returns; `perform` weaves in later what models say.

Each step may be the last one before a crash: a repeated or resumed request does what is missing, asks no model twice
for a finished chunk and ends in the same ids. Nothing of an unfinished document is shown, because retrieval shows only
chunks that the graph has committed; until then the document's previous version stays visible.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from crds import errors as root
from crds import priority, scope
from kb import errors, identity, metrics, wire, writing
from kb.aliases import registry
from kb.content import store as content
from kb.erasure import closed
from kb.graph import store as graph
from kb.ingest import answers, commit, draft, hearing, hints, intent, mending, source, turns
from kb.queue import job
from kb.vectors import embedding
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Limits:
    """Sizes in characters; `parallel` chunks of one document are extracted at once."""

    chunk_chars: int = 4000
    chunk_overlap: int = 200
    max_chars: int = 4_000_000
    parallel: int = 4


@dataclass(frozen=True)
class Stores:
    """What the pipeline writes to and reads from; without a queue there is no `index`."""

    intents: intent.Intents
    graph: graph.Store
    vectors: vectors.Store
    content: content.Store
    queue: job.Queue | None = None
    aliases: registry.Registry = field(default_factory=registry.Nothing)
    shut: closed.Closed = field(default_factory=closed.Closed)


class Pipeline:
    """Ingests and forgets documents. One at a time per document, any number of documents at once.

    `clock` gives the current time in UTC: "today" for the hints is its date.
    """

    def __init__(
        self,
        stores: Stores,
        asked: answers.Answers,
        embedder: embedding.Embedder,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        limits: Limits,
    ) -> None:
        self._stores = stores
        self._hearing = hearing.Hearing(asked, clock, parallel=limits.parallel)
        self._committer = commit.Committer(stores.graph, stores.vectors, stores.aliases, stores.shut, embedder, meters)
        self._meters = meters
        self._clock = clock
        self._limits = limits
        self._turns = turns.Turns()

    async def ingest(self, request: wire.IngestRequest, urgency: priority.Priority) -> wire.IngestReply:
        """Make a document known, replacing what its sourceUrn said before.

        Raises an `Operational` error (the intent stays open, a repeated call goes on) or a `Permanent` one.
        """
        document_id = identity.document(request.scope, request.source_urn)
        async with self._writing(request.scope, document_id):
            opened = await self._open(document_id, request)
            if self._stores.queue is not None:
                # An older version that still waits there must not come after this one.
                await self._stores.queue.drop(document_id)
            async with self._settled(document_id):
                reply = await self._run(request, opened, urgency)
                await self._supersede_attachments(request)
            await self._finish(document_id, replaced=reply.replaced)
            return reply

    async def index(self, request: wire.IngestRequest, urgency: priority.Priority) -> wire.IndexReply:
        """Make a document findable now and queue the extraction; the queue's job outlives this process.

        Raises an `Operational` error (the job goes on by itself) or a `Permanent` one (there is no job).
        """
        queue = self._queue()
        document_id = identity.document(request.scope, request.source_urn)
        async with self._writing(request.scope, document_id):
            text = request.model_dump_json(by_alias=True)
            urn, kind = request.source_urn, request.kind
            put = await queue.put(document_id, request.scope, urn, kind, job.Action.EXTRACT, urgency, text)
            opened = await self._open(document_id, request)
            async with self._settled(document_id):
                made = draft.make(request, await self._text(request), **self._sizes())
                heard = await self._hearing.kept(request, made)
                woven = await self._committer.commit(request, made, heard, urgency)
                await self._supersede_attachments(request)
            if heard.missing:
                await queue.mark_indexed(document_id, put.revision)
            else:
                await queue.drop(document_id)
            await self._finish(document_id, replaced=opened.known)
            log.info("indexed", source_urn=urn, chunks=len(made.pieces), to_extract=heard.missing)
            return wire.IndexReply(
                id=document_id,
                source_urn=urn,
                replaced=opened.known,
                chunk_ids=list(woven.patch.chunk_ids),
                queued=heard.missing > 0,
                priority=int(put.urgency),
            )

    async def perform(self, asked: job.Job, request: str) -> None:
        """Do a job of the queue, unless it was replaced or dropped meanwhile.

        Raises an `Operational` error (the job stays) or a `Permanent` one (it is dropped and the document says why).
        """
        queue = self._queue()
        async with self._writing(asked.owner, asked.document_id):
            found = await queue.find(asked.document_id)
            if found is None or found[0].revision != asked.revision:
                return
            async with self._settled(asked.document_id):
                if asked.action is job.Action.REWEAVE:
                    await self._reweave(asked)
                else:
                    await self._extract_later(asked, source.recorded(request))
            await queue.drop(asked.document_id, revision=asked.revision)

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document, and before it the files that came with it. True when it was known."""
        await self._drop_attachments(owner, source_urn)
        return await self.drop(owner, identity.document(owner, source_urn))

    async def _supersede_attachments(self, request: wire.IngestRequest) -> None:
        if request.attachments is not None:
            await self._drop_attachments(request.scope, request.source_urn, keep=request.attachments)

    async def _drop_attachments(self, owner: scope.Scope, source_urn: str, *, keep: Collection[str] = ()) -> None:
        """Delete the files that came with exactly this owner's document, but for those of the names in `keep`."""
        beginning = writing.attachment_sources(source_urn).removesuffix("*")
        kept = {writing.attachment_urn(source_urn, name) for name in keep}
        after = ""
        while True:
            found = await self._stores.graph.documents(owner, writing.ATTACHMENT, beginning, after=after)
            for one in found:
                # "mail,name:x" begins like "mail", and its files are not those of "mail".
                if writing.came_with(one.source_urn, source_urn) and one.source_urn not in kept:
                    await self.drop(owner, one.id)
            if not found:
                return
            after = found[-1].source_urn

    async def drop(self, owner: scope.Scope, document_id: str) -> bool:
        """Delete one document from the graph, then from the vectors. True when it was known."""
        async with self._turns.take(document_id):
            if self._stores.queue is not None:
                # First of all: a job that outlived the rest would bring the document back.
                await self._stores.queue.drop(document_id)
            known = await self._stores.graph.remove(owner, document_id)
            await self._stores.vectors.drop(owner, document_id)
            await self._stores.intents.forget(document_id)
            return known

    async def queued(self, document_id: str) -> bool:
        """Whether the queue has a job for the document, and so finishes what is open."""
        return self._stores.queue is not None and await self._stores.queue.find(document_id) is not None

    def turn(self, document_id: str) -> AbstractAsyncContextManager[None]:
        """Wait until nobody works on the document, and keep it so."""
        return self._turns.take(document_id)

    def in_work(self, document_id: str) -> bool:
        """Whether this process works on the document now."""
        return self._turns.taken(document_id)

    @asynccontextmanager
    async def _writing(self, owner: scope.Scope, document_id: str) -> AsyncIterator[None]:
        """The document's turn, unless its scope is being erased: what waited for the turn must not come after it."""
        async with self._turns.take(document_id):
            self._stores.shut.check(owner)
            yield

    def _queue(self) -> job.Queue:
        if self._stores.queue is None:
            raise errors.Misconfigured("this process has no extraction queue", remedy="Use one that writes.")
        return self._stores.queue

    async def _open(self, document_id: str, request: wire.IngestRequest) -> intent.Intent:
        text = request.model_dump_json(by_alias=True)
        return await self._stores.intents.open(document_id, request.scope, request.source_urn, text, self._clock())

    @asynccontextmanager
    async def _settled(self, document_id: str) -> AsyncIterator[None]:
        """Record how the work on a document failed, and drop the job of one that can never succeed."""
        try:
            yield
        except root.Permanent as error:
            await self._stores.intents.fail(document_id, error.message, self._clock())
            if self._stores.queue is not None:
                await self._stores.queue.drop(document_id)
            self._meters.ingested.labels("failed").inc()
            raise
        except root.Operational as error:
            await self._stores.intents.interrupt(document_id, error.message, self._clock())
            self._meters.ingested.labels("interrupted").inc()
            raise

    async def _finish(self, document_id: str, *, replaced: bool) -> None:
        await self._stores.intents.finish(document_id, self._clock())
        self._meters.ingested.labels("replaced" if replaced else "new").inc()

    async def _run(
        self, request: wire.IngestRequest, opened: intent.Intent, urgency: priority.Priority
    ) -> wire.IngestReply:
        text = await self._text(request)
        made = draft.make(request, text, **self._sizes())
        with self._meters.stages.labels("models").time():
            judged, heard = await self._hearing.both(request, text, made, urgency)
        woven = await self._committer.commit(request, made, heard, urgency)
        edges = {(proof.source, proof.type, proof.target) for proof in woven.patch.evidence}
        log.info(
            "ingested",
            source_urn=request.source_urn,
            chunks=len(made.pieces),
            edges=len(edges),
            dropped=woven.dropped,
            attempt=opened.attempts,
        )
        return wire.IngestReply(
            source_urn=request.source_urn,
            replaced=opened.known,
            chunk_ids=list(woven.patch.chunk_ids),
            node_keys=sorted({mention.node_key for mention in woven.patch.mentions}),
            edge_count=len(edges),
            summary=judged.summary,
            hints=hints.settle(judged, self._clock()),
            problems=heard.problems,
        )

    async def _extract_later(self, asked: job.Job, request: wire.IngestRequest) -> None:
        made = draft.make(request, await self._text(request), **self._sizes())
        if asked.indexed:
            known = await self._stores.vectors.known(request.scope, made.document_id)
            if set(known) != {piece.id for piece in made.pieces}:
                log.info("superseded", source_urn=request.source_urn)
                return
        with self._meters.stages.labels("models").time():
            heard = await self._hearing.extract(request, made, asked.urgency)
        await self._committer.commit(request, made, heard, asked.urgency)
        document_id = made.document_id
        if heard.problems:
            log.warning("passages without entities", source_urn=request.source_urn, problems=heard.problems[:5])
        await self._stores.intents.finish(document_id, self._clock())

    async def _reweave(self, asked: job.Job) -> None:
        known = await self._stores.vectors.known(asked.owner, asked.document_id)
        stored = await self._stores.vectors.chunks(asked.owner, list(known))
        if not stored:
            return  # forgotten meanwhile
        request, made = mending.remake(asked.owner, asked.document_id, list(stored.values()))
        # The answers are kept, and so nobody is asked; where one was evicted, it is asked for again.
        heard = await self._hearing.extract(request, made, asked.urgency)
        await self._committer.commit(request, made, heard, asked.urgency)

    def _sizes(self) -> dict[str, int]:
        return {"size": self._limits.chunk_chars, "overlap": self._limits.chunk_overlap}

    async def _text(self, request: wire.IngestRequest) -> str:
        return await source.text(request, self._stores.content, max_chars=self._limits.max_chars)
