"""Does what the records ask for: documents first, then everything else that the scope owns. Every step may be repeated.

The scope is closed before anything is deleted. Where several processes serve, each closes it at its next look and says
so; an erasure is done when every place that can hold text has let go of the scope and a whole pass after that has found
nothing. One process at a time makes the passes (`kb.upkeep.leader_jobs`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

import structlog

from crds import errors as root
from crds import scope
from kb import api, metrics
from kb.erasure import book, holdings, places, watch
from kb.graph import store as graph
from kb.ingest import document_locks
from kb.vectors import store as vectors

log = structlog.get_logger(__name__)
_AT_ONCE = 4

Drop = Callable[[scope.Scope, str], Awaitable[bool]]
"""Deletes a document (owner, id) wherever it is; True when the graph had it."""


class Eraser:
    """Call `step` once, or `run` for ever."""

    def __init__(
        self,
        records: book.Book,
        watching: watch.Watch,
        registry: places.Places,
        graph_store: graph.Store,
        vector_store: vectors.Store,
        drop: Drop,
        others: Mapping[str, holdings.Holding],
        meters: metrics.Metrics,
    ) -> None:
        self._book = records
        self._watch = watching
        self._places = registry
        self._graph = graph_store
        self._vectors = vector_store
        self._drop = drop
        self._others = others
        self._meters = meters
        self._news = asyncio.Event()

    async def ask(self, where: scope.Scope, by: str) -> api.Erasure:
        """Record the wish; when this returns, this process takes no writes in the scope any more."""
        made = await self._book.open(where, by)
        await self._watch.look()
        self._news.set()
        return made

    async def step(self, turn: document_locks.Turn | None = None) -> int:
        """One pass over everything that is to be erased; how many erasures are done with it.

        `turn` is that of the duty: a process that has lost it deletes nothing more, because its successor may have
        finished the erasure, and what is in the scope by then was accepted after it. Raises `kb.errors.Outrun` then.
        """
        turn = turn or document_locks.Turn()
        done = 0
        for one in await self._watch.look():
            awaited = await self._places.awaited(one.id)
            found = await self._pass(one, awaited, turn)
            turn.check()
            if not awaited and not found:
                if one.scope.client_id and not (one.scope.project_id or one.scope.group_id):
                    # What is left of a client that owns nothing: collections and tenants that carry its name.
                    await self._graph.vacate(one.scope.client_id)
                    await self._vectors.vacate(one.scope.client_id)
                    turn.check()
                await self._book.finish(one.id)
                log.info("erased", client=one.scope.client_id, project=one.scope.project_id, group=one.scope.group_id)
                done += 1
        if done:
            await self._watch.look()
        return done

    async def run(self, turn: document_locks.Turn, *, interval: float) -> None:
        """Look every `interval` seconds, or as soon as an erasure is asked for here, until cancelled."""
        while True:
            self._news.clear()
            try:
                await self.step(turn)
            except root.Operational as error:
                log.warning("an erasure waits", reason=error.message)
            try:
                async with asyncio.timeout(interval):
                    await self._news.wait()
            except TimeoutError:
                continue

    async def _pass(self, one: api.Erasure, awaited: Sequence[api.Place], turn: document_locks.Turn) -> int:
        """Delete all that is there; how much that was. What has gone is written down as it goes, up to a page late."""
        where, total = one.scope, 0
        gone: Counter[str] = Counter()
        try:
            for part in (self._documents(where, gone, turn), self._strays(where, gone, turn)):
                async for _ in part:
                    total += gone.total()
                    await self._book.add(one.id, gone)
                    gone.clear()
            for name, holding in self._others.items():
                turn.check()
                gone[name] += await holding.erase(where)
        except root.Operational as error:
            await self._book.add(one.id, gone, error.message)
            raise
        await self._book.add(one.id, gone, _waits_for(awaited))
        return total + gone.total()

    async def _documents(
        self, where: scope.Scope, gone: Counter[str], turn: document_locks.Turn
    ) -> AsyncIterator[None]:
        """What the graph knows of, a page at a time; deleting under the cursor moves nothing that lies behind it."""
        after = None
        while True:
            page, after = await self._graph.audit(where.client_id, after=after)
            owners = {row.document.id: row.owner for row in page if where.covers(row.owner)}
            await self._dropped(owners, gone, "documents", turn)
            yield
            if after is None:
                return

    async def _strays(self, where: scope.Scope, gone: Counter[str], turn: document_locks.Turn) -> AsyncIterator[None]:
        """Chunks and sentences that no committed document has: of an ingest, or an erasure, that broke off."""
        after = None
        while True:
            chunks, after = await self._vectors.audit(where.client_id, after=after)
            owners = {row.document_id: row.owner for row in chunks if where.covers(row.owner)}
            await self._dropped(owners, gone, "unfinishedDocuments", turn)
            yield
            if after is None:
                break
        while True:
            lines, after = await self._vectors.audit_sentences(where.client_id, after=after)
            stray = [row.sentence_id for row in lines if where.covers(row.owner)]
            if stray:
                turn.check()
                await self._vectors.discard(where.client_id, chunk_ids=[], sentence_ids=stray)
            gone["straySentences"] += len(stray)
            yield
            if after is None:
                return

    async def _dropped(
        self, owners: Mapping[str, scope.Scope], gone: Counter[str], name: str, turn: document_locks.Turn
    ) -> None:
        waiting = list(owners.items())

        async def work() -> None:
            while waiting:
                document_id, owner = waiting.pop()
                turn.check()
                await self._drop(owner, document_id)
                self._meters.erased.inc()
                gone[name] += 1

        # All are awaited even when one fails; what one error means is the caller's to know, so it is not grouped.
        ended = await asyncio.gather(*(work() for _ in range(min(_AT_ONCE, len(waiting)))), return_exceptions=True)
        for one in ended:
            if isinstance(one, BaseException):
                raise one


def _waits_for(awaited: Sequence[api.Place]) -> str:
    if not awaited:
        return ""
    said = ", ".join(f"{one.name} ({one.kind}, last report at {one.seen_at:%Y-%m-%d %H:%M} UTC)" for one in awaited)
    return (
        f"waits for {said}: start what is down, or say that its files are gone for good "
        "(POST /api/v1/erasures/places/forget)"
    )
