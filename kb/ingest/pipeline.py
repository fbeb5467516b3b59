"""The pipeline: from a request to knowledge that can be found.

    intent -> draft -> extraction and hints (kept) -> vectors (not yet visible) -> graph (commit) -> clean -> finish

`ingest` does all of it before it returns. `index` leaves the models' part to the queue: the document can be found by
its words and by the relationships it states itself as soon as it returns; `perform` weaves in later what models say.

Each step may be the last one before a crash: a repeated or resumed request does what is missing, asks no model twice
for a finished chunk and ends in the same ids. Nothing of an unfinished document is shown, because retrieval shows only
chunks that the graph has committed; until then the document's previous version stays visible.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pydantic
import structlog

from crds import errors as root
from crds import priority, scope
from kb import errors, identity, metrics, wire, writing
from kb.aliases import registry, rename
from kb.content import store as content
from kb.erasure import closed
from kb.graph import store as graph
from kb.ingest import answers, draft, extraction, hints, intent, mending, prompt, turns, weave
from kb.queue import job
from kb.vectors import embedding, model
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


@dataclass(frozen=True)
class _Heard:
    """What the models said: extractions by chunk id, the passages that nobody could extract from, in words."""

    extractions: Mapping[str, extraction.Extraction]
    problems: list[str] = field(default_factory=list)
    missing: int = 0


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
        self._answers = asked
        self._embedder = embedder
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
                heard = await self._kept(request, made)
                woven = await self._commit(request, made, heard, urgency)
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
                    await self._extract_later(asked, _recorded(request))
            await queue.drop(asked.document_id, revision=asked.revision)

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document, and before it the files that came with it. True when it was known."""
        for urn in await self._attachments(owner, source_urn):
            await self.drop(owner, identity.document(owner, urn))
        return await self.drop(owner, identity.document(owner, source_urn))

    async def _attachments(self, owner: scope.Scope, source_urn: str) -> list[str]:
        """The URNs of the files that came with exactly this owner's document."""
        parent, kind = weave.carries(source_urn, owner)
        said = await self._stores.graph.relationships(owner, source=parent, edge_type=kind, limit=1000)
        found = {one.document.source_urn: one.document.id for one in said}
        return sorted(
            urn
            for urn, document_id in found.items()
            if writing.attached_to(urn) == source_urn and identity.document(owner, urn) == document_id
        )

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
            # Both are awaited even when one fails: the answers that do arrive are kept for the repeated call.
            judged, heard = await asyncio.gather(
                self._judge(request, text, urgency), self._extract(request, made, urgency), return_exceptions=True
            )
        for result in (heard, judged):
            if isinstance(result, BaseException):
                raise result
        assert isinstance(judged, hints.Judgement)
        assert isinstance(heard, _Heard)
        woven = await self._commit(request, made, heard, urgency)
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
            heard = await self._extract(request, made, asked.urgency)
        await self._commit(request, made, heard, asked.urgency)
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
        heard = await self._extract(request, made, asked.urgency)
        await self._commit(request, made, heard, asked.urgency)

    async def _commit(
        self, request: wire.IngestRequest, made: draft.Draft, heard: _Heard, urgency: priority.Priority
    ) -> weave.Woven:
        """Weave, resolve aliases, store vectors, commit the graph and clean; again if an alias changed meanwhile."""
        woven = weave.weave(request, made, heard.extractions)
        self._meters.dropped.inc(woven.dropped)
        keys = {one.node_key for one in woven.patch.mentions}
        known = await self._stores.vectors.known(request.scope, made.document_id)
        while True:
            # Again: models were asked since the turn was taken, and another process may have begun to erase.
            self._stores.shut.check(request.scope)
            mapping = await self._stores.aliases.resolve(request.scope, keys)
            named = replace(
                woven, patch=rename.patch(woven.patch, mapping), chunks=rename.chunks(woven.chunks, mapping)
            )
            with self._meters.stages.labels("vectors").time():
                await self._embed(request.scope, named, known, urgency)
            with self._meters.stages.labels("graph").time():
                await self._stores.graph.replace(request.scope, named.patch)
            # A merge looks for the documents to mend after it is recorded: it saw this commit, or is seen here.
            if mapping == await self._stores.aliases.resolve(request.scope, keys):
                break
            known = await self._stores.vectors.known(request.scope, made.document_id)
        if mapping:
            await self._stores.aliases.seen(request.scope, mapping.keys())
        if set(known) - set(named.patch.chunk_ids):
            with self._meters.stages.labels("clean").time():
                await self._stores.vectors.drop(request.scope, made.document_id, keep=named.patch.chunk_ids)
        self._meters.chunks.inc(len(made.pieces))
        return named

    def _sizes(self) -> dict[str, int]:
        return {"size": self._limits.chunk_chars, "overlap": self._limits.chunk_overlap}

    async def _text(self, request: wire.IngestRequest) -> str:
        text, field = request.content, "content"
        if text is None and request.content_ref is not None:
            field = "contentRef"
            body = await self._stores.content.load(request.scope, request.content_ref.key)
            if identity.digest_bytes(body) != request.content_ref.sha256:
                raise errors.Invalid(
                    "the stored content is not what contentRef describes",
                    field="contentRef.sha256",
                    remedy="Store the content again and use the contentRef of that answer.",
                )
            text = body.decode("utf-8", "replace")
        if text is None or not text.strip():
            raise errors.Invalid(
                "the document is empty", field=field, remedy="Give a content with at least one visible character."
            )
        if len(text) > self._limits.max_chars:
            raise errors.TooLarge(
                f"the document has {len(text)} characters, at most {self._limits.max_chars} are ingested",
                field=field,
                remedy="Split the document, or raise JERVIS_KB_MAX_CHARS.",
            )
        return text

    async def _judge(self, request: wire.IngestRequest, text: str, urgency: priority.Priority) -> hints.Judgement:
        today = self._clock().astimezone(UTC).date()
        question = prompt.hints(
            hints.excerpt(text), title=request.title, kind=request.kind, today=today, team=request.team
        )
        return await self._answers.ask(question, hints.Judgement, urgency)

    async def _extract(self, request: wire.IngestRequest, made: draft.Draft, urgency: priority.Priority) -> _Heard:
        slots = asyncio.Semaphore(self._limits.parallel)

        async def ask(piece: draft.Piece) -> extraction.Extraction:
            async with slots:
                return await self._answers.ask(_question(request, piece), extraction.Extraction, urgency)

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        found = await asyncio.gather(*(ask(piece) for piece in made.pieces), return_exceptions=True)
        extractions: dict[str, extraction.Extraction] = {}
        problems: list[str] = []
        for piece, result in zip(made.pieces, found, strict=True):
            if isinstance(result, extraction.Extraction):
                extractions[piece.id] = result
            elif isinstance(result, errors.Unusable):
                problems.append(f"characters {piece.chunk.start}-{piece.chunk.end}: {result.message}")
            elif isinstance(result, BaseException):
                raise result
        return _Heard(extractions, problems)

    async def _kept(self, request: wire.IngestRequest, made: draft.Draft) -> _Heard:
        """What was said about these chunks before; asks nobody."""
        found = {
            piece.id: said
            for piece in made.pieces
            if (said := await self._answers.kept(_question(request, piece), extraction.Extraction)) is not None
        }
        return _Heard(found, missing=len(made.pieces) - len(found))

    async def _embed(
        self, owner: scope.Scope, woven: weave.Woven, known: Mapping[str, str], urgency: priority.Priority
    ) -> None:
        """Embed and store what is not stored yet; `known` are the document's chunks that are, with their revisions."""
        store = self._stores.vectors
        # Chunks are stored before their sentences, so that a document without the one has none of the other.
        stored = await store.known_sentences(owner, [kept.id for kept in woven.sentences]) if known else set()
        chunks = [kept for kept in woven.chunks if kept.id not in known]
        sentences = [kept for kept in woven.sentences if kept.id not in stored]
        texts = [kept.embedded_text() for kept in chunks] + [kept.text for kept in sentences]
        made: list[model.Vector] = await self._embedder.embed(texts, urgency)
        await store.put(
            owner,
            list(zip(chunks, made[: len(chunks)], strict=True)),
            list(zip(sentences, made[len(chunks) :], strict=True)),
        )
        changed = [kept for kept in woven.chunks if known.get(kept.id, kept.revision(owner)) != kept.revision(owner)]
        if changed:
            await store.touch(owner, changed)


def _recorded(text: str) -> wire.IngestRequest:
    try:
        return wire.IngestRequest.model_validate_json(text)
    except pydantic.ValidationError as error:
        # Written by another version of this program: nobody but the caller can say it anew.
        raise errors.Invalid(f"the recorded request is unreadable: {error}", remedy="Ingest it again.") from error


def _question(request: wire.IngestRequest, piece: draft.Piece) -> prompt.Prompt:
    return prompt.extract(piece.chunk.text, title=request.title, kind=request.kind)
