"""What of a message's head passes through the router, and what does not.

Sources: RFC 9110 section 7.6.1 (hop-by-hop fields and those named in Connection), the router page of the design: the
backend must see its own Host (Ollama checks it), no X-Ollama-Priority, no Accept-Encoding (answers stay plain). A
backend's cookies, and its word on pages of other origins, would be those of the router itself.
"""

from __future__ import annotations

from collections.abc import Callable

from crds import priority
from router.proxy.message import Request

REQUEST_ID = b"x-request-id"
PRIORITY = priority.HEADER.lower().encode()
MODE = priority.MODE_HEADER.lower().encode()
INTERNAL = priority.INTERNAL_HEADER.lower().encode()
"""It is a request of Jervis's own processes."""
PROGRESS = b"x-jervis-progress"
"""The client wants signs of life, see `signs`."""
SESSION = b"x-session-id"
"""The client's name for a conversation."""
BACKEND = b"x-ollama-router-backend"
"""Of an answer: who gave it. Of a request: whom an administrator means."""
AUTHORIZATION = b"authorization"
ORIGIN = b"origin"
CONTENT_ENCODING = b"content-encoding"
TRACEPARENT = b"traceparent"
API_KEY = b"x-api-key"
"""How Anthropic's clients (`/v1/messages`) send their token."""

YES = frozenset({"true", "1", "yes", "on"})
"""Values of a field that asks for something."""

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
    CONTENT_ENCODING,  # of a body that runs a model: decoded
    PRIORITY,
    MODE,
    INTERNAL,
    SESSION,
    PROGRESS,
    REQUEST_ID,
    BACKEND,
    ORIGIN,  # the router is what a page calls: it decides, and backends have other names
    AUTHORIZATION,  # passes unless the router or the backend has a use of its own for it
    API_KEY,
}
"""Fields of a request that do not simply pass to the backend."""
_TOKENS = (AUTHORIZATION, API_KEY)
_JUDGED = frozenset({b"connection", CONTENT_ENCODING, *_TOKENS})
"""Those that pass under some condition, or say what does."""
NOT_TO_CLIENT = _HOP | {
    REQUEST_ID,
    BACKEND,
    CONTENT_ENCODING,  # only "identity" gets so far
    b"set-cookie",
    b"access-control-allow-origin",
    b"access-control-allow-credentials",
    b"access-control-allow-headers",
    b"access-control-allow-methods",
    b"access-control-expose-headers",
    b"access-control-max-age",
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


def readable(origin: bytes) -> bytes:
    """The lines by which pages of this origin may read an answer (Fetch, "CORS protocol")."""
    return b"Access-Control-Allow-Origin: %s\r\nVary: Origin\r\nAccess-Control-Expose-Headers: *\r\n" % origin


def internal(request: Request) -> bool:
    """Is it of Jervis's own: of a run, by its token, or of a process that says so? One that says so falsely bounds no
    one but itself."""
    return bool(request.identity.run) or (request.get(INTERNAL) or "").lower() in YES


def request_head(
    request: Request,
    prefix: bytes,
    authority: bytes,
    *,
    length: int | None,
    request_id: str,
    authorization: bytes | None,
    claim: bytes = b"",
    trace: bytes = b"",
) -> bytes:
    """The head for the backend.

    `prefix` is the path of the backend's URL, `length` None for no body. `authorization` replaces the client's own
    field: empty to leave it out, None to let it pass. `claim` are lines for another router,
    `trace` replaces the client's traceparent, empty to let it pass.
    """
    lines, special = request.lines, request.special
    if not _JUDGED.isdisjoint(special):
        if (connection := special.get(b"connection")) is not None:
            lines = without(lines, connection)
        for name in _TOKENS if authorization is None else ():
            if name in special:
                lines += b"%s: %s\r\n" % (name, special[name])
        if CONTENT_ENCODING in special:
            lines += b"Content-Encoding: %s\r\n" % special[CONTENT_ENCODING]
    if trace:
        lines = without(lines, TRACEPARENT) + b"%s: %s\r\n" % (TRACEPARENT, trace)
    if authorization:
        lines += b"Authorization: %s\r\n" % authorization
    if claim:
        lines += claim
    if length is not None:
        lines += b"Content-Length: %d\r\n" % length
    return b"%s %s%s HTTP/1.1\r\nHost: %s\r\n%sX-Request-Id: %s\r\n\r\n" % (
        request.method,
        prefix,
        request.target,
        authority,
        lines,
        request_id.encode(),
    )


def claim(request: Request, level: str) -> bytes:
    """The lines that tell another router what this one knows of a request: how urgent it is, whether a person waits
    for it, whether its client wants signs of life, and to which conversation it belongs."""
    lines = b"X-Ollama-Priority: %s\r\n" % level.encode()
    for name in (MODE, INTERNAL, PROGRESS, SESSION):
        if name in request.special:
            lines += b"%s: %s\r\n" % (name, request.special[name])
    return lines


def without(lines: bytes, connection: bytes) -> bytes:
    """The fields that a Connection field does not name. Hardly ever does it name one that would pass otherwise."""
    named = {token.strip().lower() for token in connection.split(b",")}
    if named <= _USUAL:
        return lines
    kept = (line for line in lines.split(b"\r\n")[:-1] if line.partition(b":")[0].lower() not in named)
    return b"".join(line + b"\r\n" for line in kept)


def own_lines(backend: str, queue_ms: int, request_id: str, model_set: str) -> bytes:
    """The header lines that the router adds to an answer."""
    lines = b"X-Ollama-Router-Backend: %s\r\nX-Ollama-Router-Queue-Ms: %d\r\nX-Request-Id: %s\r\n" % (
        backend.encode("ascii", "replace"),
        queue_ms,
        request_id.encode("ascii"),
    )
    return lines + b"X-Ollama-Router-Model-Set: %s\r\n" % model_set.encode("ascii", "replace") if model_set else lines
