"""Repairs what a look found, a document at a time and never while it is being ingested.

A crash between two steps is repaired by the next round: every repair makes the vectors follow what the graph says now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace

import structlog

from crds import errors, scope
from kb import metrics
from kb.graph import store as graph
from kb.upkeep import check, compare
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)

Turn = Callable[[str], AbstractAsyncContextManager[None]]
"""Exclusive work on the document of that id."""


class Reconciler:
    """Call `sweep` once, or `run` for ever."""

    def __init__(
        self,
        checker: check.Checker,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        turn: Turn,
        working: check.Working,
        meters: metrics.Metrics,
    ) -> None:
        self._checker = checker
        self._graph = graph_store
        self._vectors = vector_store
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
                async with self._turn(document_id):
                    mended = await self._repair(client_id, document_id, findings)
                repaired += mended
                lost += sum(finding.kind == "ChunkTextMissing" for finding in findings)
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

        Returns how many documents, and how many chunks and sentences, changed. Repeating it finishes what broke off.
        """
        documents = await self._graph.regroup(owner)
        return len(documents), await self._vectors.regroup(owner)

    async def _repair(self, client_id: str, document_id: str, findings: Sequence[compare.Finding]) -> int:
        """With the document's turn held: look again, because it may have changed since, and mend what is still so."""
        if await self._working([document_id]):
            return 0
        subjects = {finding.subject for finding in findings if finding.kind not in ("StraySentence",)}
        held = await self._graph.held(client_id, subjects)
        strays = [one.subject for one in findings if one.kind == "ChunkNotInGraph" and one.subject not in held]
        lines = [one.subject for one in findings if one.kind == "StraySentence"]
        await self._vectors.discard(client_id, chunk_ids=strays, sentence_ids=lines)
        mended = len(strays) + len(lines)
        for one in held.values():
            kinds = {finding.kind for finding in findings if finding.subject == one.chunk_id}
            if "OwnerDiffers" in kinds and one.owner.project_id:
                await self._vectors.regroup(one.owner)
            chunk = (await self._vectors.chunks(one.owner, [one.chunk_id])).get(one.chunk_id)
            if chunk is not None and kinds & {"OwnerDiffers", "GraphRefsDiffer"}:
                await self._vectors.touch(one.owner, [replace(chunk, graph_refs=one.node_keys)])
                mended += 1
        return mended
