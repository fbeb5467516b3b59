"""Connections to one backend: reuse the one that was used last, open as many as the scheduler lets through.

There is no cap here on purpose: how much runs at once is decided by `router.scheduler` alone.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from crds import addresses
from router.proxy.connection import Broken, Connection

MOST_FETCHED = 4 << 20
"""Bytes of a document that the router asks for itself: the list of thousands of models is smaller."""
# Seconds. A connection on which nothing moves is asked whether the other side still has it, and given up when nothing
# comes back, or when what was sent is not confirmed: a host that is gone closes no connection.
_SOCKET = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", 10),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", 5),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", 3),
    (socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", 25_000),  # the only one in milliseconds
)
_OPTIONS = [(level, getattr(socket, name), value) for level, name, value in _SOCKET if hasattr(socket, name)]
"""Other systems than Linux lack some of them."""


class Unreachable(Broken):
    """No connection could be made."""


class Refused(Unreachable):
    """The machine is there, and nothing listens on it."""


class Pool:
    """Connections to the server at `url`. `connect_timeout` and `max_idle` are in seconds."""

    def __init__(
        self, url: str, *, connect_timeout: float = 5.0, max_idle: float = 60.0, loopback: bool = True
    ) -> None:
        """`loopback` allows addresses of this machine."""
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(f"{url!r} has no host")
        self._host = parts.hostname
        self._tls = ssl.create_default_context() if parts.scheme == "https" else None
        self._port = parts.port or (443 if self._tls else 80)
        self.base_path = parts.path.rstrip("/").encode()
        self.authority = parts.netloc.encode()
        self.authorization: bytes | None = None
        """Value of the Authorization field for the server; None when it wants none."""
        self._loopback = loopback
        self._connect_timeout = connect_timeout
        self._max_idle = max_idle
        self._idle: list[Connection] = []

    def reuse(self) -> Connection | None:
        """The idle connection that was used last, or None."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.lost:
                return connection
        return None

    async def connect(self) -> Connection:
        """A new connection. Raises Unreachable."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_timeout):
                return await self._connect(loop, await self._judged(loop))
        except TimeoutError as error:
            raise Unreachable(f"no connection within {self._connect_timeout:g} s") from error
        except ConnectionRefusedError as error:
            raise Refused(f"no connection: {error.strerror or error}") from error
        except UnicodeError as error:
            raise Unreachable("its host is no name") from error
        except OSError as error:
            raise Unreachable(f"no connection: {error.strerror or error}") from error

    async def _connect(self, loop: asyncio.AbstractEventLoop, found: list[str]) -> Connection:
        """To the first address that accepts one."""
        for last, address in enumerate(found, 1 - len(found)):
            try:
                transport, connection = await loop.create_connection(
                    lambda: Connection(loop),
                    address,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._host if self._tls else None,
                )
            except OSError:
                if last == 0:
                    raise
            else:
                for option in _OPTIONS:
                    transport.get_extra_info("socket").setsockopt(*option)
                return connection
        raise OSError("the name has no address")

    async def _judged(self, loop: asyncio.AbstractEventLoop) -> list[str]:
        """The addresses of the host, as the operator's probe judges them. Raises Unreachable: one forbidden address
        spoils the name, whose owner chooses which one is tried. A connection goes to an address that was judged."""
        rows = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        for address in found:
            if why := addresses.never_called(address, loopback=self._loopback):
                raise Unreachable(f"its host leads to {why}, which is never called; correct spec.url")
        return found

    def give_back(self, connection: Connection, now: float) -> None:
        """After an exchange: keep the connection if it can carry another one, close it hard otherwise."""
        if connection.complete and connection.keep and not connection.lost:
            connection.rest(now)
            self._idle.append(connection)
        elif connection.complete or connection.lost:
            connection.abort()
        else:
            connection.part()

    def sweep(self, now: float) -> None:
        """Close what has been idle for too long: backends and middleboxes forget connections."""
        fresh = [c for c in self._idle if not c.lost and now - c.idle_since < self._max_idle]
        for connection in set(self._idle) - set(fresh):
            connection.abort()
        self._idle = fresh

    def close(self) -> None:
        """Close the idle connections; exchanges under way are left alone."""
        for connection in self._idle:
            connection.abort()
        self._idle.clear()

    async def fetch(self, path: str, *, timeout: float, body: bytes | None = None) -> tuple[int, bytes]:
        """GET a small document, or POST `body` (JSON, harmless when sent twice): (status, answer's body). Raises Broken
        when the answer does not come whole within `timeout` seconds."""
        head = b"%s %s%s HTTP/1.1\r\nHost: %s\r\nAccept: application/json\r\n%s\r\n" % (
            b"GET" if body is None else b"POST",
            self.base_path,
            path.encode(),
            self.authority,
            b"" if self.authorization is None else b"Authorization: %s\r\n" % self.authorization,
        )
        if body is not None:
            head = head[:-2] + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        try:
            async with asyncio.timeout(timeout):
                held = self.reuse()
                if held is not None:
                    try:
                        return await self._get(held, head, body or b"")
                    except Broken:
                        # The server may have closed it in the same moment: once more on a new connection.
                        if held.received:
                            raise
                return await self._get(await self.connect(), head, body or b"")
        except TimeoutError as error:
            raise Broken(f"{path} was not answered within {timeout:g} s") from error

    async def _get(self, connection: Connection, head: bytes, body: bytes) -> tuple[int, bytes]:
        answer = bytearray()
        try:
            connection.send(head, body)
            while not connection.complete:
                await connection.arrived()
                answer += connection.take()
                if len(answer) > MOST_FETCHED:
                    raise Broken(f"an answer of more than {MOST_FETCHED} bytes")
            return connection.status, bytes(answer)
        finally:
            self.give_back(connection, asyncio.get_running_loop().time())


class Pools:
    """One pool per backend, kept while its URL stays the same. `make` builds a pool for a URL."""

    def __init__(self, make: Callable[[str], Pool] = Pool) -> None:
        self._make = make
        self._pools: dict[str, tuple[str, Pool]] = {}
        self._authorizations: dict[str, bytes] = {}

    def of(self, name: str, url: str) -> Pool:
        """The pool of backend `name` at `url`."""
        held = self._pools.get(name)
        if held is not None and held[0] == url:
            return held[1]
        if held is not None:
            held[1].close()
        pool = self._make(url)
        pool.authorization = self._authorizations.get(name)
        self._pools[name] = (url, pool)
        return pool

    def authorize(self, tokens: Mapping[str, str]) -> None:
        """Bearer tokens by backend: these and no others."""
        self._authorizations = {name: b"Bearer " + token.encode("latin-1") for name, token in tokens.items()}
        for name, (_, pool) in self._pools.items():
            pool.authorization = self._authorizations.get(name)

    def keep(self, names: set[str]) -> None:
        """Forget the pools of all other backends."""
        for name in self._pools.keys() - names:
            self._pools.pop(name)[1].close()

    def sweep(self, now: float) -> None:
        """See `Pool.sweep`."""
        for _, pool in self._pools.values():
            pool.sweep(now)
