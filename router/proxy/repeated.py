"""A head that is sent again and again: a client's library sends the same fields with every request of a connection, and
only the length differs.

What llhttp has read once it would read the same way again. So when a whole request came in one piece and its head is,
byte for byte but for the digits of Content-Length, that of the one before, it is not parsed a second time. Anything
else (a part of a request, more than one, another field, a sign before the digits) goes to the parser.
"""

from __future__ import annotations

import re

from router.proxy.message import Request

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)\r\n", re.IGNORECASE)
# Fields that change how the message itself is read.
_FRAMING = frozenset({b"transfer-encoding", b"upgrade", b"http2-settings", b"expect", b"te", b"trailer"})
_DIGITS = 9
# A client whose heads always differ (an id in each) shall not pay for the hope that they will not.
_TRIES = 4


class Repeated:
    """One connection's. `learn` a request whose head llhttp has just accepted, `seen` the bytes that it was in."""

    __slots__ = ("_after", "_before", "_head", "_learned", "_next", "_tries")

    def __init__(self) -> None:
        self._before = b""
        self._after = b""
        self._head: Request | None = None
        self._learned: Request | None = None
        self._next: Request | None = None
        self._tries = _TRIES

    def learn(self, request: Request) -> None:
        """The next one may be like it."""
        self._learned = request.twin()  # who serves a request may change its fields

    def seen(self, data: bytes) -> None:
        """`data` was read by the parser, from the beginning of a request."""
        request, self._learned = self._learned, None
        self._head = self._next = None
        if request is None or self._tries <= 0:
            return
        self._tries -= 1
        if request.special.keys() & _FRAMING or not data.startswith(b"%s %s " % (request.method, request.target)):
            return
        end = data.find(b"\r\n\r\n") + 4
        found = _LENGTH.search(data, 0, end - 2)
        if end < 4 or found is None or len(found.group(1)) > _DIGITS or len(data) > end + int(found.group(1)):
            return  # with more than one request in it it is not known which head was learned
        self._before, self._after = data[: found.start(1)], data[found.end(1) : end]
        self._head = request

    def recall(self, data: bytes) -> tuple[Request, bytes] | None:
        """(the request without its body, its body) for a whole request like the last one."""
        head = self._head
        if head is None or not data.startswith(self._before):
            return None
        start, after = len(self._before), self._after
        stop = data.find(after, start, start + _DIGITS + len(after))
        if stop < 0 or not (digits := data[start:stop]).isdigit():
            return None
        body = data[stop + len(after) :]
        if len(body) != int(digits):
            return None
        self._tries = _TRIES
        request, self._next = self._next, None
        return request or head.twin(), body

    def prepare(self) -> None:
        """A request was recalled, and has been sent on: make the next one while its answer is awaited."""
        if self._head is not None:
            self._next = self._head.twin()
