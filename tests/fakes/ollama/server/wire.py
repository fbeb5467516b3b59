"""The one place where bytes of an answer leave, and therefore where a fault may cut, stall or garble them."""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass, field

from aiohttp import web

from tests.fakes.ollama import faults
from tests.fakes.ollama.protocol import errors, reply
from tests.fakes.ollama.server import gates, journal


class Cut(Exception):  # noqa: N818 -- not an error: a fault did what it was asked to
    """The answer ended here on purpose: the connection is gone, or the body was ended half-way."""


@dataclass
class Wire:
    """The way back to one client. Statuses and counts go into the journal's entry."""

    request: web.Request
    entry: journal.Entry
    gates: gates.Gates
    fault: faults.Fault | None = None
    response: web.StreamResponse | None = None
    _written: int = field(default=0)
    _stalled: bool = field(default=False)

    async def begin(self) -> None:
        """Faults that strike before any byte: a status, a reset, a stall."""
        if self.fault is None:
            return
        if self.fault.status is not None:
            status = self.fault.status
            raise errors.Refusal(status.code, status.message, status.retry_after)
        await self._strike(0)

    async def whole(
        self,
        document: object,
        status: int = 200,
        headers: dict[str, str] | None = None,
        media: str = "",
    ) -> web.StreamResponse:
        """Send one JSON document with its length. `media`: its content type, "" for the usual one of the path."""
        body = reply.encode(document)
        if self._garbled():
            body = body[: max(1, len(body) // 2)]
        usual = errors.PLAIN if self.entry.path.startswith("/v1/") else errors.NAMED
        self._prepare(status, media or usual, headers)
        assert self.response is not None
        self.response.content_length = len(body)
        await self.response.prepare(self.request)
        if self.request.method != "HEAD":
            await self._send(body)
        await self.response.write_eof()
        return self.response

    async def start(self, content_type: str) -> None:
        """Send the head of a stream."""
        self._prepare(200, content_type, None)
        assert self.response is not None
        await self.response.prepare(self.request)

    async def write(self, data: bytes) -> None:
        """Send a piece of a stream."""
        if self._garbled() and self._written:
            await self._send(data[: max(1, len(data) // 2)])
            await self.end()
            raise Cut("malformed")
        await self._send(data)

    async def end(self) -> web.StreamResponse:
        """End a stream."""
        assert self.response is not None
        await self.response.write_eof()
        return self.response

    def _prepare(self, status: int, content_type: str, headers: dict[str, str] | None) -> None:
        self.entry.status = status
        self.response = web.StreamResponse(status=status, headers={"Server": reply.SERVER, **(headers or {})})
        self.response.headers["Content-Type"] = content_type

    async def _send(self, data: bytes) -> None:
        assert self.response is not None
        offset = self._offset()
        if offset is not None and self._written < offset <= self._written + len(data):
            split = offset - self._written
            await self._put(data[:split])
            await self._strike(offset)
            data = data[split:]
        await self._put(data)

    async def _put(self, data: bytes) -> None:
        if data:
            assert self.response is not None
            await self.response.write(data)
            self._written += len(data)
            self.entry.bytes = self._written

    def _offset(self) -> int | None:
        action = self.fault and (self.fault.reset or self.fault.stall)
        return action.after_bytes if action and not self._stalled else None

    def _garbled(self) -> bool:
        return self.fault is not None and self.fault.malformed == "wire"

    async def _strike(self, written: int) -> None:
        """Do what the fault says if this is its byte."""
        assert self.fault is not None
        if self.fault.reset is not None and self.fault.reset.after_bytes == written:
            self._reset()
            raise Cut("reset")
        stall = self.fault.stall
        if stall is not None and stall.after_bytes == written and not self._stalled:
            self._stalled = True
            if stall.gate is not None:
                await self.gates.wait(stall.gate)
            elif stall.seconds is not None:
                await asyncio.sleep(stall.seconds)
            else:
                await asyncio.Event().wait()  # until the client hangs up, which cancels the handler

    def _reset(self) -> None:
        """Close with a TCP reset: no clean end that a client could take for a complete answer."""
        transport = self.request.transport
        if transport is None:
            return
        raw: socket.socket | None = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
