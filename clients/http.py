"""HTTP to servers of others: sources, backends, token endpoints, tool servers, parsers, webhooks, web pages.

Nothing else in the product opens such a connection (tests/repository/test_layout.py). What such a server sends is
bounded before it means anything:

    head                h11's 100 KiB
    body                in pieces of at most 64 KiB, which is as much as is read of a connection; `read` ends it at the
                        caller's bound
    Content-Encoding    none is asked for; gzip or deflate, sent all the same, is inflated piece by piece, and a body of
                        another compression, or of two, is not read: `httpx.DecodingError`. Names of no compression
                        (utf-8, aws-chunked) are passed over
    time                `seconds` for all of an exchange, however it drips: `httpx.ReadTimeout`
    redirects, cookies, proxies of the environment    none

With `find` a host is resolved once for each connection, its addresses are judged, and the connection goes to one that
was judged: a name that is resolved a second time could lead elsewhere. The URL keeps its name, so that certificates are
verified for it, and a kept connection serves no other name.
"""

from __future__ import annotations

import asyncio
import http.cookiejar
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

PIECE = 64 << 10
"""The most bytes that are inflated at once."""
SECONDS = 600.0
MOST_ADDRESSES = 4
"""Of a host, that are tried."""
Find = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) -> addresses, the first to be tried first. What it raises, the request raises."""


class TooLarge(httpx.HTTPError):
    """The body has more bytes than the caller takes."""


def client(
    *,
    tls: ssl.SSLContext,
    find: Find | None = None,
    seconds: float = SECONDS,
    timeout: httpx.Timeout | float | None = None,
    cookies: bool = False,
    **more: Any,
) -> httpx.AsyncClient:
    """A client of servers of others. `tls` has the trusted authorities; without `find` every address is called, for
    servers that an administrator names. `timeout`: httpx's, of each wait; None: `seconds`. `cookies`: they are kept,
    for a client of one server. `more` goes to httpx. Requests raise UnicodeError too, for names that IDNA has not."""
    return httpx.AsyncClient(
        transport=Transport(tls=tls, find=find, seconds=seconds),
        timeout=seconds if timeout is None else timeout,
        trust_env=False,
        follow_redirects=False,
        cookies=None if cookies else http.cookiejar.CookieJar(http.cookiejar.DefaultCookiePolicy(allowed_domains=())),
        **more,
    )


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host by the system's resolver, IPv4 first; none where it has none."""
    try:
        rows = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return []
    return sorted({str(row[4][0]) for row in rows}, key=lambda text: (":" in text, text))


async def read(answer: httpx.Response, most: int) -> bytes:
    """The body of a streamed answer. Raises `TooLarge` behind `most` bytes."""
    declared = answer.headers.get("Content-Length", "")
    if declared.isascii() and declared.isdigit() and len(declared) < 20 and int(declared) > most:
        raise TooLarge(f"the answer has more than {most} bytes")
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most:
            raise TooLarge(f"the answer has more than {most} bytes")
    return bytes(body)


class Transport(httpx.AsyncBaseTransport):
    """See the module and `client`."""

    def __init__(self, *, tls: ssl.SSLContext, find: Find | None = None, seconds: float = SECONDS) -> None:
        self._seconds = seconds
        self._inner = _Opened(tls, find)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See httpx. Raises what `find` raises too."""
        host = request.url.raw_host
        if request.url.scheme not in ("http", "https") or not host:
            raise httpx.UnsupportedProtocol("the URL is no http(s) address with a host")
        request.headers["Accept-Encoding"] = "identity"
        if host.endswith(b"."):
            # No certificate has the dot.
            request.extensions = {**request.extensions, "sni_hostname": host.rstrip(b".").decode()}
        deadline = asyncio.get_running_loop().time() + self._seconds
        with _named(self._seconds):
            async with asyncio.timeout_at(deadline):
                answer = await self._inner.handle_async_request(request)
        stream: httpx.AsyncByteStream = _Timed(answer, deadline, self._seconds)
        names = [name.strip().lower() for name in answer.headers.get("Content-Encoding", "").split(",")]
        if codings := [name for name in names if name in _WINDOWS or name in _NOT_READ]:
            [coding, *more] = codings
            # What an error says is worth less than that it is one.
            empty = request.method == "HEAD" or answer.status_code in (204, 304) or answer.status_code >= 400
            if not more and coding in _WINDOWS:
                stream = _Inflated(stream, _WINDOWS[coding])
            else:
                stream = _Unread(stream, "" if empty else ", ".join(codings))
            answer.headers.pop("Content-Length", None)
        answer.headers.pop("Content-Encoding", None)
        return httpx.Response(answer.status_code, headers=answer.headers, stream=stream, extensions=answer.extensions)

    async def aclose(self) -> None:
        """Give the connections back."""
        await self._inner.aclose()


class _Opened(httpx.AsyncHTTPTransport):
    """httpx's own over connections to judged addresses."""

    def __init__(self, tls: ssl.SSLContext, find: Find | None) -> None:
        super().__init__(verify=tls, trust_env=False)
        if find is not None:
            # httpx has no parameter for what opens its connections.
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=tls,
                max_connections=100,
                max_keepalive_connections=20,
                keepalive_expiry=5.0,
                network_backend=Judged(find),
            )


class Judged(httpcore.AsyncNetworkBackend):
    """Connections to addresses that `find` gives, also of other protocols."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """See httpcore. Raises what `find` raises too."""
        last: Exception = httpcore.ConnectError(f"{host[:200]} has no address")
        try:
            async with asyncio.timeout(timeout):
                addresses = await self._find(host, port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"the address of {host[:200]} is not known") from error
        except OSError as error:
            raise httpcore.ConnectError(str(error)) from error
        for address in addresses[:MOST_ADDRESSES]:
            try:
                return await self._inner.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                last = error
        raise last

    async def sleep(self, seconds: float) -> None:
        """See httpcore."""
        await self._inner.sleep(seconds)


class _Timed(httpx.AsyncByteStream):
    """A body until a time of the loop's clock."""

    def __init__(self, answer: httpx.Response, deadline: float, seconds: float) -> None:
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        self._inner, self._deadline, self._seconds = answer.stream, deadline, seconds

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self._inner)
        while True:
            with _named(self._seconds):
                async with asyncio.timeout_at(self._deadline):
                    piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()


_GZIP, _DEFLATE = zlib.MAX_WBITS + 16, zlib.MAX_WBITS
_WINDOWS = {"gzip": _GZIP, "deflate": _DEFLATE}
_NOT_READ = ("br", "zstd", "compress", "x-compress", "dcb", "dcz", "exi", "pack200-gzip")
"""The other compressions of IANA's registry of content codings. x-gzip is none here: servers name files so (`.tgz`)."""


class _Unread(httpx.AsyncByteStream):
    """A body that is not read, for its `codings`; an empty one without."""

    def __init__(self, inner: httpx.AsyncByteStream, codings: str) -> None:
        self._inner, self._codings = inner, codings

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._codings:
            raise httpx.DecodingError(f"the answer is encoded as {self._codings[:60]!r}, which was not asked for")
        return
        yield  # of a generator

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Inflated(httpx.AsyncByteStream):
    """A body without its one coding (RFC 9110 8.4.1)."""

    def __init__(self, inner: httpx.AsyncByteStream, window: int) -> None:
        self._inner, self._window = inner, window

    async def __aiter__(self) -> AsyncIterator[bytes]:
        inflater, begun, member = zlib.decompressobj(self._window), False, 0
        async for piece in self._inner:
            left = piece
            while left:
                if inflater.eof:
                    if self._window != _GZIP or not left.startswith(b"\x1f"):
                        return  # what stands behind it, as zeros, means nothing
                    if not member:
                        raise httpx.DecodingError("a part of the answer is empty")  # there may be no end of them
                    inflater, member = zlib.decompressobj(_GZIP), 0  # a file of gzip has members
                try:
                    inflated = inflater.decompress(left, PIECE)
                except zlib.error as error:
                    if begun or self._window != _DEFLATE:
                        raise httpx.DecodingError(f"the answer cannot be inflated: {error}") from error
                    # Some servers send RFC 1951 without the frame of RFC 1950.
                    self._window = -_DEFLATE
                    inflater = zlib.decompressobj(self._window)
                    continue
                begun, member = True, member + len(inflated)
                if inflated:
                    yield inflated
                left = inflater.unconsumed_tail or inflater.unused_data
        if begun and not inflater.eof:
            raise httpx.DecodingError("the answer ends before its end")

    async def aclose(self) -> None:
        await self._inner.aclose()


@contextmanager
def _named(seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise httpx.ReadTimeout(f"the answer took longer than {seconds:g} s") from error
