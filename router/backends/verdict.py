"""What an answer of a backend says about the backend, the model and the request. Pure.

Ollama's status alone does not say it. 404 is a model that the server does not have, and any path that its version does
not know; 500 is a runner that crashed, and an option of the wrong type. So the texts are looked at, which are Ollama's
own: `handleScheduleError` and the handlers in `server/routes.go`, `Options.FromMap` in `api/types.go`, the wrappers of
`/v1` in `middleware/openai.go` and `middleware/anthropic.go`, and gin's own answer to a path without a handler.

Other servers have other texts, and statuses that Ollama does not use. Source: vLLM's `entrypoints/openai`
(ErrorResponse, and `{"object": "error", "message": ...}` of older versions), llama.cpp's `tools/server`
(`format_error_response`, "Loading model"), llama-cpp-python's `server/errors.py`, FastAPI's `{"detail": "Not Found"}`.
"""

from __future__ import annotations

import re
from enum import Enum, auto

import orjson

MOST = 16 * 1024
"""Bytes of an error's body that are looked at. Ollama's are a few hundred."""


class Verdict(Enum):
    """Where the cause lies."""

    FINE = auto()
    """It is an answer."""
    MODEL_MISSING = auto()
    """The server does not have the model that its catalogue listed. Another may."""
    REQUEST = auto()
    """The request is wrong, or its client has no right to it: every backend would say so."""
    UNABLE = auto()
    """This server cannot do it and is well: its version lacks the endpoint, or its memory is too small. Another may."""
    BUSY = auto()
    """The server has too much to do. Another may have less."""
    MODEL_FAILED = auto()
    """The model's runner failed; the server and its other models need not."""
    BACKEND_FAILED = auto()
    """The server, or what stands before it, failed."""


# Ollama writes the name in single quotes, or with Go's %q, and some versions add "try pulling it first".
_MISSING = re.compile(r"""\bmodel ['"\\].*['"] not found|\bmodel not found""", re.DOTALL)
_REQUEST = re.compile(
    r"""^template: |\btemplate error\b|\boption \\?".*" must be of type|^invalid (?:option|format|duration|image)"""
    r"""|\binput(?: length)? exceeds (?:the |maximum )?(?:available )?context|\btoo large to process\b"""
    r"""|\bfailed to parse grammar|\bdoes not support\b|\bimage: unknown format|\billegal base64"""
    r"""|^invalid JSON schema in format|^error parsing tool call|^[Ff]ailed to create new sequence""",
    re.DOTALL,
)
# The runner was there and answered no more: `Completion` and `Embedding` in Ollama's `llm/server.go`, and what older
# versions say there ("POST predict"). Not "llama runner process has terminated" (`WaitUntilRunning`), because that
# runner ended while it loaded the model and had seen no request, and not "no longer running": that had ended before.
# From its beginning: further on a message may quote what a client sent or a model wrote.
_CRASHED = re.compile(
    r"model runner has unexpectedly stopped\b|an error was encountered while running the model: "
    r"|(?:POST predict|do embedding request|error reading llm response): .*"
    r"(?:\bEOF\b|\bconnection reset by peer\b|\bforcibly closed\b)",
    re.DOTALL,
)
# `EmbedHandler` answers 400 whatever a runner did to a text, also where none was there: `getServerStatus` in Ollama's
# `llm/server.go`, and what Go's HTTP client says of a connection. From the beginning, for the same reason.
_AWAY = re.compile(
    r"llama runner process no longer running\b|unexpected server status: |health resp: |(?:server not responding|"
    r"connection refused)$|(?:do embedding request|error reading embed response): "
)
_MEMORY = re.compile(r"\brequires more system memory\b|\brequires more (?:GPU )?memory\b")


# From its beginning: a message that quotes what the client sent ("Response with id '...' not found.") can say anything
# further on, and a model that is taken for missing is missing for all clients.
_OPENAI_MISSING = re.compile(
    r"(?:error: )?(?:the )?model\b.*\b(?:does not exist|not found|not loaded)\b", re.DOTALL | re.IGNORECASE
)
_OPENAI_UNABLE = re.compile(
    r"\bdoes not support\b.*\b(?:API|embeddings?|completions?)\b|\bmust be created with embedding\b",
    re.DOTALL | re.IGNORECASE,
)


def runner_failed(reason: str) -> bool:
    """Whether Ollama's runner was not there, or ended: of a reason that came with 400, as `/api/embed` and
    `/v1/embeddings` say it. The same texts may be embedded later."""
    return _AWAY.match(reason) is not None


def of(status: int, body: bytes, *, model: bool, openai: bool = False) -> Verdict:
    """The verdict on an answer of that status, whose body begins with `body` (at most MOST bytes matter). `model`: the
    request is an inference that names a model. `openai`: of a server of that engine."""
    if status < 400:
        return Verdict.FINE
    said = text(body)
    if said is not None and (_CRASHED.match(said) or (status == 400 and runner_failed(said))):
        # Also with 400: `EmbedHandler` in Ollama's `server/routes.go`.
        return Verdict.MODEL_FAILED
    if openai and status == 429:
        return Verdict.BUSY
    if openai and (status == 501 or (status in (400, 500) and said is not None and _OPENAI_UNABLE.search(said))):
        return Verdict.UNABLE
    if status == 404 and model:
        if said is not None and (_OPENAI_MISSING.match if openai else _MISSING.search)(said):
            return Verdict.MODEL_MISSING
        return Verdict.UNABLE
    if status < 500:
        return Verdict.REQUEST
    if status == 503:
        return Verdict.BUSY
    if said is None:
        return Verdict.BACKEND_FAILED  # not Ollama's words: a proxy before it, or something else altogether
    if _REQUEST.search(said):
        return Verdict.REQUEST
    if _MEMORY.search(said):
        return Verdict.UNABLE
    return Verdict.MODEL_FAILED


def crashed(body: bytes) -> bool:
    """Does an error of a server that is well say that the runner ended while it worked on the request?"""
    said = text(body)
    return said is not None and _CRASHED.match(said) is not None


def text(body: bytes) -> str | None:
    """The sentence in an error of Ollama's: `{"error": "..."}`, on /v1 `{"error": {"message": "..."}}`, and of older
    vLLMs `{"object": "error", "message": "..."}`. None for anything else."""
    try:
        document = orjson.loads(body[:MOST])
    except orjson.JSONDecodeError:
        return None
    if not isinstance(document, dict):
        return None
    said = document.get("error", document.get("message") if document.get("object") == "error" else None)
    if isinstance(said, dict):
        said = said.get("message")
    return said if isinstance(said, str) else None
