"""What of a message's head passes through the router, and what does not.

Sources: RFC 9110 section 7.6.1 (hop-by-hop fields and those named in Connection), the router page of the design: the
backend must see its own Host (Ollama checks it), no X-Ollama-Priority, no Accept-Encoding (answers stay plain).
"""

from __future__ import annotations

from collections.abc import Callable

from crds import priority
from router.proxy.message import Field, Request

REQUEST_ID = b"x-request-id"
PRIORITY = priority.HEADER.lower().encode()
MODE = priority.MODE_HEADER.lower().encode()
BACKEND = b"x-ollama-router-backend"
"""Of an answer: who gave it. Of a request: whom an administrator means."""
AUTHORIZATION = b"authorization"
API_KEY = b"x-api-key"
"""How Anthropic's clients (`/v1/messages`) send their token."""

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
        b"http2-settings",
    }
)
_USUAL = frozenset({b"keep-alive", b"close", b"upgrade", b"http2-settings", b"te", b""})
SPECIAL = _HOP | {
    b"host",
    b"content-length",  # written anew: the body was read whole
    b"expect",  # answered by the router
    b"accept-encoding",
    PRIORITY,
    MODE,
    REQUEST_ID,
    BACKEND,
    AUTHORIZATION,  # passes unless the router or the backend has a use of its own for it
    API_KEY,
}
"""Fields of a request that do not simply pass to the backend."""
NOT_TO_CLIENT = _HOP | {
    REQUEST_ID,
    BACKEND,
    b"x-ollama-router-queue-ms",
    b"x-ollama-router-model-set",
}
"""Fields of an answer that do not pass to the client."""


def request_id(request: Request, make: Callable[[], str]) -> str:
    """The client's own id when it is plain and short enough to be logged and returned, else a new one."""
    if REQUEST_ID in request.special:
        given = request.get(REQUEST_ID)
        if given and len(given) <= 128 and given.isascii() and given.isprintable():
            return given
    return make()


def request_head(
    request: Request,
    *,
    prefix: bytes,
    authority: bytes,
    length: int | None,
    request_id: str,
    authorization: bytes | None,
) -> bytes:
    """The head for the backend.

    `prefix` is the path of the backend's URL, `length` None for no body. `authorization` replaces the client's own
    field: empty to leave it out, None to let it pass.
    """
    fields, special = request.fields, request.special
    if (connection := special.get(b"connection")) is not None:
        fields = without(fields, connection)
    kept = [b"%s %s%s HTTP/1.1\r\nHost: %s" % (request.method, prefix, request.target, authority)]
    for _, name, value in fields:
        kept.append(b"%s: %s" % (name, value))
    if authorization:
        kept.append(b"Authorization: %s" % authorization)
    elif authorization is None:
        for name in (AUTHORIZATION, API_KEY):
            if name in special:
                kept.append(b"%s: %s" % (name, special[name]))
    if length is not None:
        kept.append(b"Content-Length: %d" % length)
    kept.append(b"X-Request-Id: %s\r\n\r\n" % request_id.encode())
    return b"\r\n".join(kept)


def without(fields: list[Field], connection: bytes) -> list[Field]:
    """The fields that a Connection field does not name. Hardly ever does it name one that would pass otherwise."""
    named = {token.strip().lower() for token in connection.split(b",")}
    return fields if named <= _USUAL else [triple for triple in fields if triple[0] not in named]


def own_lines(backend: str, queue_ms: int, request_id: str, model_set: str) -> bytes:
    """The header lines that the router adds to an answer."""
    lines = b"X-Ollama-Router-Backend: %s\r\nX-Ollama-Router-Queue-Ms: %d\r\nX-Request-Id: %s\r\n" % (
        backend.encode("ascii", "replace"),
        queue_ms,
        request_id.encode("ascii"),
    )
    return lines + b"X-Ollama-Router-Model-Set: %s\r\n" % model_set.encode("ascii", "replace") if model_set else lines
