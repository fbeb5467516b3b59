"""One connection to a backend: an asyncio protocol around httptools' response parser.

A connection carries one exchange at a time: `send`, `arrived`, `take`, and as long as it is not `complete` either again
`arrived` and `take`, or `flow`, which hands every piece to a sink as it comes, without waking a task for it. Who does
not wait in a task leaves a `listener` instead. Bytes are handed on as they are, without looking at lines, frames or
characters. When more than `HIGH_WATER` bytes wait to be taken, or the sink is full, reading from the backend pauses, so
that a slow client slows the backend instead of filling memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import httptools

from crds import errors
from router.proxy import hygiene
from router.proxy.answer import Passing

HIGH_WATER = 64 * 1024
MAX_HEAD = 64 * 1024
"""Bytes of an answer's head."""
PARTING_SECONDS = 3.0
"""For so long a backend may take to stop an exchange that was given up, see `Connection.part`."""

Piece = bytes | bytearray | memoryview


class Broken(errors.Operational):
    """The backend spoiled the exchange; the text says how, in words for a client."""


class Ended(Broken):
    """The backend closed the connection in the middle."""


class Late(Broken):
    """The backend was silent for too long."""


class Lost(Broken):
    """Probes say that the backend is gone; the exchange will receive nothing any more."""


class Leaving(Broken):
    """Not the backend's fault: the router ends the exchange because its process goes."""


class Exceeded(Leaving):
    """Not its fault either: the answer went on for longer than a request may hold a GPU."""


class Preempted(Leaving):
    """The request gave way to a more urgent one."""


class Connection(asyncio.Protocol):
    """States: idle -> sent -> head known -> complete -> idle, or lost from anywhere."""

    __slots__ = (
        "_chunks",
        "_framed",
        "_head_only",
        "_head_size",
        "_lines",
        "_loop",
        "_named",
        "_on_lost",
        "_parser",
        "_parting",
        "_paused",
        "_sink",
        "_size",
        "_transport",
        "_waiter",
        "busy",
        "complete",
        "congested",
        "content_type",
        "declared",
        "error",
        "idle_since",
        "keep",
        "listener",
        "lost",
        "reason",
        "received",
        "status",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._parser: Any = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._on_lost: list[Callable[[], None]] = []
        self._parting: asyncio.TimerHandle | None = None
        self.listener: Callable[[], None] | None = None
        """Called once: when body bytes came that no sink takes, when a sink is congested, at the end, good or bad."""
        self.lost = False
        self.idle_since = 0.0
        self.busy = False
        self._reset()

    def _reset(self) -> None:
        self._chunks: list[bytes] = []
        self._size = 0
        self._paused = False
        self._framed = False
        self._sink: Callable[[bytes], bool] | None = None
        self.congested = False  # the sink took a piece and wants no other for now
        self._head_only = False
        self.error: Broken | None = None
        """How the exchange was spoiled, by the backend or by the router; what came before that may still be taken."""
        self.status = 0
        self.reason = b""
        self._lines: list[bytes] = []
        self._head_size = 0
        self.content_type = b""
        self.declared = False
        self._named: bytes | None = None  # what the Connection fields say
        self.received = False  # a byte of the answer came
        self.complete = False
        self.keep = False

    def send(self, head: bytes, *body: Piece, head_only: bool = False) -> None:
        """Start an exchange. `head_only` for HEAD, whose answer has no body whatever its headers say."""
        self._head_only = head_only
        self.busy = True
        if self._transport is None or self.lost:
            self.error = Broken("the connection to the backend was closed")
        elif sum(map(len, body)) > HIGH_WATER:
            self._transport.writelines((head, *body))  # without a copy of it
        else:
            self._transport.write(b"".join((head, *body)))

    async def arrived(self) -> None:
        """Wait for body bytes or the end of the answer. Raises Broken once everything that came has been taken."""
        if not (self._chunks or self.complete or self.error):
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.error is not None and not self._chunks:
            raise self.error

    async def gathered(self, most: int) -> bytes:
        """Wait for the whole answer or its first `most` bytes (at most HIGH_WATER), and look at what came. It can still
        be taken. To be called after `arrived`; an exchange that breaks meanwhile ends the wait."""
        while not (self.complete or self.error) and self._size < most:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return b"".join(self._chunks)

    def take(self) -> bytes:
        """The body bytes that came since the last call, possibly none."""
        chunks = self._chunks
        if not chunks:
            return b""
        data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        self._chunks = []
        self._size = 0
        if self._paused and self._transport is not None and not self.lost:
            self._paused = False
            self._transport.resume_reading()
        return data

    def passing(self) -> Passing:
        """What of the answer's head is for the client, without what its Connection field names."""
        lines = b"".join(self._lines)
        if self._named is not None and (kept := hygiene.without(lines, self._named)) is not lines:
            low = b"\r\n" + kept.lower()
            typed, declared = b"\r\ncontent-type:" in low, b"\r\ncontent-length:" in low
            return Passing(kept, self.content_type if typed else b"", declared)
        return Passing(lines, self.content_type, self.declared)

    def pour(self, sink: Callable[[bytes], bool]) -> None:
        """From now on hand every piece to `sink`, and first what has come; see `congested`."""
        self._sink = sink if self.error is None else None
        self.congested = False
        if self._chunks and not self.complete:
            self._offer(sink)

    async def flow(self, sink: Callable[[bytes], bool]) -> None:
        """Hand every piece to `sink` until the answer is complete or the sink is `congested` (it returned False).

        The pieces that come together with the end are left for `take`. Raises Broken as `arrived` does. After
        congestion call it again when there is room.
        """
        self.pour(sink)
        if self.congested:
            return
        if self._paused and self._transport is not None and not self.lost:
            self._paused = False
            self._transport.resume_reading()
        if not (self.complete or self.error):
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self.error is not None:
            raise self.error

    def _offer(self, sink: Callable[[bytes], bool]) -> None:
        if sink(self.take()):
            return
        self.congested = True
        if self._transport is not None and not self.lost:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def fail(self, error: Broken) -> None:
        """End the exchange with an error; its holder then gives the connection up. Does nothing to a complete one."""
        if self.complete:
            return
        if self.error is None:
            self.error = error
        self._sink = None
        self._wake()

    def rest(self, now: float) -> None:
        """The exchange is over; the connection may carry another one, which finds it as if it were new."""
        self.busy = False
        self.idle_since = now
        self.listener = None
        self._reset()

    def abort(self) -> None:
        """Close hard: the backend must notice that no client waits, and a half-read answer is never reused."""
        if self._transport is not None and not self.lost:
            self._transport.abort()

    def part(self) -> None:
        """The answer is not wanted any more: say so, and wait until the backend has stopped. Half-closed, a connection
        makes Go's server cancel the request, and its own end then proves that it did (`net/http`, the background
        read of a connection). What cannot be half-closed, or does not end in time, is closed hard."""
        transport = self._transport
        if transport is None or self.lost:
            return
        self._sink = self.listener = None
        self._size = 0
        # A body that is still being sent would have to be sent to its end first. TLS knows no half-closed connection.
        if transport.get_write_buffer_size() or not transport.can_write_eof():
            transport.abort()
            return
        self._parting = self._loop.call_later(PARTING_SECONDS, self.abort)
        transport.write_eof()
        if self._paused:
            transport.resume_reading()

    def when_lost(self, callback: Callable[[], None]) -> None:
        """Call back once the connection is gone (at once if it is)."""
        if self.lost:
            callback()
        else:
            self._on_lost.append(callback)

    def _wake(self) -> None:
        listener = self.listener
        if listener is not None:
            self.listener = None
            listener()
            return
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio.Transport without deriving from it.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        sink = self._sink
        if sink is None or self.complete:
            self._unpoured(data)
            return
        # As for nearly every token: the head is known, and there is neither an error nor a parting, which end a sink.
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._unreadable(error)
            return
        if self.complete:
            self._wake()
        elif self._chunks:
            self._offer(sink)

    def _unpoured(self, data: bytes) -> None:
        """Before and after what a sink takes."""
        if self._parting is not None:
            self._size += len(data)
            if self._size > HIGH_WATER:
                self.abort()  # it does not stop, or had finished: a whole answer comes
            return
        if self.error is not None:
            return
        if not self.busy:
            # No request is open: an answer to nothing, or a server that says why it closes. Never to be reused.
            self.abort()
            return
        self.received = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._unreadable(error)
            return
        if not self.status:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD + len(data):
                self.fail(Broken(f"the head of its answer is larger than {MAX_HEAD} bytes"))
                return
        if self._size > HIGH_WATER and not self._paused and not self.complete and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        if self._chunks or self.complete:
            self._wake()

    def _unreadable(self, error: Exception) -> None:
        self.fail(Broken(f"the backend sent something that is not HTTP: {error}"))
        self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self._transport = None
        if self._parting is not None:
            self._parting.cancel()
        self._parser = None  # it refers to this object: nothing here may wait for the collector of cycles
        if self.busy and not self.complete and self.error is None:
            if self.status and not self._framed and exc is None:
                self.complete = True  # an answer that ends with its connection (RFC 9112, 6.3 rule 8)
            else:
                self.error = Ended("the backend closed the connection before the end of its answer")
        self._wake()
        callbacks, self._on_lost = self._on_lost, []
        for callback in callbacks:
            callback()

    # httptools callbacks

    def on_message_begin(self) -> None:
        if self.complete:
            self.abort()  # a second answer to one request

    def on_status(self, text: bytes) -> None:
        self.reason += text

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # a trailer: it comes too late to be a header, and must not become one
        low = name.lower()
        if low not in hygiene.NOT_TO_CLIENT:
            self._lines.append(b"%s: %s\r\n" % (name, value))
            if low == b"content-type":
                self.content_type = value.split(b";", 1)[0].strip().lower()
            elif low == b"content-length":
                self.declared = self._framed = True
        elif low == b"connection":
            self._named = value if self._named is None else self._named + b"," + value
        elif low == b"transfer-encoding":
            self._framed = True
        elif low == hygiene.CONTENT_ENCODING and value.strip().lower() not in (b"", b"identity"):
            # A few hundred bytes may be gigabytes to who decodes them.
            named = value[:60].decode("latin-1")
            self.fail(Broken(f"its answer is encoded as {named!r}, which was not asked for"))
            raise ValueError(named)  # it ends the parser

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self._head_only and self.status >= 200:
            # The parser would wait for the body that the headers announce: done, and not reusable.
            self.complete = True
            self.abort()

    def on_body(self, data: bytes) -> None:
        if self.complete:
            return
        self._chunks.append(data)
        self._size += len(data)

    def on_message_complete(self) -> None:
        if self.status < 200:  # 1xx: the answer itself follows
            self.status = 0
            self.reason = b""
            self._lines = []
            self.content_type = b""
            self._named = None
            self.declared = self._framed = False
            return
        if not self.complete:
            self.complete = True
            self.keep = self._parser.should_keep_alive()
