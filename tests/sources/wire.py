"""A relay before a mail server: it lists the commands of its clients, and hangs up when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

_IMAP = re.compile(rb"^[A-Z]{4}\d+ (?:UID )?([A-Z]+)")
_POP3 = re.compile(rb"^([A-Z]{3,4})\b")


class Relay:
    """`commands` in order; `url` as the clients see it."""

    def __init__(self, scheme: str) -> None:
        self.scheme, self.url = scheme, ""
        self.commands: list[str] = []
        self.idles = asyncio.Event()


@contextlib.asynccontextmanager
async def relay(scheme: str, port: int) -> AsyncIterator[Relay]:
    """`scheme` is imap or pop3; `port` is the server's on 127.0.0.1."""
    made = Relay(scheme)
    pattern = _IMAP if scheme == "imap" else _POP3
    tasks: set[asyncio.Task[None]] = set()
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream, out = await asyncio.open_connection("127.0.0.1", port)
        writers.extend((writer, out))

        async def down() -> None:
            with contextlib.suppress(ConnectionError):
                while chunk := await upstream.read(65536):
                    writer.write(chunk)
            writer.close()

        task = asyncio.create_task(down())
        tasks.add(task)
        with contextlib.suppress(ConnectionError):
            while line := await reader.readline():
                if found := pattern.match(line):
                    made.commands.append(found[1].decode())
                    if found[1] == b"IDLE":
                        made.idles.set()
                out.write(line)
        out.close()
        await task
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        made.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield made
        finally:
            for one in writers:
                one.close()
            await asyncio.gather(*tasks, *(one.wait_closed() for one in writers), return_exceptions=True)
