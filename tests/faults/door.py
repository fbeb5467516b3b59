"""A door: a listening port between the operator and one of its partners, where requests can be spoilt.

Each connection has one of its own to the partner, so what is cut here is cut there. `decide` is asked about every
request. A door that is shut refuses connections and drops those that are there.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults.faults import Decide, Fate, Fault
from tests.faults.journal import Journal

GONE = (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, OSError)
"""How a connection ends that somebody cut: what all of this is for."""


class CutError(ConnectionError):
    """This connection is to be reset now."""


@dataclass
class Link:
    """A client's connection and, once it is needed, the one behind it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    far: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def reset(self) -> None:
        """RST to the client instead of an orderly end."""
        peer: socket.socket = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    def close(self) -> None:
        """Let both go."""
        self.writer.transport.abort()
        if self.far is not None:
            self.far[1].transport.abort()


@dataclass
class Door(ABC):
    """`target` is host and port of the partner, `kill` ends the operator with SIGKILL."""

    target: tuple[str, int]
    journal: Journal
    decide: Decide
    kill: Callable[[], None]
    tls: ssl.SSLContext | None = None
    port: int = 0
    _server: asyncio.Server | None = None
    _links: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def address(self) -> str:
        """host:port for the operator; stays the same when it is shut and opened."""
        return f"127.0.0.1:{self.port}"

    async def open(self) -> None:
        """Listen."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        """Refuse and drop."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link, current = Link(reader, writer), asyncio.current_task()
        assert current is not None
        self._links.add(current)
        try:
            while await self._exchange(link):
                pass
        except CutError:
            link.reset()
        except GONE:
            pass
        except asyncio.CancelledError:
            # Shut: ends here, since asyncio's server would log it as an error of the handler.
            pass
        finally:
            link.close()
            self._links.discard(current)

    async def _behind(self, link: Link) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The partner's side; connected at the first need."""
        if link.far is None:
            host, port = self.target
            link.far = await asyncio.open_connection(host, port, ssl=self.tls, limit=2**20)
        return link.far

    def strike(self, fate: Fate | None, *moments: Fault) -> bool:
        """Is it this request's fate to meet one of these now? A kill is done; the rest is the caller's."""
        if fate is None or fate.fault not in moments:
            return False
        self.journal.did(fate)
        if fate.fault in (Fault.KILL_BEFORE, Fault.KILL_COMMITTED, Fault.KILL_ANSWERED):
            self.kill()
        return True

    @abstractmethod
    async def _exchange(self, link: Link) -> bool:
        """One request and its answer; False when the connection is over."""
