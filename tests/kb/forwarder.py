"""A TCP forwarder that a test can cut and restore: how a service that goes away looks from outside."""

from __future__ import annotations

import asyncio
import contextlib


class Forwarder:
    """Listens on `port` of loopback while it is up, and passes bytes on to `host:target`."""

    def __init__(self, host: str, target: int, port: int) -> None:
        self.port = port
        self._host = host
        self._target = target
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    async def up(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def down(self) -> None:
        """Refuse new connections and break those that are there."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for link in list(self._links):
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._links.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(self._host, self._target)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(_pump(reader, far_writer))
                    group.create_task(_pump(far_reader, writer))
            finally:
                far_writer.close()
        except (asyncio.CancelledError, OSError, ExceptionGroup):
            # Cut on purpose, or one side hung up: either way this link is over.
            pass
        finally:
            self._links.discard(task)
            writer.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
