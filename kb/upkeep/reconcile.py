"""Repairs what a look found, a document at a time and never while it is being ingested.

    Changed  a pass over the documents that were changed since they were last compared; each interval
    Full     a pass over everything, for what happened to the stores beside us; before it, where it is due

A crash between two steps is repaired by the next pass: every repair makes the vectors follow what the graph says now,
and a document stays noted as changed until it was compared and nothing was left to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from crds import errors, priority, scope
from kb import errors as kb_errors
from kb import loops, metrics
from kb.content import store as content
from kb.graph import model
from kb.graph import store as graph
from kb.ingest import changes, document_locks
from kb.upkeep import check, compare
from kb.vectors import embedding
from kb.vectors import model as stored_as
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)

Turn = Callable[[str], AbstractAsyncContextManager[document_locks.Turn]]
"""Exclusive work on the document of that id."""


# Changed documents that are compared together, and documents of a project that are listed together.
_PAGE = 100
_LISTED = 500


@dataclass
class _Done:
    """What was done about one look. `left` are documents that have to be looked at again, with their owners."""

    repaired: int = 0
    lost: int = 0
    left: dict[str, scope.Scope] = field(default_factory=dict)
    next: str | None = None


class Waiting(Protocol):
    """Records of documents that are not finished."""

    async def regroup(self, owner: scope.Scope) -> Collection[str]:
        """Let those of the owner's project belong to its group; the documents that changed."""
        ...


class Moving(Protocol):
    """What belongs to projects beside documents, or is made of them: branches, pages."""

    async def regroup(self, owner: scope.Scope) -> object:
        """Let that of the owner's project belong to its group."""
        ...


class Reconciler:
    """Call `step` once, or `run` for ever. `clock` gives the current time in UTC."""

    def __init__(
        self,
        checker: check.Checker,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        content_store: content.Store,
        embedder: embedding.Port,
        turn: Turn,
        working: check.Working,
        noted: changes.Changes,
        waiting: Collection[Waiting],
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        others: Collection[Moving] = (),
    ) -> None:
        self._checker = checker
        self._others = others
        self._graph = graph_store
        self._vectors = vector_store
        self._content = content_store
        self._embedder = embedder
        self._turn = turn
        self._working = working
        self._changes = noted
        self._waiting = waiting
        self._meters = meters
        self._clock = clock

    async def step(self, full: timedelta) -> None:
        """A pass over all that was changed; before it one over everything, if none was begun since `full` ago.

        A full pass that broke off goes on. Raises `kb.errors.Away`.
        """
        last = (await self._changes.passes()).get("Full")
        if last is None or (last.ended_at is not None and self._clock() - last.begun_at >= full):
            last = changes.Pass("Full", self._clock())
        if last.ended_at is None:
            await self._everything(last)
        await self._changed()

    async def run(self, *, interval: float, full: timedelta) -> None:
        """Make the passes that are due every `interval` seconds until cancelled."""
        while True:
            await asyncio.sleep(interval)
            try:
                await self.step(full)
            except errors.Operational as error:
                log.warning("the stores cannot be compared", reason=error.message)

    async def sweep(self, client_id: str) -> tuple[int, int]:
        """Look at everything of a client and repair it; returns how much was repaired and how much cannot be."""
        repaired = lost = 0
        after: str | None = None
        while True:
            done = await self._look(client_id, after)
            repaired, lost, after = repaired + done.repaired, lost + done.lost, done.next
            if after is None:
                return repaired, lost

    async def _everything(self, one: changes.Pass) -> None:
        """A full pass, from where it is recorded to be. What it leaves is noted: the passes over changes look again."""
        for client_id in sorted(await self._graph.clients()):
            if client_id < one.client_id:
                continue
            after = resumed = one.after if client_id == one.client_id else None
            while True:
                one = replace(one, client_id=client_id, after=after)
                await self._changes.record(one)
                try:
                    done = await self._look(client_id, after)
                except kb_errors.Invalid:
                    if resumed is None:
                        raise
                    # A cursor of another store than today's.
                    after = resumed = None
                    continue
                for document_id, owner in done.left.items():
                    await self._changes.note(owner, [document_id])
                after = done.next
                if after is None:
                    break
        await self._changes.record(replace(one, ended_at=self._clock(), client_id="", after=None))
        self._meters.passes.labels("full").inc()

    async def _changed(self) -> None:
        """A pass over the documents that are noted; a document that is noted anew meanwhile stays so."""
        one = changes.Pass("Changed", self._clock())
        await self._changes.record(one)
        lost = 0
        after = ""
        while page := await self._changes.changed(after=after, limit=_PAGE):
            # A commit that was noted before its mark was read has ended by now, or its document is in work.
            busy = await self._checker.working([noted.document_id for noted in page])
            idle = [noted for noted in page if noted.document_id not in busy]
            for client_id in sorted({noted.owner.client_id for noted in idle}):
                mine = [noted for noted in idle if noted.owner.client_id == client_id]
                lost += await self._compare(client_id, mine)
            after = page[-1].document_id
        self._meters.lost.set(lost)
        await self._changes.record(replace(one, ended_at=self._clock()))
        self._meters.passes.labels("changed").inc()

    async def _compare(self, client_id: str, noted: Sequence[changes.Change]) -> int:
        """Look at these documents of a client, and settle those of which nothing is left; how many chunks are lost."""
        documents = [one.document_id for one in noted]
        left: set[str] = set()
        lost, place = 0, None
        while True:
            done = await self._look(client_id, place, documents)
            left |= done.left.keys()
            lost, place = lost + done.lost, done.next
            if place is None:
                break
        for one in noted:
            if one.document_id not in left:
                await self._changes.settle(one.document_id, one.mark)
        return lost

    async def _look(self, client_id: str, after: str | None, document_ids: Collection[str] | None = None) -> _Done:
        """Look at a client's data, or at these documents of it, and repair what is found."""
        look = await self._checker.look(client_id, after=after, document_ids=document_ids)
        done = _Done(left=look.busy, next=look.next)
        documents: dict[str, list[compare.Finding]] = {}
        for finding in look.findings:
            documents.setdefault(finding.document_id, []).append(finding)
        for document_id, findings in documents.items():
            try:
                async with self._turn(document_id) as turn:
                    repaired, lost = await self._repair(client_id, document_id, findings, turn)
            except errors.Operational:
                raise
            except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
                # What a bug, or a text that no model takes, keeps from being repaired must not keep the rest so.
                loops.failed("reconcile", self._meters, document=document_id)
                done.left[document_id] = findings[0].owner
                continue
            done.repaired += repaired
            done.lost += lost
            if lost or not repaired:
                # It cannot be repaired, or was in work or in order meanwhile: the next pass sees which.
                done.left[document_id] = findings[0].owner
        self._meters.repaired.inc(done.repaired)
        if done.repaired or done.lost:
            log.warning("stores disagreed", client=client_id, repaired=done.repaired, lost=done.lost)
        return done

    async def regroup(self, owner: scope.Scope) -> tuple[int, int]:
        """Take a project's data into the owner's group: at once in the graph, which decides what is shown.

        Returns how many documents, and how many chunks and sentences, changed. What breaks off is finished by the next
        pass over what was changed, or by repeating it. A document that waits, as a request that is open or has failed
        or as a job, moves with its records, before the graph: that has moved when nothing else can be forgotten. One
        that is being written can be committed with the group that it had when that began: its turn is awaited, and it
        is moved again.
        """
        documents: set[str] = set()
        vectors = 0
        while True:
            waited = {one for records in self._waiting for one in await records.regroup(owner)}
            # Asked before the graph is: what is committed after that, and before the end, has the former group.
            written = await self._checker.working(waited)
            await self._note(owner)
            moved = waited.union(await self._graph.regroup(owner))
            # Once more: a pass may have settled them before the graph had moved them.
            await self._changes.note(owner, moved)
            documents.update(moved)
            vectors += await self._follow(owner)
            written |= await self._checker.working(moved)
            if not written:
                return len(documents), vectors
            for document_id in sorted(written):
                async with self._turn(document_id):
                    pass

    async def _note(self, owner: scope.Scope) -> None:
        """Note the project's documents that have another group; what is committed later is noted by its commit."""
        after = ""
        while page := await self._graph.listed(owner, after=after, limit=_LISTED):
            mine = [one for one in page if one.owner.project_id == owner.project_id and one.owner != owner]
            await self._changes.note(owner, [one.document.id for one in mine])
            after = page[-1].document.id

    async def _follow(self, owner: scope.Scope) -> int:
        """Let contents and vectors of the project have the group that the graph says; how many vectors changed."""
        # The vectors last: as long as they differ from the graph, a sweep sees that this is not done.
        await self._content.regroup(owner)
        for one in self._others:
            await one.regroup(owner)
        return await self._vectors.regroup(owner)

    async def _repair(
        self, client_id: str, document_id: str, findings: Sequence[compare.Finding], turn: document_locks.Turn
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
        repaired = len(strays) + len(lines)
        for owner in {one.owner for one in wrong if one.kind == "OwnerDiffers" and one.owner.project_id}:
            await self._follow(owner)
        differing = kinds.get("OwnerDiffers", set()) | kinds.get("GraphRefsDiffer", set())
        for held in (await self._graph.held(client_id, differing)).values():
            chunk = (await self._vectors.chunks(held.owner, [held.chunk_id], history=True)).get(held.chunk_id)
            if chunk is not None:
                turn.check()
                await self._vectors.touch(held.owner, [replace(chunk, graph_refs=held.node_keys)])
                repaired += 1
        silent = kinds.get("SentenceVectorsMissing", set())
        for held in (await self._graph.held(client_id, silent)).values():
            repaired += await self._embed(held, turn)
        return repaired, len(kinds.get("ChunkTextMissing", set()))

    async def _embed(self, held: model.Committed, turn: document_locks.Turn) -> int:
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
