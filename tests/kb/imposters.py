"""Servers that answer on a port of Weaviate or MongoDB and are something else, or refuse: at the wire.

They count the requests, so that a test can wait until a service that repeats its attempts has made some. They have
threads of their own, because a driver's threads may connect at any moment, also when the test is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

import bson

from tests import httpserver

_MESSAGE, _REPLY, _QUERY = 2013, 1, 2004


Answer = Callable[["Server", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Listens on `port` of loopback; `answer` gets a connection's file. `asked` counts the requests."""

    def __init__(self, answer: Answer) -> None:
        self.asked = 0
        self.port = 0
        self._answer = answer

    @contextlib.contextmanager
    def listening(self) -> Iterator[Server]:
        """Answer while the block runs."""

        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._answer(self, reader, writer)

        with httpserver.in_thread(httpserver.tcp(converse, port=self.port)) as self.port:
            yield self


def http(status: str, body: bytes, media_type: str = "application/json") -> Server:
    """An HTTP server with one answer for everything. `status` is like "404 Not Found"."""

    async def answer(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            if line == b"\r\n":
                server.asked += 1
                head = f"HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)

    return Server(answer)


def saying(what: bytes) -> Server:
    """A server of another protocol: these bytes after the first one that it gets, and the connection ends."""

    async def answer(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        server.asked += 1
        writer.write(what)

    return Server(answer)


def mongodb(refusal: Mapping[str, Any], *, newest: int = 21) -> Server:
    """A MongoDB that greets and answers every command with `refusal` (`code`, `codeName`, `errmsg`).

    `newest` is the newest version of the wire protocol that it says it speaks.
    """
    greeting = {"ok": 1.0, "isWritablePrimary": True, "ismaster": True, "helloOk": True, "minWireVersion": 0}
    greeting |= {"maxWireVersion": newest, "maxBsonObjectSize": 1 << 24, "maxMessageSizeBytes": 48_000_000}

    async def answer(server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size, number, _, kind = struct.unpack("<iiii", await reader.readexactly(16))
            body = await reader.readexactly(size - 16)
            # OP_QUERY has flags, a name and two numbers before the command; OP_MSG has flags and a kind of section.
            at = body.index(b"\0", 4) + 9 if kind == _QUERY else 5
            command = bson.decode(body[at : at + struct.unpack_from("<i", body, at)[0]])
            name = next(iter(command)).lower()
            if name in ("hello", "ismaster"):
                said: Mapping[str, Any] = greeting
            elif name == "endsessions":
                said = {"ok": 1.0}
            else:
                server.asked += 1
                said = {"ok": 0.0, **refusal}
            if kind == _QUERY:
                body, reply = struct.pack("<iqii", 8, 0, 0, 1) + bson.encode(said), _REPLY
            else:
                body, reply = struct.pack("<iB", 0, 0) + bson.encode(said), _MESSAGE
            writer.write(struct.pack("<iiii", 16 + len(body), number, number, reply) + body)

    return Server(answer)
