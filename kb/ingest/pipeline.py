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
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from crds import errors as root
from crds import priority, scope
from kb import api, errors, identity, metrics
from kb.aliases import registry
from kb.content import store as content
from kb.erasure import closed
from kb.graph import store as graph
from kb.ingest import answers, changes, commit, draft, entitytypes, extractor, hints, intent, redraft, source, turns
from kb.queue import job
from kb.vectors import embedding
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)
_FORGET = "forget"
"""In the place of a request, in the record of a document that is being deleted."""


@dataclass(frozen=True)
class Limits:
    """Sizes in characters; `parallel` chunks of one document are extracted at once, `versions` of it are kept."""

    chunk_chars: int = 4000
    chunk_overlap: int = 200
    max_chars: int = 4_000_000
    parallel: int = 4
    versions: int = 20


@dataclass(frozen=True)
class Stores:
    """What the pipeline writes to and reads from; without a queue there is no `index`."""

    intents: intent.Intents
    changes: changes.Changes
    graph: graph.Store
    vectors: vectors.Store
    content: content.Store
    queue: job.Queue | None = None
    aliases: registry.Registry = field(default_factory=registry.Nothing)
    shut: closed.Closed = field(default_factory=closed.Closed)
    turns: turns.Port = field(default_factory=turns.Turns)
    types: entitytypes.Registry = field(default_factory=entitytypes.Nothing)


@dataclass(frozen=True)
class _Former:
    """What an earlier request of a document left: its job, and whether it is `unfinished`. Such a one may have taken a
    job out of the queue, which no other process knows. `reading` is its key when it is the same request, else ""."""

    job: tuple[job.Job, str] | None
    unfinished: bool
    reading: str


@dataclass(frozen=True)
class _Begun:
    """A request that is recorded, and what models are to read of it; `alone` is the turn of reading it."""

    request: api.IngestRequest
    text: str
    made: draft.Draft
    opened: intent.Intent
    former: _Former
    alone: turns.Turn


class Pipeline:
    """Ingests and forgets documents. One at a time per document, any number of documents at once.

    `clock` gives the current time in UTC: "today" for the hints is its date.
    """

    def __init__(
        self,
        stores: Stores,
        asked: answers.Answers,
        embedder: embedding.Port,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        limits: Limits,
    ) -> None:
        self._stores = stores
        self._extractor = extractor.Extractor(asked, stores.types, clock, parallel=limits.parallel)
        self._committer = commit.Committer(
            stores.graph,
            stores.vectors,
            stores.changes,
            stores.aliases,
            stores.shut,
            embedder,
            meters,
            clock,
            versions=limits.versions,
        )
        self._meters = meters
        self._clock = clock
        self._limits = limits
        self._turns = stores.turns

    async def ingest(self, request: api.IngestRequest, urgency: priority.Priority) -> api.IngestReply:
        """Make a document known, replacing what its sourceUrn said before.

        Raises an `Operational` error (the intent stays open, a repeated call goes on) or a `Permanent` one.
        """
        document_id = identity.document(request.scope, request.source_urn)
        async with AsyncExitStack() as held:
            held.enter_context(self._stores.shut.entered(request.scope))
            async with self._writing(request.scope, document_id) as turn:
                begun = await self._begin(document_id, request, turn, held)
            if begun.former.reading:
                # Models read the same request already, and it is not asked twice.
                async with self._turns.take(begun.former.reading):
                    pass
            return await self._go_on(begun, urgency)

    async def resume(self, document_id: str, urgency: priority.Priority) -> bool:
        """Finish what is open, unless the document is in work or was finished meanwhile; whether it was resumed.

        What was read of the intent before is not used: only with the document's turn held is it the latest.
        Raises what `ingest` raises.
        """
        async with AsyncExitStack() as held:
            async with self._turns.attempt(document_id) as turn:
                found = None if turn is None else await self._stores.intents.find(document_id)
                if turn is None or found is None or found[0].state is not intent.State.OPEN or found[1] is None:
                    return False
                async with self._turns.attempt(_reading(*found)) as unread:
                    if unread is None or await self.queued(document_id):
                        return False
                held.enter_context(self._stores.shut.entered(found[0].owner))
                if found[1] == _FORGET:
                    await self._forget(found[0].owner, found[0].source_urn, turn)
                    return True
                try:
                    request = source.recorded(found[1], found[0].owner)
                except root.Permanent as error:
                    # Written by another version of this program: only the caller can say it anew.
                    await self._failed(document_id, error, turn)
                    raise
                begun = await self._begin(document_id, request, turn, held)
            return (await self._go_on(begun, urgency)).superseded_by is None

    async def _begin(
        self, document_id: str, request: api.IngestRequest, turn: turns.Turn, held: AsyncExitStack
    ) -> _Begun:
        """Record the request. Until the end of `held` nothing else has models read it."""
        text, made = await self._draft(document_id, request, turn)
        former = await self._former(document_id, source.record(request))
        opened = await self._open(document_id, request, turn)
        alone = await held.enter_async_context(self._turns.attempt(_reading(opened, source.record(request))))
        if alone is None:
            raise errors.Outrun("the same request is being read already")
        if self._stores.queue is not None:
            # An older version that still waits there must not come after this one.
            await self._stores.queue.drop(document_id, fence=turn.fence)
        return _Begun(request, text, made, opened, former, alone)

    async def _go_on(self, begun: _Begun, urgency: priority.Priority) -> api.IngestReply:
        """Let models read what was begun, with the document's turn free, and commit it unless another came meanwhile.

        The scope counts as written to throughout.
        """
        request, document_id = begun.request, begun.opened.document_id
        with self._meters.stages.labels("models").time():
            judged, extracted = await self._extractor.both(request, begun.text, begun.made, urgency)
        async with self._writing(request.scope, document_id) as turn:
            latest, owner, superseded = await self._is_latest(begun)
            if superseded is not None:
                return self._not_stored(begun, judged, superseded)
            # Its project may have moved meanwhile.
            request = request.model_copy(update={"scope": owner})
            async with self._settled(request, begun.former, turn) if latest else nullcontext():
                if isinstance(extracted, root.JervisError):
                    raise extracted
                # The hints are advice about a task: a model that cannot give them must not cost the document.
                if isinstance(judged, root.JervisError) and not isinstance(judged, errors.Unusable):
                    raise judged
                reply = await self._store(replace(begun, request=request), judged, extracted, urgency, turn)
                await self._supersede_attachments(request)
            if latest:
                await self._finish(document_id, turn, replaced=reply.replaced)
            return reply

    async def _is_latest(self, begun: _Begun) -> tuple[bool, scope.Scope, api.Superseded | None]:
        """Whether the record is that of what was begun; not so when the same request came again, which then ends it.
        With the owner of the record, and what came in the place of the request.

        Raises `kb.errors.Outrun` when this process was taken for gone.
        """
        opened, text = begun.opened, source.record(begun.request)
        found = await self._stores.intents.find(opened.document_id)
        if found is None or found[1] in (text, None):
            if found is not None and found[0].state is intent.State.OPEN:
                mine = (found[0].attempts, found[0].updated_at) == (opened.attempts, opened.updated_at)
                return mine, found[0].owner, None
            # Processes that took this one for gone may have finished it, or erased its scope.
            begun.alone.check()
        gone = found is None or found[1] == _FORGET
        return False, begun.request.scope, "Deletion" if gone else "Version"

    def _not_stored(
        self, begun: _Begun, judged: hints.Judgement | root.JervisError, superseded: api.Superseded
    ) -> api.IngestReply:
        """The answer to a request that is not the latest any more.

        It is never an error: repeated, the request would undo what came after it.
        """
        self._meters.ingested.labels("superseded").inc()
        log.info("superseded", document=begun.opened.document_id, by=superseded)
        summary, found = self._judgement(judged, "A newer version or a deletion came, and this one could not be judged")
        return api.IngestReply(
            source_urn=begun.request.source_urn,
            replaced=begun.opened.known,
            superseded_by=superseded,
            chunk_ids=[],
            node_keys=[],
            edge_count=0,
            summary=summary,
            hints=found,
        )

    def _judgement(self, judged: hints.Judgement | root.JervisError, failed: str) -> tuple[str, api.Hints]:
        """Summary and hints; `failed` is the beginning of a sentence, for when there are none."""
        if isinstance(judged, root.JervisError):
            return "", hints.unknown(f"{failed}: {judged.message}")
        return judged.summary, hints.settle(judged, self._clock())

    async def index(self, request: api.IngestRequest, urgency: priority.Priority) -> api.IndexReply:
        """Make a document findable now and queue the extraction; the queue's job outlives this process.

        Raises an `Operational` error (the job goes on by itself) or a `Permanent` one (there is no job).
        """
        queue = self._queue()
        document_id = identity.document(request.scope, request.source_urn)
        async with self._writing(request.scope, document_id) as turn:
            _, made = await self._draft(document_id, request, turn)
            former = await self._former(document_id, source.record(request))
            put = await self._put(document_id, request, urgency, turn)
            opened = await self._open(document_id, request, turn)
            async with self._settled(request, former, turn, put):
                extracted = await self._extractor.kept(request, made)
                built = await self._committer.commit(request, made, extracted, urgency, turn)
                await self._supersede_attachments(request)
            if extracted.missing:
                await queue.mark_indexed(document_id, put.revision)
            else:
                await queue.drop(document_id, fence=turn.fence)
            await self._finish(document_id, turn, replaced=opened.known)
            log.info("indexed", document=document_id, chunks=len(made.pieces), to_extract=extracted.missing)
            return api.IndexReply(
                id=document_id,
                source_urn=request.source_urn,
                replaced=opened.known,
                chunk_ids=list(built.patch.chunk_ids),
                queued=extracted.missing > 0,
                priority=int(put.urgency),
            )

    async def perform(self, asked: job.Job, request: str) -> None:
        """Do a job of the queue, unless it was replaced or dropped meanwhile.

        The document's turn is free while models read it: a newer version or a deletion does not wait for them, and the
        job is void then. The answers are kept all the same, so the scope counts as written to throughout: an erasure
        does not end before them. Raises an `Operational` error (the job stays) or a `Permanent` one (it is dropped, and
        the document is listed as failed with its request).
        """
        with self._stores.shut.entered(asked.owner):
            async with self._job(asked, request) as held:
                if held is None:
                    return
                document = await self._to_read(*held, request)
                if document is None:
                    return
            again, before = asked.action is job.Action.REWEAVE, document[1]
            with self._meters.stages.labels("models").time():
                said = await extractor.tried(self._extractor.extract(*document, asked.urgency, earlier=again))
            async with self._job(asked, request) as held:
                if held is None:
                    return
                if isinstance(said, root.JervisError):
                    raise _not_again(said.message) if again and isinstance(said, root.Permanent) else said
                document = await self._to_read(*held, request)
                if document is not None:
                    await self._write(*held, request, document, (before, said))

    @asynccontextmanager
    async def _job(self, asked: job.Job, request: str) -> AsyncIterator[tuple[job.Job, turns.Turn] | None]:
        """The job as it is now with its document's turn; None when it was replaced or dropped. Records a failure."""
        queue = self._queue()
        async with self._writing(asked.owner, asked.document_id) as turn:
            found = await queue.find(asked.document_id)
            if found is None or found[0].revision != asked.revision:
                yield None
                return
            overtaken = await self._overtaken(asked.document_id, request)
            if asked.action is job.Action.EXTRACT and overtaken:
                # As the process would have done that recorded the other request, and ended then.
                await queue.drop(asked.document_id, revision=asked.revision)
                yield None
                return
            try:
                yield found[0], turn
            except root.Operational as error:
                if not overtaken:
                    await self._interrupted(asked.document_id, error, turn)
                raise
            except root.Permanent as error:
                if overtaken:
                    # The record is that of a newer request, which models read now: its commit has the names of today.
                    await queue.drop(asked.document_id, revision=asked.revision)
                    raise
                # The intent was finished when the document was indexed, and its request forgotten then.
                where = (asked.document_id, found[0].owner, asked.source_urn)
                await self._stores.intents.open(*where, request, self._clock(), fence=turn.fence)
                await queue.drop(asked.document_id, revision=asked.revision)
                if asked.action is job.Action.EXTRACT and not found[0].indexed:
                    await self._extract_shown(found[0].owner, asked.source_urn, asked.kind, turn)
                await self._failed(asked.document_id, error, turn)
                raise

    async def retry(self, document_id: str, urgency: priority.Priority) -> bool:
        """Queue a document that failed once more, as it was sent; False when it has not, or its request is not kept.

        Raises `kb.errors.Crowded` when the queue is full, and `Invalid` for a request of another version.
        """
        listed = await self._stores.intents.find(document_id)
        if listed is None:
            return False
        async with self._writing(listed[0].owner, document_id) as turn:
            found = await self._stores.intents.find(document_id)
            if found is None or found[0].state is not intent.State.FAILED or found[1] is None:
                return False
            request = source.recorded(found[1], found[0].owner)
            await self._put(document_id, request, urgency, turn)
            await self._open(document_id, request, turn)
            return True

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document, and before it the files that came with it. True when it was known.

        It is recorded first: what breaks off, or meets an `Operational` error, is finished by `resume`.
        """
        document_id = identity.document(owner, source_urn)
        async with self._turns.take(document_id) as turn:
            now, fence = self._clock(), turn.fence
            await self._stores.intents.open(document_id, owner, source_urn, _FORGET, now, fence=fence)
            return await self._forget(owner, source_urn, turn)

    async def _forget(self, owner: scope.Scope, source_urn: str, turn: turns.Turn) -> bool:
        await self._drop_attachments(owner, source_urn)
        return await self._drop(owner, identity.document(owner, source_urn), turn)

    async def _supersede_attachments(self, request: api.IngestRequest) -> None:
        if request.attachments is not None:
            await self._drop_attachments(request.scope, request.source_urn, keep=request.attachments)

    async def _drop_attachments(self, owner: scope.Scope, source_urn: str, *, keep: Collection[str] = ()) -> None:
        """Delete the files that came with exactly this owner's document, but for those of the names in `keep`."""
        beginning = api.attachment_sources(source_urn).removesuffix("*")
        kept = {api.attachment_urn(source_urn, name) for name in keep}
        after = ""
        while True:
            found = await self._stores.graph.documents(owner, api.ATTACHMENT, beginning, after=after)
            for one in found:
                # "mail,name:x" begins like "mail", and its files are not those of "mail".
                if api.came_with(one.source_urn, source_urn) and one.source_urn not in kept:
                    await self.forget(owner, one.source_urn)
            if not found:
                return
            after = found[-1].source_urn

    async def drop(self, owner: scope.Scope, document_id: str) -> bool:
        """Delete one document from the graph, then from the vectors. True when it was known.

        For an erasure, which is recorded itself and begins anew when it breaks off; `forget` is for all others.
        """
        async with self._turns.take(document_id) as turn:
            return await self._drop(owner, document_id, turn)

    async def _drop(self, owner: scope.Scope, document_id: str, turn: turns.Turn) -> bool:
        await self._stores.changes.note(owner, [document_id])
        if self._stores.queue is not None:
            # Before the stores: a job that outlived the rest would bring the document back.
            await self._stores.queue.drop(document_id, fence=turn.fence)
        chunks = await self._stores.vectors.known(owner, document_id) if turn.fence else None
        known = await self._stores.graph.remove(owner, document_id, fence=turn.fence)
        turn.check()
        await self._stores.vectors.drop(owner, document_id, known=chunks)
        await self._stores.intents.forget(document_id, fence=turn.fence)
        return known

    async def queued(self, document_id: str) -> bool:
        """Whether the queue has the job of the request that is open, and so finishes it."""
        found = await self._waiting(document_id)
        return found is not None and not await self._overtaken(document_id, found[1])

    async def _overtaken(self, document_id: str, request: str) -> bool:
        """Whether another request than a job's `request` is open: it was recorded to replace the job."""
        found = await self._stores.intents.find(document_id)
        return found is not None and found[0].state is intent.State.OPEN and found[1] != request

    @asynccontextmanager
    async def turn(self, document_id: str) -> AsyncIterator[turns.Turn]:
        """Wait until the document is in no work and models have read its request, and keep it out of work."""
        found = await self._stores.intents.find(document_id)
        if found is not None:
            async with self._turns.take(_reading(*found)):
                pass
        async with self._turns.take(document_id) as turn:
            yield turn

    def writing(self, owner: scope.Scope, document_id: str) -> AbstractAsyncContextManager[turns.Turn]:
        """The same for a write: raises `kb.errors.Erasing` when the owner's scope is being erased."""
        return self._writing(owner, document_id)

    async def in_work(self, document_id: str) -> bool:
        """Whether this process works on the document now, or waits for models that read its request."""
        found = await self._stores.intents.find(document_id)
        return self._turns.taken(document_id) or (found is not None and self._turns.taken(_reading(*found)))

    async def working(self, document_ids: Collection[str]) -> set[str]:
        """Those of the documents whose ingest is not finished, or that any writing process works on now.

        A job of the queue finds its document's intent finished already, and changes the stores all the same.
        """
        unfinished = await self._stores.intents.working(document_ids)
        return unfinished | await self._turns.owned(document_ids)

    @asynccontextmanager
    async def _writing(self, owner: scope.Scope, document_id: str) -> AsyncIterator[turns.Turn]:
        """The document's turn, unless its scope is being erased: what waited for the turn must not come after it."""
        async with self._turns.take(document_id) as turn:
            with self._stores.shut.entered(owner):
                yield turn

    def _queue(self) -> job.Queue:
        if self._stores.queue is None:
            raise errors.Misconfigured("this process has no extraction queue", remedy="Use one that writes.")
        return self._stores.queue

    async def _open(self, document_id: str, request: api.IngestRequest, turn: turns.Turn) -> intent.Intent:
        # Whole milliseconds, as every ledger keeps them: a record is distinguished from its successor by its time too.
        now = self._clock()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        urn, text = request.source_urn, source.record(request)
        return await self._stores.intents.open(document_id, request.scope, urn, text, now, fence=turn.fence)

    async def _draft(self, document_id: str, request: api.IngestRequest, turn: turns.Turn) -> tuple[str, draft.Draft]:
        """The text and its draft, before anything is recorded: a text that cannot be taken leaves all as it was."""
        try:
            text = await self._text(request)
        except root.Operational as error:
            await self._open(document_id, request, turn)
            await self._interrupted(document_id, error, turn)
            raise
        except root.Permanent as error:
            intents, now, fence = self._stores.intents, self._clock(), turn.fence
            found = await intents.find(document_id)
            if found is not None and found[1] == source.record(request):
                # Accepted before: its content has gone since.
                await self._extract_shown(request.scope, request.source_urn, request.kind, turn)
                await intents.fail(document_id, error.message, now, fence=fence)
            else:
                urn = request.source_urn
                await intents.refuse(document_id, request.scope, urn, error.message, now, fence=fence)
            self._meters.ingested.labels("failed").inc()
            raise
        return text, draft.make(request, text, **self._sizes())

    async def _put(
        self, document_id: str, request: api.IngestRequest, urgency: priority.Priority, turn: turns.Turn
    ) -> job.Job:
        what = (request.source_urn, request.kind, job.Action.EXTRACT, urgency, source.record(request))
        return await self._queue().put(document_id, request.scope, *what, fence=turn.fence)

    async def _waiting(self, document_id: str) -> tuple[job.Job, str] | None:
        """The document's job, with its request."""
        return None if self._stores.queue is None else await self._stores.queue.find(document_id)

    async def _former(self, document_id: str, request: str) -> _Former:
        found = await self._stores.intents.find(document_id)
        unfinished = found is not None and found[0].state is intent.State.OPEN
        same = _reading(*found) if found is not None and unfinished and found[1] == request else ""
        return _Former(await self._waiting(document_id), unfinished, same)

    async def _restore(self, owner: scope.Scope, former: tuple[job.Job, str], turn: turns.Turn) -> None:
        """Put back the job of the version that stays: what is shown of it has not been extracted yet."""
        old, request = former
        queue = self._queue()
        what = (owner, old.source_urn, old.kind, old.action, old.urgency, request)
        put = await queue.put(old.document_id, *what, fence=turn.fence, bounded=False)
        if old.indexed:
            await queue.mark_indexed(old.document_id, put.revision)

    async def _extract_shown(self, owner: scope.Scope, source_urn: str, kind: str, turn: turns.Turn) -> None:
        """Queue what is shown of a document of which a newer version failed: its job may have ended with a process."""
        document_id = identity.document(owner, source_urn)
        if self._stores.queue is not None and await self._committed(owner, document_id):
            what = (source_urn, kind, job.Action.REWEAVE, priority.Priority.P3, "")
            await self._stores.queue.put(document_id, owner, *what, fence=turn.fence)

    @asynccontextmanager
    async def _settled(
        self, request: api.IngestRequest, former: _Former, turn: turns.Turn, put: job.Job | None = None
    ) -> AsyncIterator[None]:
        """Record how the work on a document failed; the version before it stays whole, with its job.

        `put` is the job of this one.
        """
        document_id = identity.document(request.scope, request.source_urn)
        try:
            yield
        except root.Permanent as error:
            if put is not None and (former.job is None or former.job[0].action is job.Action.REWEAVE):
                await self._queue().drop(document_id, fence=turn.fence)
            if former.job is not None:
                await self._restore(request.scope, former.job, turn)
            elif former.unfinished:
                # The request before had the job in the memory of its process alone.
                await self._extract_shown(request.scope, request.source_urn, request.kind, turn)
            # Last: until then the next process tries the request again.
            await self._failed(document_id, error, turn)
            raise
        except root.Operational as error:
            await self._interrupted(document_id, error, turn)
            raise

    async def _failed(self, document_id: str, error: root.Permanent, turn: turns.Turn) -> None:
        await self._stores.intents.fail(document_id, error.message, self._clock(), fence=turn.fence)
        self._meters.ingested.labels("failed").inc()

    async def _interrupted(self, document_id: str, error: root.Operational, turn: turns.Turn) -> None:
        await self._stores.intents.interrupt(document_id, error.message, self._clock(), fence=turn.fence)
        self._meters.ingested.labels("interrupted").inc()

    async def _finish(self, document_id: str, turn: turns.Turn, *, replaced: bool) -> None:
        await self._stores.intents.finish(document_id, self._clock(), fence=turn.fence)
        self._meters.ingested.labels("replaced" if replaced else "new").inc()

    async def _store(
        self,
        begun: _Begun,
        judged: hints.Judgement | errors.Unusable,
        extracted: extractor.ExtractionResult,
        urgency: priority.Priority,
        turn: turns.Turn,
    ) -> api.IngestReply:
        request, made, opened = begun.request, begun.made, begun.opened
        built = await self._committer.commit(request, made, extracted, urgency, turn)
        edges = {(proof.source, proof.type, proof.target) for proof in built.patch.evidence}
        log.info(
            "ingested",
            document=made.document_id,
            chunks=len(made.pieces),
            edges=len(edges),
            dropped=built.dropped,
            attempt=opened.attempts,
        )
        summary, found = self._judgement(judged, "The document is stored, but it could not be judged")
        return api.IngestReply(
            source_urn=request.source_urn,
            replaced=opened.known,
            chunk_ids=list(built.patch.chunk_ids),
            node_keys=sorted({mention.node_key for mention in built.patch.mentions}),
            edge_count=len(edges),
            summary=summary,
            hints=found,
            problems=extracted.problems,
        )

    async def _to_read(
        self, asked: job.Job, turn: turns.Turn, request: str
    ) -> tuple[api.IngestRequest, draft.Draft] | None:
        """What models are to read of the job's document; None when there is nothing, and then the job is dropped."""
        if asked.action is job.Action.REWEAVE:
            document = await self._remade(asked)
        else:
            document = await self._recorded(asked, source.recorded(request, asked.owner))
        if document is None:
            await self._queue().drop(asked.document_id, revision=asked.revision)
        return document

    async def _recorded(
        self, asked: job.Job, request: api.IngestRequest
    ) -> tuple[api.IngestRequest, draft.Draft] | None:
        """The document as it was sent, unless another one was stored in its place since it was indexed."""
        made = draft.make(request, await self._text(request), **self._sizes())
        if asked.indexed:
            shown = await self._committed(request.scope, made.document_id, {piece.id for piece in made.pieces})
            if not await self._same(request.scope, shown, made):
                log.info("superseded", document=made.document_id)
                return None
            request = request.model_copy(update={"scope": await self._grouped(request.scope, shown)})
        return request, made

    async def _write(
        self,
        asked: job.Job,
        turn: turns.Turn,
        text: str,
        document: tuple[api.IngestRequest, draft.Draft],
        read: tuple[draft.Draft, extractor.ExtractionResult],
    ) -> None:
        """Commit what models said of the draft that they `read`, and drop the job, whose request is `text`."""
        (request, made), (before, extracted) = document, read
        if {piece.id for piece in made.pieces} != {piece.id for piece in before.pieces}:
            raise errors.Outrun("the document was changed while models read it")
        if extracted.problems and asked.action is job.Action.REWEAVE:
            # Built without them, the document would lose what it says already; a merge has to wait instead.
            raise _not_again(extracted.problems[0])
        await self._committer.commit(request, made, extracted, asked.urgency, turn)
        if asked.action is job.Action.EXTRACT:
            if not asked.indexed:
                await self._supersede_attachments(request)
            if extracted.problems:
                log.warning("passages without entities", document=asked.document_id, problems=extracted.problems[:5])
            found = await self._stores.intents.find(asked.document_id)
            # A newer request that failed stays listed.
            if found is not None and found[1] == text:
                await self._stores.intents.finish(asked.document_id, self._clock(), fence=turn.fence)
        await self._queue().drop(asked.document_id, revision=asked.revision)

    async def _committed(self, owner: scope.Scope, document_id: str, chunk_ids: Collection[str] = ()) -> set[str]:
        """The document's chunks that are shown: those of `chunk_ids`, and what the vectors hold of it besides."""
        known = await self._stores.vectors.known(owner, document_id)
        held = await self._stores.graph.held(owner.client_id, {*known, *chunk_ids})
        return {key for key, one in held.items() if one.document.id == document_id}

    async def _remade(self, asked: job.Job) -> tuple[api.IngestRequest, draft.Draft] | None:
        """The document as it is stored, None when it was forgotten. Of its answers those that were evicted are asked
        for again."""
        # Only what is shown: a version that broke off has left chunks beside it.
        shown = await self._committed(asked.owner, asked.document_id)
        stored = await self._stores.vectors.chunks(asked.owner, shown)
        if not stored:
            return None
        owner = await self._grouped(asked.owner, shown)
        versions = await self._stores.graph.versions(owner, asked.document_id)
        given = versions[0].given if versions else ""
        return redraft.remake(owner, asked.document_id, list(stored.values()), given)

    async def _same(self, owner: scope.Scope, shown: Collection[str], made: draft.Draft) -> bool:
        """Whether the shown chunks are those of the draft, be it under the other ids that an earlier release made."""
        if set(shown) == {piece.id for piece in made.pieces}:
            return True
        stored = await self._stores.vectors.chunks(owner, list(shown))
        return sorted(one.text for one in stored.values()) == sorted(piece.chunk.text for piece in made.pieces)

    async def _grouped(self, owner: scope.Scope, chunk_ids: Collection[str]) -> scope.Scope:
        """The owner of a document as the graph has it: its project may have moved while a job of it waited."""
        held = await self._stores.graph.held(owner.client_id, list(chunk_ids)[:1])
        return next((one.owner for one in held.values()), owner)

    def _sizes(self) -> dict[str, int]:
        return {"size": self._limits.chunk_chars, "overlap": self._limits.chunk_overlap}

    async def _text(self, request: api.IngestRequest) -> str:
        return await source.text(request, self._stores.content, max_chars=self._limits.max_chars)


def _reading(opened: intent.Intent, request: str | None) -> str:
    """The key of a turn: held while models read the request of a record, and by that of no other record."""
    which = f"{opened.attempts} {opened.updated_at.timestamp():.3f} {request}"
    return f"reading:{opened.document_id}:{identity.digest(which)}"


def _not_again(why: str) -> root.Operational:
    return root.Operational(f"its names stay as they are, because it cannot be extracted again: {why}")
