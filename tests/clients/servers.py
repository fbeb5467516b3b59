"""Servers that answer with bytes that the test has written, on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gzip
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable

from clients import http, tls_trust
from tests import httpserver

Write = Callable[[asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def answering(
    answer: bytes | Write, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[str]]]:
    """A port, and the heads of requests that came there. Each is answered alike; the connection is kept."""
    heads: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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

    async with httpserver.tcp(serve, tls=tls) as port:
        yield port, heads


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


TLS = tls_trust.context()
FIND: http.Find = here
