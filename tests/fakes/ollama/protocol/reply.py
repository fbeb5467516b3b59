"""Response documents of generations and embeddings, in Ollama's and in OpenAI's shapes."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

Calls = Sequence[Mapping[str, Any]]
"""Calls of tools, each {name, arguments}."""
SERVER = "Ollama-simulator"
_DIGITS_OF_MICROSECONDS = 6


@dataclass(frozen=True)
class Figures:
    """What a finished generation cost: seconds and tokens. `reason` is stop, length, load or unload, and "" for an
    answer that has no end."""

    reason: str
    total: float = 0.0
    load: float = 0.0
    prompt_tokens: int = 0
    prompt: float = 0.0
    tokens: int = 0
    generation: float = 0.0

    def native(self) -> dict[str, int]:
        """Ollama's counters: nanoseconds, zero ones left out."""
        counters = {
            "total_duration": int(self.total * 1e9),
            "load_duration": int(self.load * 1e9),
            "prompt_eval_count": self.prompt_tokens,
            "prompt_eval_duration": int(self.prompt * 1e9),
            "eval_count": self.tokens,
            "eval_duration": int(self.generation * 1e9),
        }
        return {name: value for name, value in counters.items() if value}

    def openai(self) -> dict[str, int]:
        """OpenAI's `usage`."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self.prompt_tokens + self.tokens,
        }


def stamp(now: datetime) -> str:
    """RFC 3339 in UTC with nine digits, as Go writes it."""
    utc = now.astimezone(UTC)
    return utc.strftime("%Y-%m-%dT%H:%M:%S.") + f"{utc.microsecond:0{_DIGITS_OF_MICROSECONDS}d}000Z"


def encode(document: object) -> bytes:
    """Compact UTF-8 JSON; arrays of numpy are allowed."""
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def line(document: object) -> bytes:
    """One line of NDJSON."""
    return encode(document) + b"\n"


@dataclass(frozen=True)
class Native:
    """/api/generate (`chat` false) and /api/chat (`chat` true)."""

    model: str
    chat: bool
    content_type: str = "application/x-ndjson"

    def piece(self, text: str, now: datetime) -> bytes:
        return line({"model": self.model, "created_at": stamp(now), **self._text(text), "done": False})

    def thought(self, text: str, now: datetime) -> bytes:
        said = self._text("")
        where = said["message"] if self.chat else said
        where["thinking"] = text
        return line({"model": self.model, "created_at": stamp(now), **said, "done": False})

    def calls(self, calls: Calls, now: datetime) -> bytes:
        return line({"model": self.model, "created_at": stamp(now), **self._text("", calls), "done": False})

    def last(self, figures: Figures, now: datetime) -> bytes:
        return line(self.whole("", figures, now))

    def whole(self, text: str, figures: Figures, now: datetime, calls: Calls = ()) -> dict[str, Any]:
        head = {"model": self.model, "created_at": stamp(now), **self._text(text, calls)}
        if not figures.reason:
            return head | {"done": False}
        return head | {"done": True, "done_reason": figures.reason} | figures.native()

    def broken(self, message: str, now: datetime) -> bytes:
        return line({"error": message})

    def _text(self, text: str, calls: Calls = ()) -> dict[str, Any]:
        made = {"tool_calls": [{"function": dict(one)} for one in calls]} if calls else {}
        return {"message": {"role": "assistant", "content": text, **made}} if self.chat else {"response": text}


@dataclass(frozen=True)
class OpenAI:
    """/v1/completions (`chat` false) and /v1/chat/completions (`chat` true)."""

    model: str
    chat: bool
    id: str
    include_usage: bool = False
    content_type: str = "text/event-stream"

    def piece(self, text: str, now: datetime) -> bytes:
        return _frame(self._chunk(text, None, now))

    def thought(self, text: str, now: datetime) -> bytes:
        raise NotImplementedError("the simulator thinks over Ollama's own API alone")

    def calls(self, calls: Calls, now: datetime) -> bytes:
        raise NotImplementedError("the simulator calls tools over /api/chat alone")

    def last(self, figures: Figures, now: datetime) -> bytes:
        frames = _frame(self._chunk("", figures.reason, now))
        if self.include_usage:
            frames += _frame(self._chunk("", None, now) | {"choices": [], "usage": figures.openai()})
        return frames + b"data: [DONE]\n\n"

    def whole(self, text: str, figures: Figures, now: datetime, calls: Calls = ()) -> dict[str, Any]:
        said = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **said, "finish_reason": figures.reason or None}
        kind = "chat.completion" if self.chat else "text_completion"
        return self._head(kind, now) | {"choices": [choice], "usage": figures.openai()}

    def broken(self, message: str, now: datetime) -> bytes:
        # Ollama's `middleware/openai.go` reads the error as a record, and the stream ends without `[DONE]`.
        return _frame(self._chunk("", None, now) | {"model": ""})

    def _chunk(self, text: str, reason: str | None, now: datetime) -> dict[str, Any]:
        said = {"delta": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        kind = "chat.completion.chunk" if self.chat else "text_completion"
        return self._head(kind, now) | {"choices": [{"index": 0, **said, "finish_reason": reason}]}

    def _head(self, kind: str, now: datetime) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": kind,
            "created": int(now.timestamp()),
            "model": self.model,
            "system_fingerprint": "fp_ollama",
        }


Shape = Native | OpenAI
"""How one endpoint writes a generation down: `piece` and `thought` are one token of a stream, of the answer or of what
the model thinks before it; `calls` are calls of tools in it, `last` is its end, `broken` an error after its first byte.
`whole` is the answer to `stream: false`, always JSON, whatever `content_type` the stream has."""


def vectors(model: str, values: Vectors, figures: Figures) -> dict[str, Any]:
    """POST /api/embed."""
    if not len(values):
        return {"model": model, "embeddings": []}
    counters = {"total_duration": int(figures.total * 1e9), "load_duration": int(figures.load * 1e9)}
    return {
        "model": model,
        "embeddings": values,
        **counters,
        "prompt_eval_count": figures.prompt_tokens,
    }


def embedding_list(model: str, values: Vectors, figures: Figures, packed: bool) -> dict[str, Any]:
    """POST /v1/embeddings; `packed` writes each vector as base64 of little-endian floats."""
    data = [
        {"object": "embedding", "embedding": _pack(vector) if packed else vector, "index": index}
        for index, vector in enumerate(values)
    ]
    usage = {"prompt_tokens": figures.prompt_tokens, "total_tokens": figures.prompt_tokens}
    return {"object": "list", "data": data, "model": model, "usage": usage}


def _pack(vector: NDArray[np.float32]) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _frame(document: object) -> bytes:
    return b"data: " + encode(document) + b"\n\n"
