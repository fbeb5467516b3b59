"""Error answers of the router itself, in the shape of the API that was called.

Ollama: `{"error": "text"}`. Its /v1 half speaks OpenAI: `{"error": {"message", "type", "param", "code"}}`.
"""

from __future__ import annotations

import orjson

from crds import errors
from router.proxy.message import Reply


class Refusal(errors.JervisError):
    """An answer other than the backend's. `retry_after` in whole seconds; `close` ends the client's connection."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: int | None = None,
        close: bool = False,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.headers = headers
        self.status = status
        self.retry_after = retry_after
        self.close = close


def answer(refusal: Refusal, path: str) -> Reply:
    """The refusal as a reply to a request for `path`."""
    headers = () if refusal.retry_after is None else (("Retry-After", str(refusal.retry_after)),)
    return Reply(
        refusal.status,
        body(refusal.message, refusal.status, path),
        headers=headers + refusal.headers,
        close=refusal.close,
    )


def body(message: str, status: int, path: str) -> bytes:
    """The JSON object."""
    if not path.startswith("/v1/"):
        return orjson.dumps({"error": message})
    kind = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}.get(status, "api_error")
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": None}})


def late(message: str, content_type: bytes, last: bytes) -> bytes:
    """Bytes that show an error in a stream that has begun, or none where its format has no place for one.

    `content_type` comes without parameters, in lower case. `last` is the end of what was sent: a line or event that
    broke off is ended first. Ollama itself writes an error after the first byte as an `{"error": ...}` line. No `done`
    record and no `[DONE]` follows, ever.
    """
    if content_type == b"application/x-ndjson":
        return (b"" if not last or last.endswith(b"\n") else b"\n") + orjson.dumps({"error": message}) + b"\n"
    if content_type == b"text/event-stream":
        gap = b"" if not last or last.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"
        return gap + b"data: " + body(message, 502, "/v1/") + b"\n\n"
    return b""
