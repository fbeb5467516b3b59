"""What of a message's head passes through the router, and what does not.

Sources: RFC 9110 section 7.6.1 (hop-by-hop fields and those named in Connection), the router page of the design: the
backend must see its own Host (Ollama checks it), no X-Ollama-Priority, no Accept-Encoding (answers stay plain).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from crds import priority
from router.proxy.connection import Header

REQUEST_ID = "X-Request-Id"
BACKEND = "X-Ollama-Router-Backend"
QUEUE_MS = "X-Ollama-Router-Queue-Ms"

_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_TO_BACKEND = _HOP | {
    b"host",
    b"content-length",  # written anew: the body was read whole
    b"expect",  # answered by the router
    b"accept-encoding",
    priority.HEADER.lower().encode(),
    REQUEST_ID.lower().encode(),
}
_NOT_TO_CLIENT = _HOP | {
    REQUEST_ID.lower().encode(),
    BACKEND.lower().encode(),
    QUEUE_MS.lower().encode(),
}


def request_id(given: str | None, make: Callable[[], str]) -> str:
    """The client's own id when it is plain and short enough to be logged and returned, else a new one."""
    if given and len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    return make()


def request_head(
    method: str, target: str, headers: Iterable[Header], *, authority: bytes, length: int | None, request_id: str
) -> bytes:
    """The head for the backend. `target` is path and query as the client wrote them, `length` None for no body."""
    kept = [b"%s %s HTTP/1.1\r\nHost: %s\r\n" % (method.encode(), target.encode("utf-8", "surrogateescape"), authority)]
    dropped = _NOT_TO_BACKEND
    pairs = tuple(headers)
    for name, value in pairs:
        if name.lower() == b"connection":
            dropped = dropped | _tokens(value)
    kept += [b"%s: %s\r\n" % pair for pair in pairs if pair[0].lower() not in dropped]
    if length is not None:
        kept.append(b"Content-Length: %d\r\n" % length)
    kept.append(b"X-Request-Id: %s\r\n\r\n" % request_id.encode("ascii"))
    return b"".join(kept)


def to_client(headers: Iterable[Header]) -> list[Header]:
    """The backend's headers that may pass to the client, in their order."""
    pairs = tuple(headers)
    dropped = _NOT_TO_CLIENT
    for name, value in pairs:
        if name.lower() == b"connection":
            dropped = dropped | _tokens(value)
    return [pair for pair in pairs if pair[0].lower() not in dropped]


def own_headers(backend: str, queue_ms: int, request_id: str) -> tuple[Header, ...]:
    """What the router adds."""
    return (
        (BACKEND.encode(), backend.encode("ascii", "replace")),
        (QUEUE_MS.encode(), b"%d" % queue_ms),
        (REQUEST_ID.encode(), request_id.encode("ascii")),
    )


def _tokens(value: bytes) -> frozenset[bytes]:
    return frozenset(token.strip().lower() for token in value.split(b","))
