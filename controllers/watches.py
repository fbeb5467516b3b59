"""Is every watch alive? Bytes on the wire are the only proof: bookmarks never reach a handler.

kopf swallows bookmarks and stays green over dead watches (kopf #1276), so its HTTP session is given a response class
that notes every chunk of a watch's body (events and bookmarks alike, about one a minute at the least) and every
successful start of a watch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, cast

import aiohttp

if TYPE_CHECKING:
    from aiohttp.connector import Connection


class Beats:
    """When each watch was last heard, in monotonic seconds, by the path of its URL."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def beat(self, path: str) -> None:
        """The watch of `path` was heard."""
        self._last[path] = self._clock()

    def ages(self) -> dict[str, float]:
        """Seconds since each watch was heard."""
        now = self._clock()
        return {path: now - last for path, last in self._last.items()}


class _Heard:
    """A response body that tells when something arrives; all else is the body's own."""

    def __init__(self, content: aiohttp.StreamReader, beat: Callable[[], None]) -> None:
        self._content, self._beat = content, beat

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        async for chunk in self._content.iter_chunked(size):
            self._beat()
            yield chunk


def response_class(beats: Beats) -> type[aiohttp.ClientResponse]:
    """A response class for `aiohttp.ClientSession` that reports the watches among its requests to `beats`."""

    class Response(aiohttp.ClientResponse):
        async def start(self, connection: Connection) -> aiohttp.ClientResponse:
            await super().start(connection)
            if self.status == 200 and "watch" in self.url.query:
                path = self.url.path

                def beat() -> None:
                    beats.beat(path)

                beat()
                self.content = cast("aiohttp.StreamReader", _Heard(self.content, beat))
            return self

    return Response
