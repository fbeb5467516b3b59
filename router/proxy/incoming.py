"""One connection of a client: an asyncio protocol that takes requests from its `reading.Reader` one after the other.

A request that can be sent to a backend at once is, and its answer is handed over by callbacks; for whatever has to be
waited for there is one task per connection, made when it is first needed. A hang-up ends what is under way. Requests
that a client sends ahead wait here for their turn, and reading pauses until they have had it.

Written for the hot path: one write for a head and its body, no timer per request (one sweep looks at all connections).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol, cast

import structlog

from router.proxy.flight import Flight
from router.proxy.message import Bodies, Reply, Request, written
from router.proxy.reading import Reader, say
from router.proxy.refusal import Cause
from router.proxy.step import DONE, MORE, Step

HIGH_WATER = 64 * 1024
MOST_AHEAD = 32
"""Requests that a client may send before it has the answer to an earlier one. More are thrown away, and the connection
closes after the answers to these: the client sends the others again (RFC 9112 section 9.3.2)."""

_log = structlog.get_logger("router.incoming")


class Service(Bodies, Protocol):
    """Whom the connections of the process serve (`server.Server`); called from the event loop."""

    def admit(self, request: Request, length: int) -> Reply | None:
        """A head came, announcing `length` body bytes (-1 for unknown). A reply refuses it before its body is read."""

    def grown(self, request: Request, size: int, more: int) -> Reply | None:
        """A body grew by `more` to `size` bytes. A reply refuses it."""

    def launch(self, request: Request) -> Flight | None:
        """Send a request on its way as far as nothing has to be waited for; None when it must be handled otherwise."""

    def proceed(self, flight: Flight) -> Step:
        """A flight's backend sent something, or its connection ended. After WAIT call `handle`."""

    def abandon(self, flight: Flight) -> None:
        """The client of a flight without a task is gone."""

    async def handle(self, request: Request, flight: Flight | None) -> Reply | None:
        """Answer a request; None when the answer was written to `request.link`."""


class Registry(Protocol):
    """Knows all connections (`connections.Connections`)."""

    leaving: bool
    """The process goes: connections close after the answer they are at."""

    def opened(self, link: Incoming) -> None:
        """A connection came."""

    def closed(self, link: Incoming) -> None:
        """It is gone."""

    def idle(self) -> None:
        """A connection closes after its last answer."""


class Incoming(asyncio.Protocol):
    """States: idle -> reading -> serving -> idle, or refusing (the rest of a body is thrown away) -> closed."""

    __slots__ = (
        "_begun",
        "_drained",
        "_due",
        "_flight",
        "_loop",
        "_next",
        "_pending",
        "_reader",
        "_refusing",
        "_registry",
        "_serving",
        "_taking",
        "_task",
        "_transport",
        "above",
        "full",
        "peer",
        "service",
        "since",
    )

    def __init__(self, service: Service, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        self.service = service
        self._registry = registry
        self._loop = loop
        self._reader = Reader(self)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._due = False  # the request that is served needs the task
        self._serving: Request | None = None
        self._flight: Flight | None = None  # its way, as long as no task runs it
        self._pending: deque[Request] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._refusing = False
        self._begun = 0.0  # when the request that is being read began
        self._taking = False  # the client has an own answer to take before its next request is served
        self.peer = ""
        """The client's IP address."""
        self.above = False
        """It came when there were as many connections as are served."""
        self.full = False
        """More than HIGH_WATER bytes wait to be taken by the client."""
        self.since = loop.time()

    # For the code that answers

    @property
    def transport(self) -> asyncio.Transport:
        """Raises ConnectionResetError when the client is gone."""
        if self._transport is None or self._transport.is_closing():
            raise ConnectionResetError("the client is gone")
        return self._transport

    @property
    def serving(self) -> bool:
        """A request is being served."""
        return self._serving is not None

    def serves(self, request: Request) -> bool:
        """Is the request the one that is being served?"""
        return self._serving is request

    @property
    def unsent(self) -> int:
        """Bytes that the client has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    async def room(self) -> None:
        """Wait until the client has taken what it was sent. Raises ConnectionResetError."""
        if self._transport is None:
            raise ConnectionResetError("the client is gone")
        if self.full:
            if self._drained is None or self._drained.done():
                self._drained = self._loop.create_future()
            await self._drained

    def reply(self, request: Request, reply: Reply) -> None:
        """Write a whole answer."""
        if reply.close:
            request.keep_alive = False
        self.transport.write(written(reply, request))

    def close(self) -> None:
        """Close after what was written has been sent."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def overdue(self, now: float, *, reading: float, idle: float, rate: float) -> bool:
        """Does this client take too long over a request, or has it said nothing for long? Seconds, and bytes a second
        that a body must come with after the first `reading` seconds."""
        if self._serving is not None:
            return self._taking and now - self.since > idle
        if not (self._reader.reading or self._refusing):
            return now - self.since > idle
        return now - self.since > reading or now - self._begun > reading + self._reader.size / rate

    def pause(self, until: asyncio.Future[None]) -> None:
        """Read nothing more of this client for now."""
        if self._transport is not None:
            self._transport.pause_reading()
            until.add_done_callback(self._resume)

    def _resume(self, _: asyncio.Future[None]) -> None:
        self.since = self._begun = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def time_out(self) -> None:
        """It was overdue."""
        if self._reader.reading and not self._refusing and self._transport is not None:
            self.refuse(say(408, "the request did not arrive in time", Cause.CLIENT_SLOW))
        self.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without deriving from it.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        address = transport.get_extra_info("peername")
        # A socket for both families shows IPv4 clients in IPv6's form.
        self.peer = str(address[0]).removeprefix("::ffff:") if isinstance(address, tuple) else ""
        self._registry.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._flight is not None:
            flight, self._flight = self._flight, None
            flight.unlisten()
            self.service.abandon(flight)
        if self._task is not None:
            self._task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client is gone"))
            self._drained.exception()  # perhaps no task waits any more
        for request in (self._reader.request, self._serving, *self._pending):
            if request is not None:
                request.drop_body()
        self._pending.clear()
        self._serving = None
        # The parser and the task refer to this object: nothing here may wait for the collector of cycles.
        self._reader.close()
        self._task = self._next = None
        self._registry.closed(self)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        if not reader.reading:
            self.since = self._begun = self._loop.time()
        reader.feed(data)

    # From the reader

    def head(self, request: Request, length: int) -> bool:
        """A head came, announcing `length` body bytes (-1 for unknown); False when the request was refused."""
        refused = self.service.admit(request, length)
        if refused is not None:
            self.refuse(refused)
        return refused is None

    def expected(self, request: Request) -> None:
        """The client waits for a word before it sends the body."""
        self._loop.call_soon(self._go_on, request)

    def _go_on(self, request: Request) -> None:
        waits = request is self._reader.request and not self._refusing and self._serving is None
        if waits and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def grown(self, request: Request, size: int, more: int) -> None:
        """A body grew by `more` to `size` bytes."""
        self.since = self._loop.time()
        if (refused := self.service.grown(request, size, more)) is not None:
            self.refuse(refused)

    def arrived(self, request: Request) -> None:
        """A request is whole."""
        if self._serving is None:
            self._serve(request)
        elif len(self._pending) < MOST_AHEAD:
            # Reading goes on: a hang-up must be seen.
            self._pending.append(request)
        else:
            request.drop_body()
            self.refuse(say(429, "too many requests were sent ahead"))

    def unreadable(self, reply: Reply) -> None:
        """What came is not HTTP: there is no next request on this connection."""
        self.refuse(reply)
        if self._serving is None:
            self.close()

    def thrown_whole(self) -> None:
        """All of a request that was refused has come."""
        if self._serving is None:
            self.close()

    def refuse(self, reply: Reply) -> None:
        """Answer at once and close; what is still under way is read and thrown away, so that the answer arrives."""
        self._refusing = True
        self.since = self._loop.time()
        unread = self._reader.request
        if unread is not None:
            unread.drop_body()
        self._reader.discard()
        if self._serving is not None or self._transport is None or self._transport.is_closing():
            # Another answer is under way on this connection: nothing can be said between its bytes.
            last = self._pending[-1] if self._pending else self._serving
            if last is not None:
                last.keep_alive = False
            return
        request = unread or Request(self, b"GET", b"/", b"", {})
        request.keep_alive = False
        self.reply(request, reply)
        if self._transport.can_write_eof():
            self._transport.write_eof()

    # Serving

    def _serve(self, request: Request) -> None:
        self._serving = request
        try:
            flight = self._flight = self.service.launch(request)
        except Exception as error:  # noqa: BLE001  # the edge of the process: one request must not end the others
            self._failed(request, error)
            return
        if flight is None or not flight.listen(self._proceed):
            self._wait()

    def _proceed(self) -> None:
        """The backend said something, and no task waits for it."""
        request, flight = self._serving, self._flight
        assert request is not None
        assert flight is not None
        try:
            step = self.service.proceed(flight)
        except Exception as error:  # noqa: BLE001  # as above
            self._failed(request, error)
            return
        if step is DONE:
            self._flight = None
            self._served(request)
        elif step is MORE:
            flight.listen(self._proceed)
        else:
            self._wait()

    def _wait(self) -> None:
        """Something must be waited for: let the task go on with the request."""
        self._due = True
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        elif self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def _run(self) -> None:
        """One task for all requests of the connection that need one. A hang-up ends it."""
        while True:
            request = self._serving
            if request is None or not self._due:
                self._next = self._loop.create_future()
                await self._next
                continue
            self._due = False
            flight, self._flight = self._flight, None
            try:
                reply = await self.service.handle(request, flight)
                if reply is not None:
                    self.reply(request, reply)
                    if self.full and request.keep_alive:
                        # Or requests sent ahead would fill memory with answers that are not read.
                        self.since, self._taking = self._loop.time(), True
                        await self.room()
                        self._taking = False
            except ConnectionError:
                self.close()
            except Exception as error:  # noqa: BLE001  # as above
                self._failed(request, error)
            if self._serving is request:
                self._served(request)

    def _failed(self, request: Request, error: Exception) -> None:
        _log.error("request failed", path=request.path[:200], exc_info=error)
        self.abort()

    def _served(self, request: Request) -> None:
        if request.held:
            request.drop_body()
        self._serving = None
        self.since = self._loop.time()
        transport = self._transport
        if transport is None:
            return
        if not request.keep_alive or self._registry.leaving:
            self._registry.idle()
            transport.close()
        elif self._pending:
            self._serve(self._pending.popleft())
