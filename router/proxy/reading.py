"""Requests of one connection, read by httptools' parser (llhttp) within bounds.

A request is read whole before anybody hears of it: a client that sends slowly holds only its own connection. One pass
over the header fields: those that mean something to the router are set apart (`hygiene.SPECIAL`), the others are kept
as the lines that the backend gets. What llhttp refuses is refused (RFC 9112 section 11.2, request smuggling).
"""

from __future__ import annotations

from typing import Any, Protocol

import httptools

from router.proxy.hygiene import SPECIAL
from router.proxy.message import Link, Reply, Request
from router.proxy.refusal import REASON, Cause
from router.proxy.repeated import Repeated

MAX_HEAD = 32 * 1024
MAX_FIELDS = 256
_HEAD_TOO_LARGE = f"the request's head is larger than {MAX_HEAD} bytes"


class Listener(Link, Protocol):
    """The connection whose requests are read."""

    def head(self, request: Request, length: int) -> bool:
        """A head came, announcing `length` body bytes (-1 for unknown); False when the request was refused."""

    def expected(self, request: Request) -> None:
        """The client waits for a word before it sends the body."""

    def grown(self, request: Request, size: int, more: int) -> None:
        """A body grew by `more` to `size` bytes."""

    def arrived(self, request: Request) -> None:
        """A request is whole."""

    def unreadable(self, reply: Reply) -> None:
        """What came is not HTTP: there is no next request on this connection."""

    def thrown_whole(self) -> None:
        """All of a request that was refused has come."""


class Reader:
    """Reports to `link`, the connection."""

    __slots__ = (
        "_body",
        "_fields",
        "_head_done",
        "_head_size",
        "_length",
        "_lines",
        "_link",
        "_offered",
        "_parser",
        "_repeated",
        "_special",
        "_target",
        "reading",
        "request",
        "size",
        "thrown",
    )

    def __init__(self, link: Listener) -> None:
        self._link = link
        self._parser: Any = httptools.HttpRequestParser(self)
        self._repeated = Repeated()
        self._offered = 0  # bytes still to come of the body of a request that offers another protocol
        self.reading = False
        """A request has begun and is not whole."""
        self.thrown = False
        """What comes is thrown away: its request was refused."""
        self._fresh()

    def _fresh(self) -> None:
        self._target = b""
        self._lines: list[bytes] = []
        self._special: dict[bytes, bytes] = {}
        self._fields = 0
        self._length = 0  # bytes of its target and fields
        self._body: bytes | bytearray = b""
        self.size = 0
        """Bytes of its body."""
        self._head_size = 0
        self._head_done = False
        self.request: Request | None = None
        """Its head is known, its body is not whole."""

    def close(self) -> None:
        """The connection is gone, and nothing is fed any more. The parser refers to this object, and this object to the
        connection's: neither may wait for the collector of cycles."""
        self._parser = None
        del self._link, self._repeated
        self._body = b""
        self.request = None

    def discard(self) -> None:
        """The request was refused: read what is still under way, and throw it away."""
        self.thrown = True
        self._offered = 0
        self._body = b""

    def feed(self, data: bytes) -> None:
        """Bytes of the client."""
        fresh = not self.reading
        if fresh:
            if not self.thrown and (again := self._repeated.recall(data)) is not None:
                self._again(*again)
                return
            self.reading = True
        if not self._head_done:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD + len(data):
                self._link.refuse(say(431, _HEAD_TOO_LARGE, Cause.TOO_LARGE))
                return
        first = data
        while data:
            if self._offered:
                data = self._body_of_offer(data)
                continue
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                if not self.thrown:
                    self._link.unreadable(say(400, f"not an HTTP/1.1 request: {error}"))
                return
        if fresh:
            self._repeated.seen(first)

    def _again(self, request: Request, body: bytes) -> None:
        """A request with the head of the one before, and another body."""
        link, repeated = self._link, self._repeated
        self.request = request
        request.has_body = True
        if not link.head(request, len(body)):
            link.thrown_whole()
            return
        request.body = body
        request.held = len(body)
        link.service.kept(len(body))
        self.request = None
        link.arrived(request)
        repeated.prepare()

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
        self._length += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head_done:  # what comes later are trailers, which are not read here
            self._fields += 1
            self._length += len(name) + len(value)
            if self._fields > MAX_FIELDS or self._length > MAX_HEAD:
                return  # refused when the head is whole; nothing of it is kept
            low = name.lower()
            if low not in SPECIAL:
                self._lines.append(b"%s: %s\r\n" % (name, value))
            elif low in self._special:
                self._special[low] += b"," + value
            else:
                self._special[low] = value

    def on_headers_complete(self) -> None:
        self._head_done = True
        parser = self._parser
        lines = self._lines
        request = self.request = Request(self._link, parser.get_method(), self._target, b"".join(lines), self._special)
        request.modern = parser.get_http_version() == "1.1"
        request.keep_alive = parser.should_keep_alive()
        if self.thrown:
            return
        length, upgrade = self._announced(request), parser.should_upgrade()
        if self._length > MAX_HEAD:
            self._link.refuse(say(431, _HEAD_TOO_LARGE, Cause.TOO_LARGE))
        elif self._fields > MAX_FIELDS:
            self._link.refuse(say(431, f"the request has more than {MAX_FIELDS} header fields", Cause.TOO_LARGE))
        elif request.method == b"CONNECT":
            self._link.refuse(say(405, "this is no forward proxy"))
        elif self._special.get(b"transfer-encoding", b"chunked").strip().lower() != b"chunked":
            self._link.refuse(say(501, "of transfer codings only chunked is understood"))  # RFC 9112, 6.1
        elif length < 0 and upgrade:
            self._link.refuse(say(400, "an offer of another protocol with a body in chunks"))
        elif self._link.head(request, length):
            if upgrade:
                self._offered = length
            elif request.modern and request.keep_alive:
                self._repeated.learn(request)

    def _announced(self, request: Request) -> int:
        """The length of the body: 0 for none, -1 for chunks. Answers an Expect on the way."""
        special = request.special
        if b"expect" in special and special[b"expect"].strip().lower() == b"100-continue":
            self._link.expected(request)
        if (announced := special.get(b"content-length")) is not None:
            request.has_body = True
            return int(announced)
        request.has_body = b"transfer-encoding" in special
        return -1 if request.has_body else 0

    def on_body(self, data: bytes) -> None:
        request = self.request
        if self.thrown or request is None:
            return
        # It grows in place: pieces that are joined at the end would take its size twice.
        if self.size:
            if isinstance(self._body, bytes):
                self._body = bytearray(self._body)
            self._body += data
        else:
            self._body = data
        self.size += len(data)
        request.held = self.size
        self._link.grown(request, self.size, len(data))

    def on_message_complete(self) -> None:
        if not self._offered:
            self._arrived()

    def _arrived(self) -> None:
        if self.thrown:
            self._link.thrown_whole()
            return
        request = self.request
        assert request is not None
        self.request = None
        self.reading = False
        request.body, self._body = self._body, b""
        self._link.arrived(request)


def say(status: int, message: str, reason: str = "") -> Reply:
    """What is refused before its path is known."""
    headers = ((REASON, str(reason)),) if reason else ()
    text = message.replace("\\", "/").replace('"', "'").encode()
    return Reply(status, b'{"error":"%s"}' % text, headers=headers, close=True)
