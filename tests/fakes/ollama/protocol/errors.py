"""Errors as Ollama answers them: a status and a sentence; `/v1` wraps the sentence in OpenAI's envelope.

Source: `server/routes.go`, `middleware/openai.go` and `openai/openai.go` of Ollama 0.17.4, whose program is asked by
tests/ollama/test_fault_modes.py.
"""

from __future__ import annotations

from typing import Any

PLAIN, NAMED = "application/json", "application/json; charset=utf-8"


class Refusal(Exception):  # noqa: N818 -- an answer with a status, not an error of ours
    """The request is answered with `status` and `message` before anything was generated."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after

    def media(self, path: str) -> str:
        """The content type of the answer on this path."""
        return PLAIN if path.startswith("/v1/") else NAMED

    def body(self, path: str) -> dict[str, Any]:
        """The document of the answer on this path."""
        return _envelope("api_error", self.message) if path.startswith("/v1/") else {"error": self.message}


class Unreadable(Refusal):
    """The body is not what the path takes. On `/v1` that is said before Ollama's own handlers are asked."""

    def __init__(self, message: str) -> None:
        super().__init__(400, message)

    def media(self, path: str) -> str:
        return NAMED

    def body(self, path: str) -> dict[str, Any]:
        if path.startswith("/v1/"):
            return _envelope("invalid_request_error", self.message)
        return super().body(path)


class Unstarted(Refusal):
    """The runner was asked, and no piece came. A stream's content type is then the plain one."""

    def __init__(self, status: int, message: str, stream: bool) -> None:
        super().__init__(status, message)
        self._stream = stream

    def media(self, path: str) -> str:
        return PLAIN if self._stream else super().media(path)


def not_found(model: str) -> Refusal:
    """Ollama's own text for a model that is not installed."""
    return Refusal(404, f"model '{model}' not found")


def not_pulled(model: str) -> Refusal:
    """The same as the scheduler says it, which the paths of vectors leave it to."""
    return Refusal(404, f'model "{model}" not found, try pulling it first')


def unnamed() -> Refusal:
    """The text of most paths for a name that is empty or no name."""
    return Refusal(400, "model is required")


def unqualified(model: str) -> Refusal:
    """The text of the others."""
    return Refusal(500, f"unqualified name: registry.ollama.ai/library/{model or '!MISSING!'}:latest")


def _envelope(kind: str, message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
