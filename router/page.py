"""The page at `/router/` and the events that keep it live: the status document whenever it changed.

The page is one static file without a build step. It reads `/router/events` (server-sent events, HTML Living Standard
9.2) with fetch, because EventSource cannot send a token.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib import resources

from contracts import openapi
from router import report
from router.proxy.message import Own, Reply, Request
from router.proxy.refusal import Refusal

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\nX-Accel-Buffering: no\r\n"
    b"Connection: close\r\n\r\n"
)
_SECURITY = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)  # fmt: skip


class Page:
    """`every` is the pause between two looks in seconds, every `beat` of them without news is a comment. At most `most`
    watchers at once. The streams end when the process goes."""

    def __init__(self, state: report.Report, *, every: float = 1.0, beat: int = 15, most: int = 64) -> None:
        self._state = state
        self._every = every
        self._beat = beat
        self._most = most
        self._watching = 0
        self._html = resources.files("router").joinpath("page.html").read_bytes()

    def routes(self) -> Mapping[str, Own]:
        """By path."""
        return {"/router": self.redirect, "/router/": self.show, "/router/events": self.events}

    async def redirect(self, request: Request) -> Reply:
        """The page's own address ends with a slash."""
        return Reply(308, headers=(("Location", "/router/"),))

    async def show(self, request: Request) -> Reply:
        """The page."""
        return Reply(body=self._html, content_type="text/html; charset=utf-8", headers=_SECURITY)

    async def events(self, request: Request) -> Reply | None:
        """The status document, now and whenever it has changed; a comment in between, so that no client times out."""
        if self._watching >= self._most:
            raise Refusal(503, f"{self._most} watchers are enough; close one of the pages", retry_after=30)
        link = request.link
        request.keep_alive = False
        self._watching += 1
        try:
            link.transport.write(_HEAD)
            if request.method == b"HEAD":
                return None
            last, silent = b"", 0
            while not self._state.draining:
                # A watcher that takes nothing is sent nothing.
                await link.room()
                text = self._state.text(age=self._every / 2)
                if text != last:
                    last, silent = text, 0
                    link.transport.write(b"event: status\ndata: %s\n\n" % text)
                else:
                    silent += 1
                    if silent % self._beat == 0:
                        link.transport.write(b": still here\n\n")
                await asyncio.sleep(self._every)
        finally:
            self._watching -= 1
        return None


def operations() -> list[openapi.Operation]:
    """For the OpenAPI document."""
    return [
        openapi.Operation(
            "GET", "/router", "The page's address ends with a slash", {308: openapi.Answer("To /router/")}
        ),
        openapi.Operation(
            "GET",
            "/router/",
            "A page that shows backends, memory, sets, reservations and the queue",
            {200: openapi.Answer("HTML", {"text/html": openapi.TEXT})},
        ),
        openapi.Operation(
            "GET",
            "/router/events",
            "The status document whenever it changed",
            {200: openapi.Answer("Server-sent events named status", {"text/event-stream": openapi.TEXT})},
        ),
    ]
