"""The pipeline: from a request to knowledge that can be found.

    intent -> draft -> qualification (kept) -> vectors (not yet visible) -> graph (commit) -> clean -> finish

`ingest` does all of it before it returns. `index` leaves the models' part to the queue: the document can be found by
its words and by the relationships it states itself as soon as it returns; `perform` weaves in later what models say.

Each step may be the last one before a crash: a repeated or resumed request does what is missing, asks no model twice
for a finished chunk and ends in the same ids. Nothing of an unfinished document is shown, because retrieval shows only
chunks that the graph has committed; until then the document's previous version stays visible.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import datetime

import structlog

from codegraph.branch import analyst
from codegraph.extract import budget, pool
from crds import errors as root
from crds import priority, scope
from kb import api, errors, identity, metrics
from kb.code import book
from kb.extract import answers, draft, hints
from kb.extract.qualifier import image_reading, phases, state
from kb.files import inside
from kb.ingest import (
    commit,
    commits,
    delete,
    document,
    document_locks,
    duplicates,
    extractor,
    images,
    jobs,
    open_request,
    repeat,
    replies,
    request_record,
    source,
    structures,
    symbols,
)
from kb.ingest import thread_context as threads
from kb.queue import job
from kb.rules import enforce
from kb.vectors import embedding

log = structlog.get_logger(__name__)


class Pipeline:
    """Ingests and forgets documents. One at a time per document, any number of documents at once.

    `clock` gives the current time in UTC: "today" for the hints is its date. `eyes` look at the images of a document.
    """

    def __init__(
        self,
        stores: document.Stores,
        asked: answers.Answers,
        embedder: embedding.Port,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        limits: document.Limits,
        eyes: image_reading.Eyes | None = None,
        fast: answers.Answers | None = None,
        sources: budget.Budget = budget.DEFAULT,
    ) -> None:
        self._stores = stores
        qualifier = phases.Qualifier(
            asked, meters, clock, eyes, tools=stores.rules if limits.tools else None, fast=fast
        )
        self._extractor = extractor.Extractor(asked, stores.types, qualifier, parallel=limits.parallel)
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
            relationships=limits.relationships,
        )
        self._meters = meters
        self._clock = clock
        self._turns = stores.turns
        self._replies = replies.Replies(meters, clock, links=limits.links)
        self._documents = document.Documents(stores, meters, clock, limits)
        self._deletion = delete.Deletion(stores, clock)
        self._images = images.Images(eyes, self.index)
        works = jobs.Jobs(
            stores, self._documents, self._deletion, self._extractor, self._committer, meters, clock, self._images
        )
        # Callers have one object for all that is done with documents.
        self.commits = commits.Commits(
            stores, self._documents, self._deletion, self._committer, meters, symbols.Symbols(sources, meters)
        )
        self.perform = works.perform
        self.forget, self.drop = self._deletion.forget, self._deletion.drop
        self.turn, self.writing = self._documents.turn, self._documents.writing
        self.in_work, self.working = self._documents.in_work, self._documents.working
        self.queued = self._documents.queued

    def structures(
        self,
        known: book.Book,
        analysts: analyst.Analyst,
        limits: budget.Budget,
        extract: structures.Extract = pool.extract,
    ) -> structures.Structures:
        """The structure of branches, for a process that has the records of them."""
        return structures.Structures(
            self._documents, self._deletion, self._committer, known, analysts, self._meters, limits, extract
        )

    async def ingest(self, request: api.IngestRequest, urgency: priority.Priority) -> api.IngestReply:
        """Make a document known, replacing what its sourceUrn said before.

        Raises an `Operational` error (the intent stays open, a repeated call goes on) or a `Permanent` one.
        """
        document_id = identity.document(request.scope, request.source_urn)
        async with AsyncExitStack() as held:
            held.enter_context(self._stores.shut.entered(request.scope))
            async with self._documents.writing(request.scope, document_id) as turn:
                known = None if request.task is None else await self._stores.intents.find(document_id)
                of = await repeat.find(self._documents, request, known)
                if of is not None:
                    return self._repeated(request, of)
                # A task that is gone, whose reading is taken over, was perhaps created after this one.
                mine = request.task is not None and repeat.continues(known, request)
                outdated = await self._documents.outdated(document_id, request, awaits=not mine)
                begun = None if outdated else await self._begin(document_id, request, turn, held)
            if begun is None:
                return await self._judge_alone(document_id, request, urgency)
            if begun.former.reading:
                # Models read the same document already, and are not asked twice.
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
                if turn is None or found is None or found[0].state is not request_record.State.OPEN or found[1] is None:
                    return False
                async with self._turns.attempt(document.reading(*found)) as unread:
                    if unread is None or await self._documents.queued(document_id):
                        return False
                held.enter_context(self._stores.shut.entered(found[0].owner))
                if found[1] == delete.FORGET:
                    await self._deletion.complete(found[0].owner, found[0].source_urn, turn)
                    return True
                try:
                    request = source.recorded(found[1], found[0].owner)
                except root.Permanent as error:
                    # Written by another version of this program: only the caller can say it anew.
                    await self._documents.failed(document_id, error, turn)
                    raise
                begun = await self._begin(document_id, request, turn, held)
            return (await self._go_on(begun, urgency)).superseded_by is None

    async def _begin(
        self, document_id: str, request: api.IngestRequest, turn: document_locks.Turn, held: AsyncExitStack
    ) -> open_request.OpenRequest:
        """Record the request. Until the end of `held` nothing else has models read it."""
        taken, made = await self._draft(document_id, request, turn)
        former = await self._former(document_id, request)
        opened = await self._open(document_id, request, turn)
        alone = await held.enter_async_context(self._turns.attempt(document.reading(opened, source.record(request))))
        if alone is None:
            raise errors.Outrun("the same request is being read already")
        if self._stores.queue is not None:
            # An older version that still waits there must not come after this one.
            await self._stores.queue.drop(document_id, fence=turn.fence)
        return open_request.OpenRequest(request, taken, made, opened, former, alone)

    async def _go_on(self, begun: open_request.OpenRequest, urgency: priority.Priority) -> api.IngestReply:
        """Let models read what was begun, with the document's turn free, and commit it unless another came meanwhile.

        The scope counts as written to throughout.
        """
        request, document_id = begun.request, begun.opened.document_id
        prepared = await extractor.tried(self._prepare(begun))
        if isinstance(prepared, root.JervisError):
            qualified = phases.Qualified[extractor.ExtractionResult](
                prepared, prepared, begun.made, state.QualifierPipelineState.initial(request, begun.text)
            )
        else:
            begun = prepared
            models = self._extractor.judge if begun.met.unindexed else self._extractor.both
            with self._meters.stages.labels("models").time():
                looked = images.beside(request, begun.images, late=begun.late)
                qualified = await models(
                    looked,
                    begun.text,
                    begun.made,
                    urgency,
                    begun.met.prompt_rules,
                    begun.met.overrides,
                    begun.thread.shown(),
                )
        judged, extracted = qualified.judged, qualified.extracted
        async with self._documents.writing(request.scope, document_id) as turn:
            latest, owner, superseded = await self._is_latest(begun)
            if superseded is not None:
                return self._not_stored(request, qualified, superseded, begun.met, replaced=begun.opened.known)
            # Its project may have moved meanwhile.
            request = request.model_copy(update={"scope": owner})
            async with self._settled(request, begun.former, turn) if latest else nullcontext():
                if isinstance(extracted, root.JervisError):
                    raise extracted
                # The hints are advice about a task: a model that cannot give them must not cost the document.
                if isinstance(judged, root.JervisError) and not isinstance(judged, errors.Unusable):
                    raise judged
                made = duplicates.linked(qualified.made, begun.like, request)
                read = replace(begun, request=request, made=made)
                if begun.met.unindexed:
                    return await self._leave_out(read, judged, qualified.state, turn, latest=latest)
                reply = await self._store(read, judged, extracted, qualified.state, urgency, turn)
                shown = await self._images.store(request, begun.images, urgency, late=begun.late)
                reply = reply.model_copy(update={"images": shown})
                await self._deletion.supersede_attachments(request, begun.taken.names)
            if latest:
                whole = isinstance(judged, hints.Judgement) and not reply.problems
                stamp = repeat.stamp(request, begun.met.under) if whole else ""
                await self._finish(document_id, turn, replaced=reply.replaced, stamp=stamp)
            return reply

    async def _prepare(self, begun: open_request.OpenRequest) -> open_request.OpenRequest:
        """With what models need to know beside the document. Raises `kb.errors.Away`."""
        request, stores = begun.request, self._stores
        met = await self._documents.meet_rules(request, begun.text)
        where = (stores.graph, stores.vectors, request, begun.text, begun.made)
        like = None if met.unindexed else await duplicates.find(*where)
        return replace(begun, met=met, thread=await threads.find(*where), like=like)

    async def _leave_out(
        self,
        begun: open_request.OpenRequest,
        judged: hints.Judgement | errors.Unusable,
        qualified: state.QualifierPipelineState,
        turn: document_locks.Turn,
        *,
        latest: bool,
    ) -> api.IngestReply:
        """The answer to a request that a hard rule forbids to store; what was known of the document goes."""
        request = begun.request
        if latest:
            await self._deletion.complete(request.scope, request.source_urn, turn)
            self._meters.ingested.labels("left_out").inc()
        return self._replies.left_out(begun, judged, qualified)

    async def _is_latest(self, begun: open_request.OpenRequest) -> tuple[bool, scope.Scope, api.Superseded | None]:
        """Whether the record is that of what was begun; not so when the same request came again, which then ends it.
        With the owner of the record, and what came in the place of the request.

        Raises `kb.errors.Outrun` when this process was taken for gone.
        """
        opened, text = begun.opened, source.record(begun.request)
        found = await self._stores.intents.find(opened.document_id)
        if found is None or found[1] in (text, None):
            if found is not None and found[0].state is request_record.State.OPEN:
                mine = (found[0].attempts, found[0].updated_at) == (opened.attempts, opened.updated_at)
                return mine, found[0].owner, None
            # Processes that took this one for gone may have finished it, or erased its scope.
            begun.alone.check()
        gone = found is None or found[1] == delete.FORGET
        return False, begun.request.scope, "Deletion" if gone else "Version"

    async def _judge_alone(
        self, document_id: str, request: api.IngestRequest, urgency: priority.Priority
    ) -> api.IngestReply:
        """The answer to a request that is older than what was accepted before it: its task needs the hints.

        Raises an `Operational` error: repeated, the request is the older one still.
        """
        # The same request that comes again waits for the answers, and models are not asked twice.
        key = f"reading:{document_id}:{identity.digest(source.record(request))}"
        async with self._turns.take(key) as alone:
            taken = await self._documents.read(request)
            text = taken.text
            met = await self._documents.meet_rules(request, text)
            with self._meters.stages.labels("models").time():
                made = self._documents.draft(request, text)
                looked = images.beside(request, taken.images)
                qualified = await self._extractor.judge(looked, text, made, urgency, met.prompt_rules, met.overrides)
            # Nothing about an erased scope is answered.
            alone.check()
            self._stores.shut.check(request.scope)
        if isinstance(qualified.judged, root.Operational):
            raise qualified.judged
        return self._not_stored(request, qualified, "Version", met, replaced=True)

    def _not_stored(
        self,
        request: api.IngestRequest,
        qualified: phases.Qualified[extractor.ExtractionResult],
        superseded: api.Superseded,
        met: enforce.RuleMatches,
        *,
        replaced: bool,
    ) -> api.IngestReply:
        """The answer to a request that is not the latest, or not any more.

        Models that failed are no error: repeated, a request without a time would undo what came after it.
        """
        self._superseded(request, superseded)
        return self._replies.unstored(request, qualified, superseded, met, replaced=replaced)

    def _repeated(self, request: api.IngestRequest, of: api.Repeat) -> api.IngestReply:
        self._meters.ingested.labels("repeated").inc()
        log.info("repeated", document=identity.document(request.scope, request.source_urn), of=of.task)
        return repeat.answer(request, of)

    def _superseded(self, request: api.IngestRequest, by: api.Superseded) -> None:
        self._meters.ingested.labels("superseded").inc()
        log.info("superseded", document=identity.document(request.scope, request.source_urn), by=by)

    async def index(
        self, request: api.IngestRequest, urgency: priority.Priority, inner: Sequence[inside.Image] = ()
    ) -> api.IndexReply:
        """Make a document findable now and queue the extraction; the queue's job outlives this process.

        `inner` are images of the file that it was read from, which were looked at already.

        Raises an `Operational` error (the job goes on by itself) or a `Permanent` one (there is no job).
        """
        queue = self._documents.queue()
        document_id = identity.document(request.scope, request.source_urn)
        async with self._documents.writing(request.scope, document_id) as turn:
            if await self._documents.outdated(document_id, request):
                self._superseded(request, "Version")
                return api.IndexReply(
                    id=document_id,
                    source_urn=request.source_urn,
                    replaced=True,
                    superseded_by="Version",
                    chunk_ids=[],
                    queued=False,
                    priority=int(urgency),
                )
            taken, made = await self._draft(document_id, request, turn)
            forbidding = (await self._documents.meet_rules(request, taken.text)).unindexed
            if forbidding:
                known = await self._deletion.recorded(request.scope, request.source_urn, turn)
                self._meters.ingested.labels("left_out").inc()
                return api.IndexReply(
                    id=document_id,
                    source_urn=request.source_urn,
                    replaced=known,
                    chunk_ids=[],
                    queued=False,
                    priority=int(urgency),
                    rules=forbidding,
                    indexed=False,
                )
            former = await self._former(document_id, request)
            put = await self._put(document_id, request, urgency, turn)
            opened = await self._open(document_id, request, turn)
            async with self._settled(request, former, turn, put):
                extracted = await self._extractor.kept(request, made)
                built = await self._committer.commit(request, made, extracted, urgency, turn)
                shown = await self._images.store(request, inner, urgency, late=False)
                await self._deletion.supersede_attachments(request, [*taken.names, *(one.name for one in inner)])
            if extracted.missing or taken.images:
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
                queued=extracted.missing > 0 or bool(taken.images),
                priority=int(put.urgency),
                hidden=self._replies.hidden(taken.text),
                images=shown,
                problems=built.problems,
            )

    async def retry(self, document_id: str, urgency: priority.Priority) -> bool:
        """Queue a document that failed once more, as it was sent; False when it has not, or its request is not kept.

        Raises `kb.errors.Crowded` when the queue is full, and `Invalid` for a request of another version.
        """
        listed = await self._stores.intents.find(document_id)
        if listed is None:
            return False
        async with self._documents.writing(listed[0].owner, document_id) as turn:
            found = await self._stores.intents.find(document_id)
            if found is None or found[0].state is not request_record.State.FAILED or found[1] is None:
                return False
            request = source.recorded(found[1], found[0].owner)
            await self._put(document_id, request, urgency, turn)
            await self._open(document_id, request, turn)
            return True

    async def _open(
        self, document_id: str, request: api.IngestRequest, turn: document_locks.Turn
    ) -> request_record.IngestRequestRecord:
        # Whole milliseconds, as every ledger keeps them: a record is distinguished from its successor by its time too.
        now = self._clock()
        now = now.replace(microsecond=now.microsecond // 1000 * 1000)
        what = (request.source_urn, source.record(request), now)
        dated = request_record.dated(request.observed_at, now)
        return await self._stores.intents.open(document_id, request.scope, *what, dated_ms=dated, fence=turn.fence)

    async def _put(
        self, document_id: str, request: api.IngestRequest, urgency: priority.Priority, turn: document_locks.Turn
    ) -> job.Job:
        what = (request.source_urn, request.kind, job.Action.EXTRACT, urgency, source.record(request))
        return await self._documents.queue().put(document_id, request.scope, *what, fence=turn.fence)

    async def _draft(
        self, document_id: str, request: api.IngestRequest, turn: document_locks.Turn
    ) -> tuple[inside.Taken, draft.Draft]:
        """The text and its draft, before anything is recorded: a text that cannot be taken leaves all as it was."""
        try:
            taken = await self._documents.read(request)
        except root.Operational as error:
            await self._open(document_id, request, turn)
            await self._documents.interrupted(document_id, error, turn)
            raise
        except root.Permanent as error:
            intents, now, fence = self._stores.intents, self._clock(), turn.fence
            found = await intents.find(document_id)
            if found is not None and found[1] == source.record(request):
                # Accepted before: its content has gone since.
                await self._documents.extract_shown(request.scope, request.source_urn, request.kind, turn)
                await intents.fail(document_id, error.message, now, fence=fence)
            else:
                urn = request.source_urn
                await intents.refuse(document_id, request.scope, urn, error.message, now, fence=fence)
            self._meters.ingested.labels("failed").inc()
            raise
        return taken, self._documents.draft(request, taken.text)

    async def _former(self, document_id: str, request: api.IngestRequest) -> open_request.PreviousRequest:
        found = await self._stores.intents.find(document_id)
        unfinished = found is not None and found[0].state is request_record.State.OPEN
        same = document.reading(*found) if found is not None and unfinished and repeat.continues(found, request) else ""
        return open_request.PreviousRequest(await self._documents.waiting(document_id), unfinished, same)

    async def _restore(self, owner: scope.Scope, former: tuple[job.Job, str], turn: document_locks.Turn) -> None:
        """Put back the job of the version that stays: what is shown of it has not been extracted yet."""
        old, request = former
        queue = self._documents.queue()
        what = (owner, old.source_urn, old.kind, old.action, old.urgency, request)
        put = await queue.put(old.document_id, *what, fence=turn.fence, bounded=False)
        if old.indexed:
            await queue.mark_indexed(old.document_id, put.revision)

    @asynccontextmanager
    async def _settled(
        self,
        request: api.IngestRequest,
        former: open_request.PreviousRequest,
        turn: document_locks.Turn,
        put: job.Job | None = None,
    ) -> AsyncIterator[None]:
        """Record how the work on a document failed; the version before it stays whole, with its job.

        `put` is the job of this one.
        """
        document_id = identity.document(request.scope, request.source_urn)
        try:
            yield
        except root.Permanent as error:
            if put is not None and (former.job is None or former.job[0].action is job.Action.REBUILD_GRAPH):
                await self._documents.queue().drop(document_id, fence=turn.fence)
            if former.job is not None:
                await self._restore(request.scope, former.job, turn)
            elif former.unfinished:
                # The request before had the job in the memory of its process alone.
                await self._documents.extract_shown(request.scope, request.source_urn, request.kind, turn)
            # Last: until then the next process tries the request again.
            await self._documents.failed(document_id, error, turn)
            raise
        except root.Operational as error:
            await self._documents.interrupted(document_id, error, turn)
            raise

    async def _finish(self, document_id: str, turn: document_locks.Turn, *, replaced: bool, stamp: str = "") -> None:
        await self._stores.intents.finish(document_id, self._clock(), fence=turn.fence, stamp=stamp)
        self._meters.ingested.labels("replaced" if replaced else "new").inc()

    async def _store(
        self,
        begun: open_request.OpenRequest,
        judged: hints.Judgement | errors.Unusable,
        extracted: extractor.ExtractionResult,
        qualified: state.QualifierPipelineState,
        urgency: priority.Priority,
        turn: document_locks.Turn,
    ) -> api.IngestReply:
        request, made, opened = begun.request, begun.made, begun.opened
        built = await self._committer.commit(request, made, extracted, urgency, turn)
        log.info(
            "ingested",
            document=made.document_id,
            chunks=len(made.pieces),
            edges=len(built.edges),
            dropped=built.dropped,
            attempt=opened.attempts,
        )
        return await self._replies.stored(begun, built, judged, extracted, qualified)
