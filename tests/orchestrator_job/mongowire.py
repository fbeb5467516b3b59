"""A proxy on MongoDB's wire that knows each write by collection and can do something at exactly that point.

The Job is not touched: it dies, or loses its server, between two of its own messages. Source of the format: MongoDB
"Wire Protocol", OP_MSG (header of 16 bytes, flags of 4, a section of kind 0 with the command, sections of
kind 1 with documents).
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import bson

from tests import httpserver

_OP_MSG = 2013
_CHANGES = ("insert", "update", "findAndModify")

Watcher = Callable[[str, int], bool]


def _let_pass(collection: str, number: int) -> bool:
    return False


class Proxy:
    """`writes` counts the changes (not the deletions) of each collection.

    `before(collection, n)` is called with the number of a change in its collection (from 1) before it reaches the
    server, `after(collection, n)` when the server has done it and the Job does not know yet. Returning True cuts the
    connection there. The order among collections is not fixed: LangGraph writes results and checkpoints concurrently.
    `command` is the change that the watcher is called about.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self.url = ""
        self.writes: Counter[str] = Counter()
        self.before: Watcher = _let_pass
        self.after: Watcher = _let_pass
        self.command: Mapping[str, Any] = {}
        self.closed = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the Job; requests and answers take turns on it."""
        upstream_writer: asyncio.StreamWriter | None = None
        try:
            if self.closed:
                return
            upstream_reader, upstream_writer = await asyncio.open_connection(self._host, self._port)
            while True:
                request = await _message(reader)
                command = _change(request)
                changed = str(next(iter(command.values()))) if command else None
                if changed is not None:
                    self.writes[changed] += 1
                number = self.writes[changed] if changed is not None else 0
                self.command = command
                if self.closed or (changed is not None and self.before(changed, number)):
                    return
                upstream_writer.write(request)
                answer = await _message(upstream_reader)
                self.command = command
                if changed is not None and self.after(changed, number):
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return  # one side has gone; so does the other
        finally:
            for each in (writer, upstream_writer):
                if each is not None:
                    each.close()


@asynccontextmanager
async def proxying(uri: str) -> AsyncIterator[Proxy]:
    """A proxy in front of `uri` for the length of the block."""
    place = urlsplit(uri)
    proxy = Proxy(place.hostname or "127.0.0.1", place.port or 27017)
    async with httpserver.tcp(proxy.serve) as port:
        # directConnection: the client must not discover the server behind the proxy.
        proxy.url = f"mongodb://127.0.0.1:{port}/?directConnection=true"
        try:
            yield proxy
        finally:
            proxy.closed = True


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(16)
    (length,) = struct.unpack_from("<i", head)
    return head + await reader.readexactly(length - 16)


def _change(request: bytes) -> Mapping[str, Any]:
    """The command with the documents that follow it, if it changes any; else nothing."""
    (_, _, _, code) = struct.unpack_from("<iiii", request)
    if code != _OP_MSG or request[20] != 0:
        return {}
    (size,) = struct.unpack_from("<i", request, 21)
    command = bson.decode(request[21 : 21 + size])
    if next(iter(command)) not in _CHANGES:
        return {}
    place = 21 + size
    # The driver leaves no checksum at the end.
    while place < len(request) and request[place] == 1:
        (size,) = struct.unpack_from("<i", request, place + 1)
        name, _, documents = request[place + 5 : place + 1 + size].partition(b"\0")
        command[name.decode()] = bson.decode_all(documents)
        place += 1 + size
    return command
