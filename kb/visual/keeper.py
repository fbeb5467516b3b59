"""Keeps pages equal to the documents that they belong to: what no document has any more goes, what the index lost comes
back from what is kept, and what another model embedded is embedded anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import structlog

from crds import errors, scope
from kb import metrics
from kb.content import store as content
from kb.graph import store as graph
from kb.ingest import document_locks
from kb.upkeep import check
from kb.visual import book, choice, index, making, model, pages

log = structlog.get_logger(__name__)
_AT_ONCE = 8
# What failed is tried again after so long: the program may be another one by then.
_ONCE_MORE = timedelta(days=1)


class Keeper:
    """Call `sweep` once, or `run` for ever. `working`: documents in work are left alone. `clock` gives UTC."""

    def __init__(
        self,
        records: book.Book,
        found_by: index.Index,
        kept: content.Store,
        choices: choice.Registry,
        graph_store: graph.Store,
        mine: pages.Pages,
        maker: making.Maker,
        working: check.Working,
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        limits: making.Limits = making.Limits(),  # noqa: B008 -- frozen
    ) -> None:
        self._book = records
        self._index = found_by
        self._content = kept
        self._choices = choices
        self._graph = graph_store
        self._pages = mine
        self._maker = maker
        self._working = working
        self._meters = meters
        self._clock = clock
        self._limits = limits

    async def sweep(self, turn: document_locks.Turn | None = None) -> tuple[int, int]:
        """(documents whose pages went, pages that went or came back alone). Raises `kb.errors.Away`.

        `turn` is that of the duty. Raises `kb.errors.Outrun` when another process has it by now.
        """
        turn = turn or document_locks.Turn()
        dropped = repaired = 0
        clients = {*await self._book.clients(), *await self._graph.clients(), *await self._content.part_clients()}
        for client_id in sorted(clients):
            dropped += await self._documents(client_id, turn)
            repaired += await self._rows(client_id, turn) + await self._strays(client_id, turn)
            repaired += await self._parts(client_id, turn)
        for state, count in (await self._book.waiting()).items():
            self._meters.page_waiting.labels(state).set(count)
        if dropped or repaired:
            log.info("pages swept", documents=dropped, pages=repaired)
        return dropped, repaired

    async def run(self, turn: document_locks.Turn, *, interval: float) -> None:
        """Sweep at once and then every `interval` seconds until cancelled."""
        while True:
            try:
                await self.sweep(turn)
            except errors.Operational as error:
                log.warning("pages cannot be swept", reason=error.message)
            await asyncio.sleep(interval)

    async def _documents(self, client_id: str, turn: document_locks.Turn) -> int:
        """Drop what the graph does not have in this version, or what is not chosen any more."""
        gone, after = 0, ""
        while page := await self._book.listed(client_id, after=after):
            busy = await self._working([work.source.document_id for work in page])
            for work in page:
                source = work.source
                if source.document_id in busy:
                    continue
                turn.check()
                if not await self._stands(source):
                    await self._pages.drop(source.owner, source.document_id)
                    gone += 1
                elif self._unfinished(work) and await self._book.again(work):
                    self._maker.wake()
            after = page[-1].source.document_id
        return gone

    def _unfinished(self, work: model.Work) -> bool:
        if work.state == book.FAILED:
            return work.updated_at is None or work.updated_at < self._clock() - _ONCE_MORE
        # Without a model no vectors are lost: pages are found by their words, and the model may come back.
        return work.state == book.DONE and self._maker.name not in ("", work.model)

    async def _parts(self, client_id: str, turn: document_locks.Turn) -> int:
        """Images and files that no page and no work has go."""
        gone, before = 0, self._clock() - making.FRESH
        for document_id in await self._content.parts(client_id, before=before):
            work = await self._book.find(document_id)
            if (work is not None and work.state == book.WAITING) or await self._working([document_id]):
                continue
            turn.check()
            keep = await self._book.images(document_id)
            gone += await self._content.drop_parts(document_id, keep=keep, before=before)
        return gone

    async def _stands(self, source: model.Source) -> bool:
        versions = await self._graph.versions(source.owner, source.document_id)
        present = next((one for one in versions if one.document.until_ms is None), None)
        if present is None or present.revision != source.revision:
            return False
        return await choice.of(self._choices, source.owner, source.source_urn) != "None"

    async def _rows(self, client_id: str, turn: document_locks.Turn) -> int:
        """Pages of no work go; pages that the index lost come back; pages whose project moved while they were made
        follow it."""
        changed, after = 0, ""
        while page := await self._book.page_ids(client_id, after=after):
            works = await self._book.works({one.document_id for one in page})
            mine = {one.page_id: works[one.document_id] for one in page if _of(works.get(one.document_id), one)}
            stray = [one.page_id for one in page if one.page_id not in mine]
            name = self._maker.name
            done = [one for one, work in mine.items() if work.state == book.DONE and name in ("", work.model)]
            turn.check()
            if stray:
                await self._index.discard(client_id, stray)
                await self._book.discard(stray)
            moved: dict[scope.Scope, list[str]] = {}
            for one in page:
                if one.page_id in mine and mine[one.page_id].source.owner != one.owner:
                    moved.setdefault(mine[one.page_id].source.owner, []).append(one.page_id)
            for owner, page_ids in moved.items():
                await self._book.reown(page_ids, owner)
                await self._content.regroup(owner)
            lost = sorted(set(done) - await self._index.held(client_id, done))
            await self._restore(lost)
            changed += len(stray) + len(lost) + sum(map(len, moved.values()))
            after = page[-1].page_id
        return changed

    async def _restore(self, page_ids: Sequence[str]) -> None:
        for start in range(0, len(page_ids), _AT_ONCE):
            some = await self._book.get(page_ids[start : start + _AT_ONCE])
            name = self._maker.name
            await self._index.put([await asyncio.to_thread(making.indexed, one, self._limits, name) for one in some])

    async def _strays(self, client_id: str, turn: document_locks.Turn) -> int:
        """What the index has alone goes; what it has of another owner is put again."""
        gone = 0
        after: str | None = None
        while True:
            page, after = await self._index.audit(client_id, after=after)
            stored = await self._book.stored([one.page_id for one in page])
            stray = sorted({one.page_id for one in page} - stored.keys())
            moved = [one.page_id for one in page if one.page_id in stored and stored[one.page_id].owner != one.owner]
            if moved:
                turn.check()
                await self._restore(moved)
                gone += len(moved)
            if stray:
                turn.check()
                await self._index.discard(client_id, stray)
                gone += len(stray)
            if after is None:
                return gone


def _of(work: model.Work | None, page: model.Stored) -> bool:
    return work is not None and work.source.id == page.work_id
