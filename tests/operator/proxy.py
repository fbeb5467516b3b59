"""A TCP proxy that can be cut: how a server looks that dies and comes back, without touching the server."""

from __future__ import annotations

import asyncio
import contextlib

from tests import httpserver


class Proxy:
    """Listens on a port of its own and passes bytes on to `host:port` until it is cut."""

    def __init__(self, host: str, port: int) -> None:
        self._target, self._port = (host, port), 0
        self._served = contextlib.ExitStack()
        self.repair()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    @property
    def address(self) -> str:
        """host:port to connect to; stays the same when it is cut and repaired."""
        return f"127.0.0.1:{self._port}"

    def cut(self) -> None:
        """Refuse new connections and drop those that are there."""
        self._served.close()

    def repair(self) -> None:
        """Listen again, on the same port."""
        listening = httpserver.in_thread(httpserver.tcp(self._connect, port=self._port))
        self._port = self._served.enter_context(listening)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Until one of the two sides ends."""
        far_reader, far_writer = await asyncio.open_connection(*self._target)
        ways = [asyncio.create_task(_pass_on(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            far_writer.transport.abort()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while received := await source.read(65536):
        target.write(received)
        await target.drain()
