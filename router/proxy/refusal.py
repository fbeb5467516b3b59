"""Error answers of the router itself, in the shape of the API that was called.

Ollama: `{"error": "text"}`. Its /v1 half speaks OpenAI: `{"error": {"message", "type", "param", "code"}}`; /v1/messages
speaks Anthropic, whose object has `"type": "error"` beside the error.
"""

from __future__ import annotations

from enum import StrEnum

import orjson

from crds import errors
from router.proxy.message import Reply

REASON = "X-Ollama-Router-Reason"
"""Says in one word why the router itself refused: it distinguishes the causes of one status without reading prose."""


class Cause(StrEnum):
    """Reasons that are not the scheduler's (those are `router.effects.Reason`)."""

    CLIENT_SLOW = "ClientTooSlow"
    TOO_LARGE = "TooLarge"
    STANDBY = "Standby"
    STOPPING = "Stopping"
    NOT_READY = "NotReady"
    RESERVED = "Reserved"
    TOKEN_UNCHECKED = "TokenUnchecked"  # noqa: S105  # the name of a cause
    BACKEND_FAILED = "BackendFailed"
    BACKEND_LATE = "BackendLate"
    TOKENS_USED = "TokensUsed"  # the name of a cause
    NOT_ALLOWED = "ModelNotAllowed"
    HELD_TOO_LONG = "HeldTooLong"
    """In the request log alone: the answer had begun."""
    CRASHES_RUNNER = "CrashesRunner"
    """The request ended the runner of its model, see `quarantine`."""


class Refusal(errors.JervisError):
    """An answer other than the backend's. `retry_after` in whole seconds; `close` ends the client's connection.

    `reason` is the word in the answer's `REASON` header; it has none without. `model` is the one that was asked for,
    where that is known.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        retry_after: int | None = None,
        close: bool = False,
        reason: str = "",
        model: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.headers = ((REASON, str(reason)), *headers) if reason else headers
        self.reason, self.model = str(reason), model
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


_ANTHROPIC, _RESPONSES = "/v1/messages", "/v1/responses"
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
}


def body(message: str, status: int, path: str) -> bytes:
    """The JSON object."""
    if not path.startswith("/v1/"):
        return orjson.dumps({"error": message})
    kind = _TYPES.get(status, "api_error")
    error = {"error": {"message": message, "type": kind, "param": None, "code": None}}
    return orjson.dumps({"type": "error"} | error if path.startswith(_ANTHROPIC) else error)


def late(document: bytes, content_type: bytes, last: bytes, path: str) -> bytes:
    """Bytes that show an error in a stream that has begun, or none where its format has no place for one.

    `document` is its JSON object in one line (`body`), `content_type` comes without parameters, in lower case. `last`
    is the end of what was sent: a line or event that broke off is ended first. Ollama itself writes an error after the
    first byte as an `{"error": ...}` line. No `done` record and no `[DONE]` follows, ever.
    """
    if content_type == b"application/x-ndjson":
        return (b"" if not last or last.endswith(b"\n") else b"\n") + document + b"\n"
    if content_type == b"text/event-stream":
        gap = b"" if not last or last.endswith((b"\n\n", b"\r\n\r\n")) else b"\n\n"
        # Clients of these two skip an event without a name; those of chats and completions look at the object alone.
        named = b"event: error\n" if path in (_ANTHROPIC, _RESPONSES) else b""
        shown = _event(document) if path == _RESPONSES else document
        return gap + named + b"data: " + shown + b"\n\n"
    return b""


def _event(document: bytes) -> bytes:
    """The error as an event of OpenAI's Responses API (`ResponseErrorEvent`). The member `error` stays, because its
    own client raises for that alone. The events are not counted here: the number is 0."""
    whole = orjson.loads(document)
    error = whole["error"]
    code = error.get("code") or error.get("type")
    event = {
        "type": "error",
        "code": None if code is None else str(code),
        "message": str(error.get("message") or ""),
        "param": error.get("param"),
        "sequence_number": 0,
    }
    return orjson.dumps(event | whole | {"type": "error"})


def reported(end: bytes) -> bool:
    """Is that the end of a stream in which another router has shown an error by `late`, or Ollama one of its own?"""
    last = end.rstrip().rpartition(b"\n")[2].removeprefix(b"data: ")
    return last.startswith((b'{"error":', b'{"type":"error"')) and last.endswith(b"}")
