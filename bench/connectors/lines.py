"""A server on loopback whose clients send lines; its answers fail as a history wants it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import datetime


class Server:
    """Mails by their number, each with its bytes and its time of arrival. `meanwhile` is called before each command and
    `fault` says how that ends: "" well, limit: it refuses, broken: half of its answer comes, away: nothing comes, and
    both hang up."""

    scheme: str

    def __init__(self) -> None:
        self.mails: dict[int, tuple[bytes, datetime]] = {}
        self.meanwhile: Callable[[], None] | None = None
        self.fault: Callable[[], str] = str
        self.url = ""

    async def session(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, until the client leaves or the server hangs up."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """On loopback."""
        writers: set[asyncio.StreamWriter] = set()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            with contextlib.suppress(ConnectionError):
                await self.session(reader, writer)
            writers.discard(writer)
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            self.url = f"{self.scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            try:
                yield
            finally:
                for one in writers:
                    one.close()
