"""The pipeline: from a request to knowledge that can be found.

    intent -> draft -> extraction and hints (kept) -> vectors (not yet visible) -> graph (commit) -> clean -> finish

Each step may be the last one before a crash: a repeated or resumed request does what is missing, asks no model twice
for a finished chunk and ends in the same ids. Nothing of an unfinished document is shown, because retrieval shows only
chunks that the graph has committed; until then the document's previous version stays visible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from crds import errors as root
from crds import priority, scope
from kb import errors, identity, metrics, wire
from kb.content import store as content
from kb.graph import store as graph
from kb.ingest import answers, draft, extraction, hints, intent, prompt, turns, weave
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
    """What the pipeline writes to and reads from."""

    intents: intent.Intents
    graph: graph.Store
    vectors: vectors.Store
    content: content.Store


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
        async with self._turns.take(document_id):
            opened = await self._stores.intents.open(
                document_id, request.scope, request.source_urn, request.model_dump_json(by_alias=True), self._clock()
            )
            try:
                reply = await self._run(request, opened, urgency)
            except root.Permanent as error:
                await self._stores.intents.fail(document_id, error.message, self._clock())
                self._meters.ingested.labels("failed").inc()
                raise
            except root.Operational as error:
                await self._stores.intents.interrupt(document_id, error.message, self._clock())
                self._meters.ingested.labels("interrupted").inc()
                raise
            await self._stores.intents.finish(document_id, self._clock())
            self._meters.ingested.labels("replaced" if reply.replaced else "new").inc()
            return reply

    async def forget(self, owner: scope.Scope, source_urn: str) -> bool:
        """Delete a document from the graph, then from the vectors. True when it was known."""
        document_id = identity.document(owner, source_urn)
        async with self._turns.take(document_id):
            known = await self._stores.graph.remove(owner, document_id)
            await self._stores.vectors.drop(owner, document_id)
            await self._stores.intents.forget(document_id)
            return known

    def in_work(self, document_id: str) -> bool:
        """Whether this process works on the document now."""
        return self._turns.taken(document_id)

    async def _run(
        self, request: wire.IngestRequest, opened: intent.Intent, urgency: priority.Priority
    ) -> wire.IngestReply:
        text = await self._text(request)
        made = draft.make(request, text, size=self._limits.chunk_chars, overlap=self._limits.chunk_overlap)
        with self._meters.stages.labels("models").time():
            extractions, judgement, problems = await self._ask(request, text, made, urgency)
        woven = weave.weave(request, made, extractions)
        self._meters.dropped.inc(woven.dropped)
        with self._meters.stages.labels("vectors").time():
            before = await self._embed(request.scope, woven, urgency)
        with self._meters.stages.labels("graph").time():
            await self._stores.graph.replace(request.scope, woven.patch)
        if before - set(woven.patch.chunk_ids):
            with self._meters.stages.labels("clean").time():
                await self._stores.vectors.drop(request.scope, made.document_id, keep=woven.patch.chunk_ids)
        self._meters.chunks.inc(len(made.pieces))
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
            summary=judgement.summary,
            hints=hints.settle(judgement, self._clock()),
            problems=problems,
        )

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

    async def _ask(
        self, request: wire.IngestRequest, text: str, made: draft.Draft, urgency: priority.Priority
    ) -> tuple[Mapping[str, extraction.Extraction], hints.Judgement, list[str]]:
        """Extractions by chunk id, the judgement, and what could not be extracted, in words."""
        today = self._clock().astimezone(UTC).date()
        question = prompt.hints(
            hints.excerpt(text), title=request.title, kind=request.kind, today=today, team=request.team
        )
        slots = asyncio.Semaphore(self._limits.parallel)

        async def extract(piece: draft.Piece) -> extraction.Extraction:
            async with slots:
                asked = prompt.extract(piece.chunk.text, title=request.title, kind=request.kind)
                return await self._answers.ask(asked, extraction.Extraction, urgency)

        # All are awaited even when one fails: the answers that do arrive are kept for the repeated call.
        judged, *found = await asyncio.gather(
            self._answers.ask(question, hints.Judgement, urgency),
            *(extract(piece) for piece in made.pieces),
            return_exceptions=True,
        )
        extractions: dict[str, extraction.Extraction] = {}
        problems: list[str] = []
        for piece, result in zip(made.pieces, found, strict=True):
            if isinstance(result, extraction.Extraction):
                extractions[piece.id] = result
            elif isinstance(result, errors.Unusable):
                problems.append(f"characters {piece.chunk.start}-{piece.chunk.end}: {result.message}")
            elif isinstance(result, BaseException):
                raise result
        if isinstance(judged, BaseException):
            raise judged
        assert isinstance(judged, hints.Judgement)
        return extractions, judged, problems

    async def _embed(self, owner: scope.Scope, woven: weave.Woven, urgency: priority.Priority) -> set[str]:
        """Embed what is not stored yet and store it; returns the document's chunks that were stored before."""
        store = self._stores.vectors
        known = await store.known(owner, woven.patch.document.id)
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
        return set(known)
