"""Servers that answer with bytes that the test has written, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

from clients import http
from crds import authorities

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def answering(
    answer: bytes | Write, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[str]]]:
    """A port, and the heads of requests that came there. Each is answered alike; the connection is kept."""
    heads: list[str] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                heads.append(head)
                length = [line.partition(":")[2] for line in head.splitlines() if line.lower().startswith("content-le")]
                await reader.readexactly(int(length[0]) if length else 0)
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client has what it wanted
        finally:
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(serve(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1], heads
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def response(body: bytes, *fields: str, status: int = 200) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}", "Content-Type: application/json", *fields]
    return "\r\n".join([*lines, "", ""]).encode() + body


@functools.cache
def bomb(layers: int, size: int = 300 << 20) -> bytes:
    """An answer of a few bytes that is `size` bytes long once it is inflated."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    body = b"".join([*(packer.compress(b" " * (1 << 20)) for _ in range(size >> 20)), packer.flush()])
    for _ in range(layers - 1):
        body = gzip.compress(body, 9)
    return response(body, f"Content-Encoding: {', '.join(['gzip'] * layers)}")


async def here(host: str, port: int) -> list[str]:
    """Every name leads to this machine."""
    return ["127.0.0.1"]


TLS = authorities.context()
FIND: http.Find = here
