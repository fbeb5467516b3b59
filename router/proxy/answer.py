"""The relayed answer on the client's connection: a head and body pieces as bytes, framed once.

It stands in for aiohttp's response object, which would decode every header, sort them into a multidict and encode them
again; here a backend's head passes as it came. aiohttp's protocol asks a response for three things only: `prepare`,
`write_eof` and `keep_alive` (web_protocol.RequestHandler.finish_response and start).
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import cast

from aiohttp import HttpVersion11, web

from router.proxy import hygiene
from router.proxy.connection import HIGH_WATER, Header

STREAMS = (b"application/x-ndjson", b"text/event-stream")

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_BODILESS = (204, 304)


class Answer:
    """Nothing is written before the first `pour` or `end`. ConnectionError when the client is gone."""

    __slots__ = (
        "_chunked",
        "_drain",
        "_ended",
        "_head",
        "_request",
        "content_type",
        "declared",
        "keep_alive",
        "status",
    )

    def __init__(
        self,
        request: web.BaseRequest,
        status: int,
        headers: Iterable[Header],
        own: Iterable[Header],
        *,
        last: bool,
    ) -> None:
        """`own` are the router's headers; `last` ends the client's connection after this answer."""
        self._request = request
        self._drain = request.writer.drain
        self._ended = False
        self.status = status
        self.keep_alive = request.keep_alive and not last
        self.content_type = b""
        self.declared = False
        kept: list[Header] = []
        for pair in hygiene.to_client(headers):
            name = pair[0].lower()
            if name == b"content-type":
                self.content_type = pair[1].split(b";", 1)[0].strip().lower()
            elif name == b"content-length":
                self.declared = True
            kept.append(pair)
        kept.extend(own)
        modern = request.version >= HttpVersion11
        empty = request.method == "HEAD" or status in _BODILESS
        self._chunked = modern and not self.declared and not empty
        if self.content_type in STREAMS:
            kept.append((b"Cache-Control", b"no-cache"))
            kept.append((b"X-Accel-Buffering", b"no"))
        if self._chunked:
            kept.append((b"Transfer-Encoding", b"chunked"))
        elif not self.declared and not empty:
            self.keep_alive = False  # to HTTP/1.0 the end of the connection is the end of the answer
        if not self.keep_alive:
            kept.append((b"Connection", b"close"))
        elif not modern:
            kept.append((b"Connection", b"keep-alive"))
        lines = [b"HTTP/1.%d %d %s" % (int(modern), status, _REASONS.get(status, b""))]
        lines += [b"%s: %s" % pair for pair in kept]
        self._head = b"\r\n".join(lines) + b"\r\n\r\n"

    def pour(self, data: bytes) -> bool:
        """Hand over a piece; False when the client's connection is full, see `room`."""
        self._put(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked and data else data)
        transport = self._request.transport
        return transport is not None and transport.get_write_buffer_size() <= HIGH_WATER

    async def room(self) -> None:
        """Wait until the client's connection has room again."""
        if self._request.transport is None:
            raise ConnectionResetError("the client is gone")
        await self._drain()

    async def end(self, data: bytes = b"") -> None:
        """Hand over the last piece, possibly empty, and the proper end."""
        if self._chunked:
            data = b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data) if data else b"0\r\n\r\n"
        self._put(data)
        self._ended = True
        await self._drain()

    def tear(self) -> None:
        """End without the proper end: what was handed over is flushed, then the connection closes."""
        self._ended = True
        self.keep_alive = False
        transport = self._request.transport
        if transport is not None:
            transport.close()

    def response(self) -> web.StreamResponse:
        """Itself, as aiohttp's handler must be typed."""
        return cast(web.StreamResponse, self)

    async def prepare(self, request: web.BaseRequest) -> None:
        """For aiohttp, after the handler: nothing is left to do."""

    async def write_eof(self) -> None:
        """For aiohttp, after the handler: nothing is left to do after `end` or `tear`."""
        if not self._ended:
            raise ConnectionResetError("the answer was not ended")

    def _put(self, data: bytes) -> None:
        transport = self._request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError("the client is gone")
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            transport.write(data)
