"""Repairs what a look found, a document at a time and never while it is being ingested.

A crash between two steps is repaired by the next round: every repair makes the vectors follow what the graph says now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import structlog

from crds import errors, priority, scope
from kb import loops, metrics
from kb.content import store as content
from kb.graph import model
from kb.graph import store as graph
from kb.ingest import turns
from kb.upkeep import check, compare
from kb.vectors import embedding
from kb.vectors import model as stored_as
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)

Turn = Callable[[str], AbstractAsyncContextManager[turns.Turn]]
"""Exclusive work on the document of that id."""


class Reconciler:
    """Call `sweep` once, or `run` for ever."""

    def __init__(
        self,
        checker: check.Checker,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        content_store: content.Store,
        embedder: embedding.Port,
        turn: Turn,
        working: check.Working,
        meters: metrics.Metrics,
    ) -> None:
        self._checker = checker
        self._graph = graph_store
        self._vectors = vector_store
        self._content = content_store
        self._embedder = embedder
        self._turn = turn
        self._working = working
        self._meters = meters

    async def sweep(self, client_id: str) -> tuple[int, int]:
        """Look at everything of a client and repair it; returns how much was repaired and how much cannot be."""
        repaired = lost = 0
        after: str | None = None
        while True:
            look = await self._checker.look(client_id, after=after)
            documents: dict[str, list[compare.Finding]] = {}
            for finding in look.findings:
                documents.setdefault(finding.document_id, []).append(finding)
            for document_id, findings in documents.items():
                try:
                    async with self._turn(document_id) as turn:
                        mended, gone = await self._repair(client_id, document_id, findings, turn)
                except errors.JervisError:
                    raise
                except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
                    # What a bug keeps from being repaired must not keep the documents and clients behind it so.
                    loops.failed("reconcile", self._meters, document=document_id)
                    continue
                repaired += mended
                lost += gone
            if look.next is None:
                break
            after = look.next
        self._meters.repaired.inc(repaired)
        if repaired or lost:
            log.warning("stores disagreed", client=client_id, repaired=repaired, lost=lost)
        return repaired, lost

    async def run(self, *, interval: float) -> None:
        """Sweep every client every `interval` seconds until cancelled."""
        while True:
            await asyncio.sleep(interval)
            try:
                lost = 0
                for client_id in await self._graph.clients():
                    lost += (await self.sweep(client_id))[1]
                self._meters.lost.set(lost)
            except errors.Operational as error:
                log.warning("the stores cannot be compared", reason=error.message)

    async def regroup(self, owner: scope.Scope) -> tuple[int, int]:
        """Take a project's data into the owner's group: at once in the graph, which decides what is shown.

        Returns how many documents, and how many chunks and sentences, changed. What breaks off is finished by the next
        sweep, or by repeating it. A document that is being written can be committed with the group that it had when
        that began: its turn is awaited, and it is moved again.
        """
        documents: set[str] = set()
        vectors = 0
        while True:
            moved = await self._graph.regroup(owner)
            documents.update(moved)
            vectors += await self._follow(owner)
            written = await self._checker.working(moved)
            if not written:
                return len(documents), vectors
            for document_id in sorted(written):
                async with self._turn(document_id):
                    pass

    async def _follow(self, owner: scope.Scope) -> int:
        """Let contents and vectors of the project have the group that the graph says; how many vectors changed."""
        # The vectors last: as long as they differ from the graph, a sweep sees that this is not done.
        await self._content.regroup(owner)
        return await self._vectors.regroup(owner)

    async def _repair(
        self, client_id: str, document_id: str, findings: Sequence[compare.Finding], turn: turns.Turn
    ) -> tuple[int, int]:
        """With the document's turn held: look again, because it may have changed since, and repair what is still so.

        Returns how many chunks and sentences were repaired, and how many chunks cannot be.
        """
        if await self._working([document_id]):
            return 0, 0
        wrong = await self._checker.again(client_id, findings)
        kinds: dict[str, set[str]] = {}
        for one in wrong:
            kinds.setdefault(one.kind, set()).add(one.subject)
        strays, lines = kinds.get("ChunkNotInGraph", set()), kinds.get("StraySentence", set())
        turn.check()
        await self._vectors.discard(client_id, chunk_ids=strays, sentence_ids=lines)
        mended = len(strays) + len(lines)
        for owner in {one.owner for one in wrong if one.kind == "OwnerDiffers" and one.owner.project_id}:
            await self._follow(owner)
        differing = kinds.get("OwnerDiffers", set()) | kinds.get("GraphRefsDiffer", set())
        for held in (await self._graph.held(client_id, differing)).values():
            chunk = (await self._vectors.chunks(held.owner, [held.chunk_id], history=True)).get(held.chunk_id)
            if chunk is not None:
                turn.check()
                await self._vectors.touch(held.owner, [replace(chunk, graph_refs=held.node_keys)])
                mended += 1
        silent = kinds.get("SentenceVectorsMissing", set())
        for held in (await self._graph.held(client_id, silent)).values():
            mended += await self._embed(held, turn)
        return mended, len(kinds.get("ChunkTextMissing", set()))

    async def _embed(self, held: model.Committed, turn: turns.Turn) -> int:
        """Store the vectors of the chunk's sentences that have none; the graph has their text. Returns how many."""
        stored = await self._vectors.held_sentences(held.owner.client_id, held.sentence_ids)
        said = await self._graph.mentioned(held.owner, [held.chunk_id])
        texts = {one.sentence_id: one.sentence for one in said if one.sentence_id not in stored}
        made = await self._embedder.embed(list(texts.values()), priority.Priority.P3)
        lines = [
            (stored_as.Sentence(key, held.chunk_id, held.document.id, text), vector)
            for (key, text), vector in zip(texts.items(), made, strict=True)
        ]
        turn.check()
        await self._vectors.put(held.owner, [], lines)
        return len(lines)
