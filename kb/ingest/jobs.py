"""Jobs of the queue: the models' part of a document that can be found already, or that is woven anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime

import structlog

from crds import errors as root
from crds import scope
from kb import api, errors, metrics
from kb.extract import draft
from kb.files import inside
from kb.ingest import commit, delete, document, document_locks, extractor, images, redraft, source
from kb.queue import job

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _ToRead:
    """What models are to read and to look at."""

    request: api.IngestRequest
    made: draft.Draft
    images: tuple[inside.Image, ...] = ()


class Jobs:
    """Does the jobs of one queue; `clock` gives the current time in UTC."""

    def __init__(
        self,
        stores: document.Stores,
        docs: document.Documents,
        deletions: delete.Deletion,
        models: extractor.Extractor,
        committer: commit.Committer,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        shown: images.Images,
    ) -> None:
        self._images = shown
        self._stores = stores
        self._documents = docs
        self._deletion = deletions
        self._extractor = models
        self._committer = committer
        self._meters = meters
        self._clock = clock

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
                to_read = await self._to_read(*held, request)
                if to_read is None:
                    return
            again, before = asked.action is job.Action.REBUILD_GRAPH, to_read.made
            with self._meters.stages.labels("models").time():
                what = (to_read.request, before, asked.urgency)
                said = await extractor.tried(self._extractor.extract(*what, earlier=again))
                # The answers are kept; what goes wrong is met again when they are stored, after the text.
                await extractor.tried(self._images.look(to_read.request, to_read.images, asked.urgency, late=False))
            async with self._job(asked, request) as held:
                if held is None:
                    return
                if isinstance(said, root.JervisError):
                    raise _not_again(said.message) if again and isinstance(said, root.Permanent) else said
                to_read = await self._to_read(*held, request)
                if to_read is not None:
                    await self._write(*held, request, to_read, (before, said))

    @asynccontextmanager
    async def _job(self, asked: job.Job, request: str) -> AsyncIterator[tuple[job.Job, document_locks.Turn] | None]:
        """The job as it is now with its document's turn; None when it was replaced or dropped. Records a failure."""
        queue = self._documents.queue()
        async with self._documents.writing(asked.owner, asked.document_id) as turn:
            found = await queue.find(asked.document_id)
            if found is None or found[0].revision != asked.revision:
                yield None
                return
            overtaken = await self._documents.overtaken(asked.document_id, request)
            if asked.action is job.Action.EXTRACT and overtaken:
                # As the process would have done that recorded the other request, and ended then.
                await queue.drop(asked.document_id, revision=asked.revision)
                yield None
                return
            try:
                yield found[0], turn
            except root.Operational as error:
                if not overtaken:
                    await self._documents.interrupted(asked.document_id, error, turn)
                raise
            except root.Permanent as error:
                if overtaken:
                    # The record is that of a newer request, which models read now: its commit has the names of today.
                    await queue.drop(asked.document_id, revision=asked.revision)
                    raise
                # The intent was finished when the document was indexed, and its request forgotten then.
                where = (asked.document_id, found[0].owner, asked.source_urn)
                record = await self._stores.intents.find(asked.document_id) if found[0].indexed else None
                dated = None if record is None else record[0].stored_ms
                await self._stores.intents.open(*where, request, self._clock(), dated_ms=dated, fence=turn.fence)
                await queue.drop(asked.document_id, revision=asked.revision)
                if asked.action is job.Action.EXTRACT and not found[0].indexed:
                    await self._documents.extract_shown(found[0].owner, asked.source_urn, asked.kind, turn)
                await self._documents.failed(asked.document_id, error, turn)
                raise

    async def _to_read(self, asked: job.Job, turn: document_locks.Turn, request: str) -> _ToRead | None:
        """What models are to read of the job's document; None when there is nothing, and then the job is dropped."""
        to_read: _ToRead | None
        if asked.action is job.Action.REBUILD_GRAPH:
            remade = await self._remade(asked)
            to_read = _ToRead(*remade) if remade is not None else None
        else:
            to_read = await self._recorded(asked, source.recorded(request, asked.owner), turn)
        if to_read is None:
            await self._documents.queue().drop(asked.document_id, revision=asked.revision)
        return to_read

    async def _recorded(self, asked: job.Job, request: api.IngestRequest, turn: document_locks.Turn) -> _ToRead | None:
        """The document as it was sent, unless another one was stored in its place since it was indexed.

        One that is to be stored now, and that a hard rule forbids to store meanwhile, is forgotten.
        """
        taken = await self._documents.read(request)
        text = taken.text
        met = await self._documents.meet_rules(request, text)
        if not asked.indexed and met.unindexed:
            await self._deletion.recorded(request.scope, request.source_urn, turn)
            return None
        made = self._documents.draft(request, text)
        if asked.indexed:
            drafted = {piece.id for piece in made.pieces}
            shown = await self._documents.committed(request.scope, made.document_id, drafted)
            if set(shown) != drafted:
                log.info("superseded", document=made.document_id)
                return None
            request = request.model_copy(update={"scope": await self._grouped(request.scope, shown)})
        return _ToRead(request, made, taken.images if met.overrides.looks else ())

    async def _write(
        self,
        asked: job.Job,
        turn: document_locks.Turn,
        text: str,
        to_read: _ToRead,
        read: tuple[draft.Draft, extractor.ExtractionResult],
    ) -> None:
        """Commit what models said of the draft that they `read`, and drop the job, whose request is `text`."""
        request, made, (before, extracted) = to_read.request, to_read.made, read
        if {piece.id for piece in made.pieces} != {piece.id for piece in before.pieces}:
            raise errors.Outrun("the document was changed while models read it")
        if extracted.problems and asked.action is job.Action.REBUILD_GRAPH:
            # Built without them, the document would lose what it says already; a merge has to wait instead.
            raise _not_again(extracted.problems[0])
        await self._committer.commit(request, made, extracted, asked.urgency, turn)
        if asked.action is job.Action.EXTRACT:
            late = asked.attempts >= images.PATIENCE
            await self._images.store(request, to_read.images, asked.urgency, late=late)
            if not asked.indexed:
                await self._deletion.supersede_attachments(request, [one.name for one in to_read.images])
            if extracted.problems:
                log.warning("passages without entities", document=asked.document_id, problems=extracted.problems[:5])
            found = await self._stores.intents.find(asked.document_id)
            # A newer request that failed stays listed.
            if found is not None and found[1] == text:
                await self._stores.intents.finish(asked.document_id, self._clock(), fence=turn.fence)
        await self._documents.queue().drop(asked.document_id, revision=asked.revision)

    async def _remade(self, asked: job.Job) -> tuple[api.IngestRequest, draft.Draft] | None:
        """The document as it is stored, None when it was forgotten. Of its answers those that were evicted are asked
        for again."""
        # Only what is shown: a version that broke off has left chunks beside it.
        shown = await self._documents.committed(asked.owner, asked.document_id)
        stored = await self._stores.vectors.chunks(asked.owner, shown)
        if not stored:
            return None
        owner = await self._grouped(asked.owner, shown)
        versions = await self._stores.graph.versions(owner, asked.document_id)
        given = versions[0].given if versions else ""
        return redraft.rebuild_draft(owner, asked.document_id, list(stored.values()), given)

    async def _grouped(self, owner: scope.Scope, chunk_ids: Collection[str]) -> scope.Scope:
        """The owner of a document as the graph has it: its project may have moved while a job of it waited."""
        held = await self._stores.graph.held(owner.client_id, list(chunk_ids)[:1])
        return next((one.owner for one in held.values()), owner)


def _not_again(why: str) -> root.Operational:
    return root.Operational(f"its names stay as they are, because it cannot be extracted again: {why}")
