"""Keeps pages equal to the documents that they belong to: what no document has any more goes, what the index lost comes
back from what is kept, and what another model embedded is embedded anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta

import structlog

from crds import errors
from kb import metrics
from kb.content import store as content
from kb.graph import store as graph
from kb.ingest import turns
from kb.upkeep import check
from kb.visual import book, choice, index, making, model, pages

log = structlog.get_logger(__name__)
_AT_ONCE = 8
# A file is kept before its document is stored, and an upload may take so long.
_FRESH = timedelta(hours=1)


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

    async def sweep(self, turn: turns.Turn | None = None) -> tuple[int, int]:
        """(documents whose pages went, pages that went or came back alone). Raises `kb.errors.Away`.

        `turn` is that of the duty. Raises `kb.errors.Outrun` when another process has it by now.
        """
        turn = turn or turns.Turn()
        dropped = repaired = 0
        for client_id in sorted({*await self._book.clients(), *await self._graph.clients()}):
            dropped += await self._documents(client_id, turn)
            repaired += await self._rows(client_id, turn) + await self._strays(client_id, turn)
            for document_id in await self._content.parts(client_id, before=self._clock() - _FRESH):
                if await self._book.find(document_id) is None and not await self._working([document_id]):
                    turn.check()
                    repaired += await self._content.drop_parts(document_id)
        for state, count in (await self._book.waiting()).items():
            self._meters.page_waiting.labels(state).set(count)
        if dropped or repaired:
            log.info("pages swept", documents=dropped, pages=repaired)
        return dropped, repaired

    async def run(self, turn: turns.Turn, *, interval: float) -> None:
        """Sweep at once and then every `interval` seconds until cancelled."""
        while True:
            try:
                await self.sweep(turn)
            except errors.Operational as error:
                log.warning("pages cannot be swept", reason=error.message)
            await asyncio.sleep(interval)

    async def _documents(self, client_id: str, turn: turns.Turn) -> int:
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
                elif work.state == book.DONE and work.model != self._maker.name and await self._book.again(work):
                    self._maker.wake()
            after = page[-1].source.document_id
        return gone

    async def _stands(self, source: model.Source) -> bool:
        versions = await self._graph.versions(source.owner, source.document_id)
        present = next((one for one in versions if one.document.until_ms is None), None)
        if present is None or present.revision != source.revision:
            return False
        return await choice.of(self._choices, source.owner, source.source_urn) != "None"

    async def _rows(self, client_id: str, turn: turns.Turn) -> int:
        """Pages of no work go; pages that the index lost come back."""
        changed, after = 0, ""
        while page := await self._book.page_ids(client_id, after=after):
            works = await self._book.works({document_id for _, document_id, _ in page})
            mine = {one: works[document] for one, document, work in page if _of(works.get(document), work)}
            stray = [one for one, _, _ in page if one not in mine]
            done = [one for one, work in mine.items() if work.state == book.DONE and work.model == self._maker.name]
            turn.check()
            if stray:
                await self._index.discard(client_id, stray)
                await self._book.discard(stray)
            lost = sorted(set(done) - await self._index.held(client_id, done))
            for start in range(0, len(lost), _AT_ONCE):
                some = await self._book.get(lost[start : start + _AT_ONCE])
                await self._index.put([await asyncio.to_thread(making.indexed, one, self._limits) for one in some])
            changed += len(stray) + len(lost)
            after = page[-1][0]
        return changed

    async def _strays(self, client_id: str, turn: turns.Turn) -> int:
        """What the index has alone goes."""
        gone = 0
        after: str | None = None
        while True:
            page, after = await self._index.audit(client_id, after=after)
            ids = [one.page_id for one in page]
            stray = sorted(set(ids) - await self._book.held(ids))
            if stray:
                turn.check()
                await self._index.discard(client_id, stray)
                gone += len(stray)
            if after is None:
                return gone


def _of(work: model.Work | None, work_id: str) -> bool:
    return work is not None and work.source.id == work_id
