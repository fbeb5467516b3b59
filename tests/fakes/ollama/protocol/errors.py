"""Errors as Ollama answers them: a status and a sentence; `/v1` wraps the sentence in OpenAI's envelope."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):  # noqa: N818 -- an answer with a status, not an error of ours
    """The request is answered with `status` and `message` before anything was generated."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


def not_found(model: str) -> Refusal:
    """Ollama's own text for a model that is not installed."""
    return Refusal(404, f"model '{model}' not found")


def envelope(path: str, status: int, message: str) -> dict[str, Any]:
    """The body of an error on this path."""
    if not path.startswith("/v1/"):
        return {"error": message}
    kind = {400: "invalid_request_error", 404: "not_found_error"}.get(status, "api_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
