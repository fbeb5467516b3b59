"""Three simpler algorithms, each as a source behind the port; poller, sweep and indexer are the real ones.

    window    what changed since the last poll, by our clock; nothing that a list names beside it
    days      what changed on the day of the last poll or later, less as many entries as were taken
    believed  the real source, but a list that breaks off counts as its end

The first two read the lists of the model and meet the same faults, pages and events as the real source.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime

from bench.connectors.site import Row, Site
from clients import mongo
from sources.core import port

PAGE = 3


class _Simple:
    def __init__(self, site: Site, wall: Callable[[], datetime]) -> None:
        self._site, self._wall = site, wall

    def _ask(self) -> list[Row]:
        """A request for a page."""
        self._site.bucket.reserve(0.0)
        if said := self._site.fault():
            raise port.Unreachable(f"the source answers: {said}")
        return self._site.rows()

    async def ids(self) -> AsyncGenerator[port.Page]:
        """The list as it was at its first page, so that only the news differ from the real source."""
        places = [row.place for row in self._ask() if row.place]
        for start in range(0, len(places), PAGE):
            if start:
                self._ask()
            yield port.Page(tuple(places[start : start + PAGE]))
        yield port.Page((), last=True)


class Window(_Simple):
    """The time of the last poll."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        begun, start = self._wall(), 0
        since = datetime.fromisoformat(cursor["at"]) if "at" in cursor else datetime(1970, 1, 1, tzinfo=UTC)
        # The time is written in UTC, and the source reads it in the zone of its user.
        since = since.astimezone(UTC).replace(tzinfo=self._site.query_zone())
        while True:
            rows = sorted((row for row in self._ask() if row.changed >= since), key=lambda row: row.changed)
            if not rows[start:]:
                break
            yield _batch({**cursor}, rows[start : start + PAGE])
            start += PAGE
        yield port.Batch({"at": begun.isoformat()}, "")


class Days(_Simple):
    """A day and a sequence number."""

    async def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        day, taken = cursor.get("day", "1970-01-01"), int(cursor.get("taken", 0))
        today = self._wall().date().isoformat()
        while True:
            rows = sorted(self._ask(), key=lambda row: row.changed)
            rows = [row for row in rows if row.changed.astimezone(UTC).date().isoformat() >= day]
            some = rows[taken : taken + PAGE]
            if not some:
                break
            taken += len(some)
            yield _batch({"day": day, "taken": taken}, some)
        if today != day:
            count = sum(row.changed.astimezone(UTC).date().isoformat() >= today for row in rows)
            yield port.Batch({"day": today, "taken": count}, "")


class Believed:
    """An error in the list is its end."""

    def __init__(self, inner: port.Source) -> None:
        self._inner = inner
        if isinstance(inner, port.Fetching):
            self.fetch = inner.fetch

    def batches(self, cursor: port.Cursor) -> AsyncGenerator[port.Batch]:
        """See `port.Source`."""
        return self._inner.batches(cursor)

    async def ids(self) -> AsyncGenerator[port.Page]:
        """See `port.Source`."""
        try:
            async for page in self._inner.ids():
                if not page.last:
                    yield page
        except (port.Unreachable, port.Rejected, port.Misconfigured, mongo.Unavailable):
            pass
        yield port.Page((), last=True)


def _batch(cursor: port.Cursor, rows: Sequence[Row]) -> port.Batch:
    items = tuple(row.item for row in rows if row.item is not None)
    return port.Batch(cursor, "", items, commits=tuple(row.commits for row in rows if row.commits is not None))
