"""One connection of a client: an asyncio protocol around httptools' request parser.

A request is read whole, its body within bounds, before anybody hears of it: a client that sends slowly holds only
its own connection. Then one task serves it. A hang-up cancels that task wherever it waits. Requests that a client
sends ahead wait here for their turn, and reading pauses until they have had it.

Written for the hot path: one pass over the header fields, one write for a head and its body, no timer per request (one
sweep looks at all connections).
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol, cast

import httptools
import structlog

from router.proxy.hygiene import SPECIAL
from router.proxy.message import Field, Reply, Request, written

HIGH_WATER = 64 * 1024
MAX_HEAD = 64 * 1024
MAX_FIELDS = 256

_log = structlog.get_logger("router.incoming")


class Host(Protocol):
    """Whom a connection serves; `server.Server` is the one."""

    leaving: bool
    """The process goes: connections close after the answer they are at."""

    def opened(self, link: Incoming) -> None:
        """A connection came."""

    def closed(self, link: Incoming) -> None:
        """It is gone."""

    def busy(self, link: Incoming) -> None:
        """It has a request to be served."""

    def idle(self, link: Incoming) -> None:
        """Its last request was served."""

    def admit(self, request: Request, length: int) -> Reply | None:
        """A head came, announcing `length` body bytes (-1 for unknown). A reply refuses it before its body is read."""

    def grown(self, request: Request, size: int, more: int) -> Reply | None:
        """A body grew by `more` to `size` bytes. A reply refuses it."""

    def shrunk(self, size: int) -> None:
        """Body bytes were let go of."""

    async def handle(self, request: Request) -> Reply | None:
        """Answer a request; None when the answer was written to `request.link`."""


class Incoming(asyncio.Protocol):
    """States: idle -> reading -> serving -> idle, or refusing (the rest of a body is thrown away) -> closed."""

    __slots__ = (
        "_drained",
        "_fields",
        "_head_done",
        "_head_size",
        "_host",
        "_loop",
        "_next",
        "_offered",
        "_parser",
        "_parts",
        "_pending",
        "_reading",
        "_refusing",
        "_request",
        "_serving",
        "_size",
        "_special",
        "_target",
        "_task",
        "_transport",
        "full",
        "peer",
        "since",
    )

    def __init__(self, host: Host, loop: asyncio.AbstractEventLoop) -> None:
        self._host = host
        self._loop = loop
        self._parser: Any = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._next: asyncio.Future[None] | None = None
        self._serving: Request | None = None
        self._pending: deque[Request] = deque()
        self._drained: asyncio.Future[None] | None = None
        self._refusing = False
        self._reading = False
        self._offered = 0  # bytes still to come of the body of a request that offers another protocol
        self.peer = ""
        """The client's IP address."""
        self.full = False
        """More than HIGH_WATER bytes wait to be taken by the client."""
        self.since = loop.time()
        self._fresh()

    def _fresh(self) -> None:
        self._target = b""
        self._fields: list[Field] = []
        self._special: dict[bytes, bytes] = {}
        self._parts: list[bytes] = []
        self._size = 0
        self._head_size = 0
        self._head_done = False
        self._request: Request | None = None

    # For whoever answers

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

    def overdue(self, now: float, *, reading: float, idle: float) -> bool:
        """Does this client take too long over a request, or has it said nothing for long? Seconds."""
        if self._serving is not None:
            return False
        return now - self.since > (reading if self._reading or self._refusing else idle)

    def time_out(self) -> None:
        """It was overdue."""
        if self._reading and not self._refusing and self._transport is not None:
            self._refuse(_say(408, "the request did not arrive in time"))
        self.close()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without deriving from it.
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        address = transport.get_extra_info("peername")
        self.peer = str(address[0]) if isinstance(address, tuple) else ""
        self._host.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._task is not None:
            self._task.cancel()
        if self._drained is not None and not self._drained.done():
            self._drained.set_exception(ConnectionResetError("the client is gone"))
            self._drained.exception()  # perhaps nobody waits any more
        for request in (self._request, self._serving, *self._pending):
            if request is not None:
                request.drop_body()
        self._pending.clear()
        self._request = self._serving = None
        # The parser and the task refer to this object: nothing here may wait for the collector of cycles.
        self._parser = self._task = self._next = None
        self._host.closed(self)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        if not self._reading:
            self._reading = True
            self.since = self._loop.time()
        if not self._head_done:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD + len(data):
                self._refuse(_say(431, f"the request's head is larger than {MAX_HEAD} bytes"))
                return
        while data:
            if self._offered:
                data = self._body_of_offer(data)
                continue
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                if not self._refusing:
                    self._refuse(_say(400, f"not an HTTP/1.1 request: {error}"))
                    if self._serving is None:
                        self.close()
                return

    def _body_of_offer(self, data: bytes) -> bytes:
        """An offer to change the protocol may be ignored (RFC 9110, 7.8), but the parser takes what follows it for the
        other protocol, though it is the body of a request first; never must that be read as a request of its own."""
        piece, rest = data[: self._offered], data[self._offered :]
        self._offered -= len(piece)
        self.on_body(piece)
        if not self._offered:
            self._arrived()
        return rest

    # httptools callbacks

    def on_message_begin(self) -> None:
        self._fresh()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # what comes later are trailers, which nobody here reads
            low = name.lower()
            if low not in SPECIAL:
                self._fields.append((low, name, value))
            elif low in self._special:
                self._special[low] += b"," + value
            else:
                self._special[low] = value

    def on_headers_complete(self) -> None:
        self._head_done = True
        parser = self._parser
        request = self._request = Request(self, parser.get_method(), self._target, self._fields, self._special)
        request.modern = parser.get_http_version() == "1.1"
        request.keep_alive = parser.should_keep_alive()
        if self._refusing:
            return
        length, upgrade = self._announced(request), parser.should_upgrade()
        if len(self._fields) > MAX_FIELDS:
            self._refuse(_say(431, f"the request has more than {MAX_FIELDS} header fields"))
        elif request.method == b"CONNECT":
            self._refuse(_say(405, "this is no forward proxy"))
        elif length < 0 and upgrade:
            self._refuse(_say(400, "an offer of another protocol with a body in chunks"))
        elif (refused := self._host.admit(request, length)) is not None:
            self._refuse(refused)
        elif upgrade:
            self._offered = length

    def _announced(self, request: Request) -> int:
        """The length of the body: 0 for none, -1 for chunks. Answers an Expect on the way."""
        special = request.special
        if b"expect" in special and special[b"expect"].strip().lower() == b"100-continue":
            self._loop.call_soon(self._go_on, request)
        if (announced := special.get(b"content-length")) is not None:
            request.has_body = True
            return int(announced)
        request.has_body = b"transfer-encoding" in special
        return -1 if request.has_body else 0

    def _go_on(self, request: Request) -> None:
        """The client waits for a word before it sends the body."""
        if request is self._request and not self._refusing and self._serving is None and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        request = self._request
        if self._refusing or request is None:
            return
        self.since = self._loop.time()
        self._parts.append(data)
        self._size += len(data)
        request.held = self._size
        if (refused := self._host.grown(request, self._size, len(data))) is not None:
            self._refuse(refused)

    def let_go(self, size: int) -> None:
        """Body bytes are not needed any more."""
        self._host.shrunk(size)

    def on_message_complete(self) -> None:
        if not self._offered:
            self._arrived()

    def _arrived(self) -> None:
        if self._refusing:
            self.close()
            return
        request = self._request
        assert request is not None
        self._request = None
        self._reading = False
        parts = self._parts
        if parts:
            request.body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts = []
        if self._serving is None:
            self._serve(request)
        else:
            self._pending.append(request)
            if self._transport is not None:
                self._transport.pause_reading()

    # Serving

    def _serve(self, request: Request) -> None:
        self._serving = request
        self._host.busy(self)
        if self._task is None:
            self._task = self._loop.create_task(self._run())
        elif self._next is not None and not self._next.done():
            self._next.set_result(None)

    async def _run(self) -> None:
        """One task for all requests of the connection, because a task costs more than a future. A hang-up ends it."""
        while True:
            request = self._serving
            if request is None:
                self._next = self._loop.create_future()
                await self._next
                continue
            try:
                reply = await self._host.handle(request)
                if reply is not None:
                    self.reply(request, reply)
            except ConnectionError:
                self.close()
            except Exception:  # noqa: BLE001  # the edge of the process: one request must not end the others
                _log.exception("request failed", path=request.path[:200])
                self.abort()
            if self._serving is request:
                self._served(request)

    def _served(self, request: Request) -> None:
        request.drop_body()
        self._serving = None
        self.since = self._loop.time()
        transport = self._transport
        if transport is None:
            return
        if not request.keep_alive or self._host.leaving:
            self._host.idle(self)
            transport.close()
        elif self._pending:
            following = self._pending.popleft()
            if not self._pending:
                transport.resume_reading()
            self._serve(following)
        else:
            self._host.idle(self)

    def _refuse(self, reply: Reply) -> None:
        """Answer at once and close; what is still under way is read and thrown away, so that the answer arrives."""
        self._refusing = True
        self._offered = 0
        self.since = self._loop.time()
        if self._request is not None:
            self._request.drop_body()
        self._parts = []
        if self._serving is not None or self._transport is None or self._transport.is_closing():
            # Another answer is under way on this connection: nothing can be said between its bytes.
            last = self._pending[-1] if self._pending else self._serving
            if last is not None:
                last.keep_alive = False
            return
        request = self._request or Request(self, b"GET", b"/", [], {})
        request.keep_alive = False
        self.reply(request, reply)
        if self._transport.can_write_eof():
            self._transport.write_eof()


def _say(status: int, message: str) -> Reply:
    return Reply(status, b'{"error":"%s"}' % message.replace("\\", "/").replace('"', "'").encode(), close=True)
