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
    kept += [b"%s: %s\r\n" % pair for pair in _passing(headers, _NOT_TO_BACKEND)]
    if length is not None:
        kept.append(b"Content-Length: %d\r\n" % length)
    kept.append(b"X-Request-Id: %s\r\n\r\n" % request_id.encode("ascii"))
    return b"".join(kept)


def to_client(headers: Iterable[Header]) -> list[Header]:
    """The backend's headers that may pass to the client, in their order."""
    return _passing(headers, _NOT_TO_CLIENT)


def own_headers(backend: str, queue_ms: int, request_id: str) -> tuple[Header, ...]:
    """What the router adds."""
    return (
        (BACKEND.encode(), backend.encode("ascii", "replace")),
        (QUEUE_MS.encode(), b"%d" % queue_ms),
        (REQUEST_ID.encode(), request_id.encode("ascii")),
    )


def _passing(headers: Iterable[Header], dropped: frozenset[bytes]) -> list[Header]:
    """Headers that are neither in `dropped` nor named in Connection."""
    kept: list[Header] = []
    named: frozenset[bytes] = frozenset()
    for pair in headers:
        name = pair[0].lower()
        if name not in dropped:
            kept.append(pair)
        elif name == b"connection":
            named |= frozenset(token.strip().lower() for token in pair[1].split(b","))
    # Hardly any message names something that would pass otherwise.
    return [pair for pair in kept if pair[0].lower() not in named] if named else kept
