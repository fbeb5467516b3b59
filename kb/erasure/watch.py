"""What each process does for erasures: it closes the scopes, clears its own records and says when it has done so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import structlog

from crds import errors as root
from kb import api, metrics
from kb.erasure import book, closed, holdings, places

log = structlog.get_logger(__name__)


class Watch:
    """Call `look` once, or `run` for ever. `own` is what this process alone has written down of documents."""

    def __init__(
        self,
        records: book.Book,
        shut: closed.Closed,
        registry: places.Places,
        own: Sequence[holdings.Holding],
        meters: metrics.Metrics,
        monotonic: Callable[[], float],
    ) -> None:
        self._book = records
        self._closed = shut
        self._places = registry
        self._own = own
        self._meters = meters
        self._monotonic = monotonic

    async def look(self) -> list[api.Erasure]:
        """Close what is being erased, open what is done; what is being erased. Raises `kb.errors.Away`."""
        await self._places.register()
        asked_at = self._monotonic()
        running = await self._book.running()
        self._closed.replace((one.scope for one in running), asked_at=asked_at)
        self._meters.erasures.set(len(running))
        let_go: list[str] = []
        for one in running:
            # A write that began before the scope was closed may still put something down.
            if self._closed.quiet(one.scope):
                for mine in self._own:
                    await mine.erase(one.scope)
                let_go.append(one.id)
        await self._places.confirm(let_go)
        return running

    async def run(self, *, interval: float) -> None:
        """Look every `interval` seconds until cancelled."""
        while True:
            try:
                await self.look()
            except root.Operational as error:
                log.warning("it is not known what is being erased", reason=error.message)
            await asyncio.sleep(interval)
