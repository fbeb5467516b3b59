"""Closed-loop load on bare sockets: embeddings one after the other, and paced streams.

Each function returns {count, per_second, p50, p99 (ms), errors}; a token's time is how late it came against its
schedule.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bench.router import backend


def _post(path: str, body: bytes) -> bytes:
    return b"POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
        path.encode(),
        len(body),
        body,
    )


EMBED = _post("/api/embed", b'{"model":"embed","input":"the quick brown fox jumps over the lazy dog"}')
GENERATE = _post("/api/generate", b'{"model":"chat","prompt":"say something"}')
COMPLETE = _post("/v1/chat/completions", b'{"model":"code","stream":true,"messages":[{"role":"user","content":"say"}]}')


class _Sample:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.errors = 0


async def embeddings(port: int, *, connections: int, seconds: float) -> dict[str, float]:
    """As many embeddings as fit."""

    async def one(reader: asyncio.StreamReader, sample: _Sample) -> None:
        begun = asyncio.get_running_loop().time()
        await whole(reader)
        sample.times.append(asyncio.get_running_loop().time() - begun)

    return await _run(port, EMBED, one, connections, seconds)


async def streams(port: int, *, connections: int, seconds: float) -> dict[str, float]:
    """Streams of tokens, each to its end."""

    async def one(reader: asyncio.StreamReader, sample: _Sample) -> None:
        loop = asyncio.get_running_loop()
        begun, tokens = loop.time(), 0
        await _head(reader)
        while (line := await reader.readuntil(b"\r\n")) != b"0\r\n":
            piece = await reader.readexactly(int(line, 16) + 2)
            for _ in range(piece.count(b'"response"')):
                tokens += 1
                sample.times.append(loop.time() - begun - tokens * backend.GAP)
        await reader.readexactly(2)
        sample.errors += tokens != backend.TOKENS

    return await _run(port, GENERATE, one, connections, seconds)


async def _run(
    port: int,
    request: bytes,
    one: Callable[[asyncio.StreamReader, _Sample], Awaitable[None]],
    connections: int,
    seconds: float,
) -> dict[str, float]:
    loop, sample = asyncio.get_running_loop(), _Sample()
    begun = loop.time()

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            while loop.time() - begun < seconds:
                writer.write(request)
                await one(reader, sample)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            sample.errors += 1
        finally:
            writer.close()

    await asyncio.gather(*(client() for _ in range(connections)))
    elapsed = loop.time() - begun
    times = sorted(sample.times) or [0.0]
    return {
        "count": float(len(sample.times)),
        "per_second": len(sample.times) / elapsed,
        "p50": times[len(times) // 2] * 1000,
        "p99": times[int(len(times) * 0.99)] * 1000,
        "errors": float(sample.errors),
    }


async def _head(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise ValueError(head.split(b"\r\n", 1)[0].decode("latin-1"))
    return head.lower()


async def whole(reader: asyncio.StreamReader) -> None:
    head = await _head(reader)
    at = head.index(b"content-length:")
    await reader.readexactly(int(head[at + 15 : head.index(b"\r\n", at)]))
