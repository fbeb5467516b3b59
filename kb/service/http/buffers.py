"""What bodies of requests may hold in memory at once: JSON by bytes, large raw ones by the number of them.

A JSON body counts as it arrives and until its request is answered, so that writers who wait in a lane are counted with
what they hold. More than there is room for is refused at once, with 429: waiting would hold what has arrived. A large
raw body has a slot before its first byte is read; who waits for one holds nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from aiohttp import web
from aiohttp.typedefs import Middleware

from crds import priority
from kb import errors, metrics
from kb.service.http import access, problems

_COME_BACK = 5.0
_RAISE = "Send it again later, or in parts, or raise JERVIS_KB_MAX_BUFFERED_BYTES."


class Hold:
    """What one request holds."""

    def __init__(self, owner: Buffers, limit: int) -> None:
        self._owner = owner
        self._limit = limit
        self._bytes = 0
        self._client: str | None = None

    def grow(self, size: int) -> None:
        """`size` bytes more have arrived. Raises `kb.errors.Crowded` when there is no room for them."""
        if self._owner.total + size > self._limit:
            raise errors.Crowded(
                f"bodies of requests hold {self._owner.total} bytes, of {self._limit} that may",
                retry_after=_COME_BACK,
                field="body",
                remedy=_RAISE,
            )
        self._bytes += size
        self._owner.add(size, self._client)

    def belong(self, client: str) -> None:
        """It is a request of this client, which may hold half of all at most. Raises `kb.errors.Crowded`."""
        if self._client is None:
            others = self._owner.of(client)
            if others and others + self._bytes > self._limit // 2:
                raise errors.Crowded(
                    f"bodies of requests of client {client!r} hold {others} bytes, of {self._limit // 2} that may",
                    retry_after=_COME_BACK,
                    field="body",
                    remedy=_RAISE,
                )
            self._client = client
            self._owner.add(self._bytes, client, counted=True)

    def release(self) -> None:
        """The request is answered."""
        self._owner.add(-self._bytes, self._client)


class Buffers:
    """JSON bodies: at most `limit` bytes in all, the last quarter of it for requests of priority 0 to 2."""

    def __init__(self, limit: int, meters: metrics.Metrics) -> None:
        self._limit = limit
        self._meters = meters
        self._of: Counter[str] = Counter()
        self.total = 0

    @contextmanager
    def hold(self, urgency: priority.Priority | None) -> Iterator[Hold]:
        """For one request, from before its body is read until it is answered."""
        urgent = urgency is not None and urgency <= priority.URGENT
        held = Hold(self, self._limit if urgent else self._limit - self._limit // 4)
        try:
            yield held
        finally:
            held.release()

    def of(self, client: str) -> int:
        """The bytes that requests of a client hold."""
        return self._of.get(client, 0)

    def add(self, size: int, client: str | None, *, counted: bool = False) -> None:
        """More bytes, or less; `counted` are in the total already and become the client's."""
        if not counted:
            self.total += size
            self._meters.buffered.set(self.total)
        if client is not None:
            self._of[client] += size
            if not self._of[client]:
                del self._of[client]


HOLD = web.RequestKey("hold", Hold)


def middleware(buffers: Buffers) -> Middleware:
    """Lets `kb.service.http.body.read` count what arrives."""

    @web.middleware
    async def guard(request: web.Request, handler: problems.Handler) -> web.StreamResponse:
        named = priority.parse(request.headers.get(priority.HEADER))
        with buffers.hold(access.capped(request, named)) as request[HOLD]:
            return await handler(request)

    return guard


def arrived(request: web.Request, size: int) -> None:
    """So many bytes of the request's body have arrived. Raises `kb.errors.Crowded`."""
    held = request.get(HOLD)
    if held is not None:
        held.grow(size)


def belongs(request: web.Request, client: str) -> None:
    """The request was read and is of this client. Raises `kb.errors.Crowded`."""
    held = request.get(HOLD)
    if held is not None:
        held.belong(client)


class Slots:
    """Large bodies: `width` at once, half of them of one client, and `waiting` requests that wait for one.

    `purpose` ends the sentence "N requests wait".
    """

    def __init__(self, *, width: int = 4, waiting: int = 100, purpose: str = "to send or load something large") -> None:
        self._purpose = purpose
        self._slots = asyncio.Semaphore(width)
        self._share = max(width // 2, 1)
        self._waiting = waiting
        self._queued = 0
        self._shares: dict[str, asyncio.Semaphore] = {}
        self._interested: Counter[str] = Counter()

    @asynccontextmanager
    async def enter(self, client: str) -> AsyncIterator[None]:
        """Hold a slot. Raises `kb.errors.Crowded` when too many wait, or half of these for the same client."""
        if self._queued >= self._waiting or self._interested[client] >= self._share + self._waiting // 2:
            raise errors.Crowded(
                f"{self._queued} requests wait {self._purpose}, those of one client half of them at most",
                retry_after=_COME_BACK,
            )
        share = self._shares.setdefault(client, asyncio.Semaphore(self._share))
        self._interested[client] += 1
        self._queued += 1
        waits = True
        try:
            async with share, self._slots:
                waits = False
                self._queued -= 1
                yield
        finally:
            self._queued -= waits
            self._interested[client] -= 1
            if not self._interested[client]:
                del self._interested[client], self._shares[client]
