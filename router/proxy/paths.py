"""What each path of Ollama's API is, as far as the router treats them differently.

Source: Ollama's `server/routes.go` and its OpenAI compatibility page.
"""

from __future__ import annotations

from enum import Enum, auto


class Kind(Enum):
    """Decides about slots, retries and refusal."""

    INFERENCE = auto()
    """Runs a model: takes a slot; repeating it before the first byte does no harm."""
    ABOUT_MODEL = auto()
    """A question about one model: goes to a backend that has it, takes no slot."""
    ADMIN = auto()
    """Changes what a backend stores: not through the router."""
    OTHER = auto()
    """Unknown to this version: an administrator's, unless a setting names it. Then it is passed on, with a slot when it
    names a model, never repeated unless it is a GET."""
    FOREIGN = auto()
    """Not Ollama's."""


_STREAM_BY_DEFAULT = frozenset({"/api/generate", "/api/chat"})
EMBEDDING = frozenset({"/api/embed", "/api/embeddings", "/v1/embeddings"})
INFERENCE = (
    _STREAM_BY_DEFAULT
    | EMBEDDING
    | {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/rerank",
        "/v1/responses",
        "/v1/messages",
        "/v1/images/generations",
        "/v1/images/edits",
    }
)
_ADMIN = frozenset({"/api/pull", "/api/push", "/api/create", "/api/delete", "/api/copy"})
_BLOBS = "/api/blobs/"
MODEL_PREFIX = "/v1/models/"


def kind(path: str) -> Kind:
    """The kind of a decoded path (Ollama's own router compares decoded paths, too)."""
    if path in INFERENCE:
        return Kind.INFERENCE
    if path == "/api/show" or path.startswith(MODEL_PREFIX):
        return Kind.ABOUT_MODEL
    if path in _ADMIN or path.startswith(_BLOBS):
        return Kind.ADMIN
    if path.startswith(("/api/", "/v1/")):
        return Kind.OTHER
    return Kind.FOREIGN


def methods(path: str) -> tuple[str, ...]:
    """The methods of a path that the backends answer, none for one that is not known."""
    if path in INFERENCE or path == "/api/show":
        return ("POST",)
    return ("GET", "HEAD") if path.startswith(MODEL_PREFIX) else ()


def streams(path: str, asked: bool | None) -> bool:
    """Will the answer come in pieces? Ollama streams generate and chat unless asked not to, /v1 only when asked to."""
    return asked is not False if path in _STREAM_BY_DEFAULT else bool(asked)
