"""Does what the records ask for: documents first, then everything else that the scope owns. Every step may be repeated.

The scope is closed before anything is deleted. Where several processes write, each closes it at its next look; so an
erasure is done only after it has been open for `settle` and a whole pass has found nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog

from crds import errors as root
from crds import scope
from kb import metrics, writing
from kb.erasure import book, closed, holdings
from kb.graph import store as graph
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)
_AT_ONCE = 4

Drop = Callable[[scope.Scope, str], Awaitable[bool]]
"""Deletes a document (owner, id) wherever it is; True when the graph had it."""


class Eraser:
    """Call `look` and `step`, or `run` for ever. `own` is what this process alone has written down of documents."""

    def __init__(
        self,
        records: book.Book,
        shut: closed.Closed,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        drop: Drop,
        own: tuple[holdings.Holding, ...],
        others: Mapping[str, holdings.Holding],
        meters: metrics.Metrics,
        clock: Callable[[], datetime],
        *,
        settle: timedelta,
    ) -> None:
        self._book = records
        self._closed = shut
        self._graph = graph_store
        self._vectors = vector_store
        self._drop = drop
        self._own = own
        self._others = others
        self._meters = meters
        self._clock = clock
        self._settle = settle
        self._news = asyncio.Event()

    async def ask(self, where: scope.Scope, by: str) -> writing.Erasure:
        """Record the wish; when this returns, this process takes no writes in the scope any more."""
        made = await self._book.open(where, by)
        await self.look()
        self._news.set()
        return made

    async def look(self) -> list[writing.Erasure]:
        """Close what is being erased, open what is done; what is being erased."""
        running = await self._book.running()
        self._closed.replace(one.scope for one in running)
        self._meters.erasures.set(len(running))
        return running

    async def step(self) -> int:
        """One pass over everything that is to be erased; how many erasures are done with it."""
        done = 0
        for one in await self.look():
            found = await self._pass(one)
            settled = self._clock() - one.requested_at >= self._settle
            if settled and not found:
                await self._book.finish(one.id)
                log.info("erased", client=one.scope.client_id, project=one.scope.project_id, group=one.scope.group_id)
                done += 1
        if done:
            await self.look()
        return done

    async def run(self, *, interval: float) -> None:
        """Look every `interval` seconds, or as soon as somebody asks, until cancelled."""
        while True:
            self._news.clear()
            try:
                await self.step()
            except root.Operational as error:
                log.warning("an erasure waits", reason=error.message)
            try:
                async with asyncio.timeout(interval):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _pass(self, one: writing.Erasure) -> int:
        """Delete all that is there; how much that was. What has gone is written down as it goes, up to a page late."""
        where, total = one.scope, 0
        gone: Counter[str] = Counter()
        try:
            for mine in self._own:
                await mine.erase(where)
            for part in (self._documents(where, gone), self._strays(where, gone)):
                async for _ in part:
                    total += gone.total()
                    await self._book.add(one.id, gone)
                    gone.clear()
            for name, holding in self._others.items():
                gone[name] += await holding.erase(where)
        except root.Operational as error:
            await self._book.add(one.id, gone, error.message)
            raise
        await self._book.add(one.id, gone)
        return total + gone.total()

    async def _documents(self, where: scope.Scope, gone: Counter[str]) -> AsyncIterator[None]:
        """What the graph knows of, a page at a time; deleting under the cursor moves nothing that lies behind it."""
        after = None
        while True:
            page, after = await self._graph.audit(where.client_id, after=after)
            owners = {row.document.id: row.owner for row in page if where.covers(row.owner)}
            await self._dropped(owners, gone, "documents")
            yield
            if after is None:
                return

    async def _strays(self, where: scope.Scope, gone: Counter[str]) -> AsyncIterator[None]:
        """Chunks and sentences that no committed document has: of an ingest, or an erasure, that broke off."""
        after = None
        while True:
            chunks, after = await self._vectors.audit(where.client_id, after=after)
            owners = {row.document_id: row.owner for row in chunks if where.covers(row.owner)}
            await self._dropped(owners, gone, "unfinishedDocuments")
            yield
            if after is None:
                break
        while True:
            lines, after = await self._vectors.audit_sentences(where.client_id, after=after)
            stray = [row.sentence_id for row in lines if where.covers(row.owner)]
            if stray:
                await self._vectors.discard(where.client_id, chunk_ids=[], sentence_ids=stray)
            gone["straySentences"] += len(stray)
            yield
            if after is None:
                return

    async def _dropped(self, owners: Mapping[str, scope.Scope], gone: Counter[str], name: str) -> None:
        waiting = list(owners.items())

        async def work() -> None:
            while waiting:
                document_id, owner = waiting.pop()
                await self._drop(owner, document_id)
                self._meters.erased.inc()
                gone[name] += 1

        # All are awaited even when one fails; what one error means is the caller's to know, so it is not grouped.
        ended = await asyncio.gather(*(work() for _ in range(min(_AT_ONCE, len(waiting)))), return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one
