"""The least that a proxy in Python costs: bytes from one socket to the other, nothing parsed, a connection behind each.

    python -m bench.router.pump --port 19102 --backend 127.0.0.1:18434

A reference to stand beside the router and nginx in the same run: what is above it is what the router does, what is
below it is what the machine's loopback and the event loop take from anybody.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from typing import cast

import uvloop


class End(asyncio.Protocol):
    """One end of a pair; what arrives goes to the other, and the end of one is the end of both."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: asyncio.Transport | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by class
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def join(self, other: asyncio.Transport) -> None:
        """The other end is there: hand over what came before it."""
        self.other = other
        for data in self._early:
            other.write(data)
        self._early.clear()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        if self.other is None:
            self._early.append(data)
        else:
            self.other.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        if self.other is not None:
            self.other.close()


class Front(End):
    """The client's end: a connection to the backend for each."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__()
        self._backend = (host, port)
        self._opening: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        super().connection_made(transport)
        self._opening = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        assert self.transport is not None
        try:
            behind, end = await asyncio.get_running_loop().create_connection(End, *self._backend)
        except OSError as error:
            print(f"{self._backend[0]}:{self._backend[1]}: {error}", file=sys.stderr)
            self.transport.close()
            return
        end.join(self.transport)
        self.join(behind)
        if self.transport.is_closing():
            behind.close()


async def serve(port: int, host: str, behind: int) -> None:
    """Until cancelled."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Front(host, behind), "127.0.0.1", port, backlog=1024
    )
    await server.serve_forever()


def main(arguments: list[str]) -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m bench.router.pump", description="A proxy that parses nothing.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--backend", type=_address, required=True, metavar="HOST:PORT")
    parsed = parser.parse_args(arguments)
    uvloop.run(serve(parsed.port, *parsed.backend))


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, like 127.0.0.1:18434")
    return host, int(port)


if __name__ == "__main__":
    main(sys.argv[1:])
