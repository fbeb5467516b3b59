"""All connections of clients: how many there may be, how long they may be idle or slow, and their end with the process.

One sweep a second looks at all of them, so that a request costs no timer.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass

from router import metrics
from router.proxy.incoming import Incoming

_RESERVE = 64
"""Connections above the bound for liveness probes and metrics: they are served whatever others do."""
_EVICTED, _JUST_CAME = 64, 1.0
"""Connections that are closed at once to make room, and the seconds in which one is not idle."""


@dataclass(frozen=True, slots=True)
class ConnectionBounds:
    """Bytes and seconds. `most` connections at once; `unsent` for the answers that clients do not take; `reading` until
    a request has come whole (a body: without progress, and then at `rate` bytes a second), `idle` for a connection
    without a request."""

    most: int = 16_384
    unsent: int = 256 << 20
    reading: float = 30.0
    rate: float = 16_384.0
    idle: float = 300.0


class Connections:
    """One per process (`incoming.Registry`). `now` is monotonic seconds."""

    def __init__(self, bounds: ConnectionBounds, counters: metrics.Metrics, *, now: Callable[[], float]) -> None:
        self._bounds = bounds
        self._metrics = counters
        self._now = now
        self._links: set[Incoming] = set()
        self._quiet = asyncio.Event()
        self.leaving = False

    @property
    def active(self) -> int:
        """Connections with a request that is being served."""
        return sum(link.serving for link in self._links)

    async def quiet(self) -> None:
        """Wait until no request is served any more; to be called after `leave`."""
        self.idle()
        await self._quiet.wait()

    def leave(self) -> None:
        """Close connections that carry no request; the others close after the answer they are at."""
        self.leaving = True
        for link in [link for link in self._links if not link.serving]:
            link.close()

    def drop(self) -> None:
        """Close every connection."""
        for link in self._links:
            link.close()

    async def sweep(self, interval: float = 1.0) -> None:
        """Close connections that send too slowly or are idle for long; for ever."""
        while True:
            await asyncio.sleep(interval)
            now, bounds = self._now(), self._bounds
            late = [
                k for k in self._links if k.overdue(now, reading=bounds.reading, idle=bounds.idle, rate=bounds.rate)
            ]
            for link in late:
                link.time_out()
            self._relieve()

    # incoming.Registry

    def opened(self, link: Incoming) -> None:
        self._links.add(link)
        most = self._bounds.most
        if len(self._links) <= most or self._evict():
            return
        self._metrics.connections_refused.inc()
        link.above = True
        if len(self._links) > most + _RESERVE:
            link.abort()

    def closed(self, link: Incoming) -> None:
        self._links.discard(link)
        if self.leaving:
            self.idle()

    def idle(self) -> None:
        if self.leaving and not self.active:
            self._quiet.set()

    # Inside

    def _evict(self) -> bool:
        """Make room: close connections that wait for nothing, the longest idle ones first."""
        idle = heapq.nsmallest(_EVICTED, (k for k in self._links if not k.serving), key=lambda link: link.since)
        idle = [link for link in idle if self._now() - link.since > _JUST_CAME]
        for link in idle:
            self._links.discard(link)
            link.abort()
        return bool(idle)

    def _relieve(self) -> None:
        """Cut off the clients that leave the most of their answers lying, while all together leave too much."""
        full = sorted((link for link in self._links if link.full), key=lambda link: link.unsent)
        unsent = sum(link.unsent for link in full)
        while full and unsent > self._bounds.unsent:
            link = full.pop()
            unsent -= link.unsent
            self._metrics.stalled.inc()
            link.abort()
