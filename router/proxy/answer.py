"""The relayed answer on the client's connection: a head and body pieces as bytes, framed once.

A backend's head passes as it came, without being decoded and encoded again.
"""

from __future__ import annotations

from typing import NamedTuple

from router.proxy.message import Request

STREAMS = (b"application/x-ndjson", b"text/event-stream")
_NO_PAGE = (*STREAMS, b"application/json", b"text/plain", b"application/octet-stream", b"")
"""Browsers show no page of them."""

_BODILESS = (204, 304)


class Passing(NamedTuple):
    """What of a backend's head passes to the client."""

    lines: bytes
    """Header fields, each with its CRLF."""
    content_type: bytes
    """Without parameters, in lower case; empty for none."""
    declared: bool
    """There is a Content-Length."""


class Answer:
    """Nothing is written before the first `pour` or `end`. ConnectionError when the client is gone."""

    __slots__ = ("_chunked", "_head", "_link", "_request", "content_type", "declared", "status")

    def __init__(
        self, request: Request, status: int, reason: bytes, passing: Passing, own: bytes, *, last: bool
    ) -> None:
        """`own` are the router's header lines, each with its CRLF; `last` ends the client's connection after this."""
        self._request = request
        self._link = request.link
        self.status = status
        lines, self.content_type, self.declared = passing
        if last:
            request.keep_alive = False
        self._chunked = False
        if self.content_type in STREAMS:
            own += b"Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
        if self.content_type not in _NO_PAGE:
            # What a backend shows must not act as the router's own page.
            own += b"Content-Security-Policy: sandbox\r\n"
        own += b"X-Content-Type-Options: nosniff\r\n" + request.page
        if not self.declared and request.method != b"HEAD" and status not in _BODILESS:
            if request.modern:
                self._chunked = True
                own += b"Transfer-Encoding: chunked\r\n"
            else:
                request.keep_alive = False  # to HTTP/1.0 the end of the connection is the end of the answer
        if not request.keep_alive:
            own += b"Connection: close\r\n"
        elif not request.modern:
            own += b"Connection: keep-alive\r\n"
        self._head = b"HTTP/1.%d %d %s\r\n%s%s\r\n" % (request.modern, status, reason, lines, own)

    def pour(self, data: bytes) -> bool:
        """Hand over a piece; False when the client's connection is full, see `room`."""
        if self._chunked and data:
            data = b"%x\r\n%s\r\n" % (len(data), data)
        if self._head:
            data, self._head = self._head + data, b""
        self._link.transport.write(data)
        return not self._link.full

    async def room(self) -> None:
        """Wait until the client's connection has room again."""
        await self._link.room()

    def end(self, data: bytes) -> bool:
        """Hand over the last piece, possibly empty, and the proper end; False when the connection is full."""
        if self._chunked:
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._link.transport.write(data)
        return not self._link.full

    def tear(self) -> None:
        """End without the proper end: what was handed over is flushed, then the connection closes."""
        self._request.keep_alive = False
        self._link.close()
