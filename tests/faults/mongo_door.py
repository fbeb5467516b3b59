"""The door of MongoDB: OP_MSG frames (MongoDB wire protocol), one answer for each request.

Handshakes, pings and the driver's own monitoring pass untouched: they are not the operator's calls.
"""

from __future__ import annotations

import asyncio
import struct
import time
from dataclasses import dataclass
from typing import Any

import bson

from tests.faults.door import CutError, Door, Link
from tests.faults.faults import Fate, Fault
from tests.faults.sites import of_mongodb

_HEADER = struct.Struct("<iiii")
_OP_MSG = 2013
_MORE_TO_COME = 2
_MONITORING = frozenset(
    {"hello", "isMaster", "ismaster", "ping", "buildInfo", "endSessions", "saslStart", "saslContinue"}
)
_REFUSAL = {"ok": 0.0, "code": 11600, "codeName": "InterruptedAtShutdown", "errmsg": "injected fault"}


async def frame(reader: asyncio.StreamReader) -> bytes:
    """One whole message."""
    head = await reader.readexactly(_HEADER.size)
    return head + await reader.readexactly(_HEADER.unpack(head)[0] - _HEADER.size)


def command(message: bytes) -> dict[str, Any] | None:
    """The document of an OP_MSG with its document sequences merged in; None for other opcodes."""
    if _HEADER.unpack_from(message)[3] != _OP_MSG:
        return None
    at, found = _HEADER.size + 4, dict[str, Any]()
    sequences: dict[str, Any] = {}
    while at < len(message):
        kind, at = message[at], at + 1
        (size,) = struct.unpack_from("<i", message, at)
        if kind == 0:
            found = bson.decode(message[at : at + size])
        else:
            end = message.index(b"\0", at + 4)
            sequences[message[at + 4 : end].decode()] = bson.decode_all(message[end + 1 : at + size])
        at += size
    return {**found, **sequences}


def refusal(message: bytes) -> bytes:
    """An answer to that request which says that the server is going down."""
    body = struct.pack("<i", 0) + b"\0" + bson.encode(_REFUSAL)
    return _HEADER.pack(_HEADER.size + len(body), 0, _HEADER.unpack_from(message)[1], _OP_MSG) + body


def _more(message: bytes) -> bool:
    return _HEADER.unpack_from(message)[3] == _OP_MSG and bool(
        struct.unpack_from("<I", message, _HEADER.size)[0] & _MORE_TO_COME
    )


@dataclass
class MongoDoor(Door):
    """Speaks for a standalone server."""

    async def _exchange(self, link: Link) -> bool:
        message = await frame(link.reader)
        found = command(message)
        if found is None or next(iter(found)) in _MONITORING:
            await self._pass_on(link, message)
            return True
        call, since = of_mongodb(found), time.monotonic()
        self.journal.saw(call)
        done = 0
        try:
            await self._request(link, message, self.decide(call))
            done = 1
        finally:
            self.journal.wrote(call, since, done)
        return True

    async def _request(self, link: Link, message: bytes, fate: Fate | None) -> None:
        if self.strike(fate, Fault.KILL_BEFORE, Fault.RESET_BEFORE):
            raise CutError
        if self.strike(fate, Fault.REFUSED):
            link.writer.write(refusal(message))
            return
        if self.strike(fate, Fault.LATENCY):
            assert fate is not None
            await asyncio.sleep(fate.seconds)
        near, far = await self._behind(link)
        far.write(message)
        if _more(message):
            return
        answer = await frame(near)
        if self.strike(fate, Fault.KILL_COMMITTED, Fault.RESET_AFTER):
            raise CutError
        link.writer.write(answer)
        await link.writer.drain()
        if self.strike(fate, Fault.KILL_ANSWERED):
            raise CutError

    async def _pass_on(self, link: Link, message: bytes) -> None:
        near, far = await self._behind(link)
        far.write(message)
        if _more(message):
            return
        answer = await frame(near)
        link.writer.write(answer)
        while _more(answer):
            answer = await frame(near)
            link.writer.write(answer)
