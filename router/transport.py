"""httpx over aiohttp's connections: for processes that make thousands of calls and share one core with all else.

httpx's own pool looks at every connection before every call; with ten calls at once a call takes less than half the
CPU time here (`python -m bench.router.calls`, `docs/decisions/0022`). Everything above the connections stays httpx's:
its client, hooks, errors, timeouts.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
import httpx
import yarl

from router import keepalive

_QUIET = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
"""Header fields that httpx has decided on already."""
_KEPT_SECONDS = 5.0
"""Idle connections, as httpx keeps them: a server's own patience is longer, and so it seldom closes first."""

# The first that fits names the error.
_NAMES: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (TimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ClientError, httpx.ReadError),
    (OSError, httpx.ReadError),
)


class Transport(httpx.AsyncBaseTransport):
    """`httpx.AsyncClient(transport=Transport())`. `connections` bounds how many there are at once; 0: no bound.
    `request_class` makes the requests of the aiohttp session; None: aiohttp's own.

    Timeouts are httpx's, but for `write`, which `read` covers: without an answer's byte for so long the call is over.
    There are no proxies, cookies or redirects here. Raises what httpx's own transport raises.
    """

    def __init__(
        self,
        *,
        connections: int = 0,
        verify: ssl.SSLContext | None = None,
        request_class: type[aiohttp.ClientRequest] | None = None,
    ) -> None:
        self._connections = connections
        self._request_class = request_class or aiohttp.ClientRequest
        self._verify = verify
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        if url.scheme not in ("http", "https") or not url.host:
            raise httpx.UnsupportedProtocol(f"{str(url)!r} is no address with http:// or https:// and a host")
        if url.userinfo:  # httpx has made the Authorization header of it
            url = url.copy_with(userinfo=b"")
        allowed = request.extensions.get("timeout", {})
        with _named():
            answer = await self._opened().request(
                request.method,
                yarl.URL(str(url), encoded=True),
                headers=[(key.decode("ascii"), value.decode("latin-1")) for key, value in request.headers.raw],
                data=await request.aread() or None,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(
                    connect=allowed.get("pool"), sock_connect=allowed.get("connect"), sock_read=allowed.get("read")
                ),
            )
        return httpx.Response(answer.status, headers=list(answer.raw_headers), stream=_Body(answer))

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        # Not before the first call: a session belongs to the loop in which it was made.
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._connections,
                    # The same authorities as httpx trusts, not those of the machine.
                    ssl=self._verify or httpx.create_ssl_context(trust_env=False),
                    keepalive_timeout=_KEPT_SECONDS,
                    socket_factory=_socket,
                ),
                request_class=self._request_class,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_QUIET,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
            )
        return self._session


class _Body(httpx.AsyncByteStream):
    """The answer's bytes as they come. Closed before its end, the connection goes too: the server sees a hang-up."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _named():
            async for piece in self._answer.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        self._answer.close()


def _socket(address: tuple[Any, ...]) -> socket.socket:
    """For one of getaddrinfo's addresses."""
    made = socket.socket(*address[:3])
    for option in keepalive.OPTIONS:
        made.setsockopt(*option)
    return made


@contextmanager
def _named() -> Iterator[None]:
    """Errors by httpx's names."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        name = next(name for kind, name in _NAMES if isinstance(error, kind))
        raise name(str(error) or type(error).__name__) from error
