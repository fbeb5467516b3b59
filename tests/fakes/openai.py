"""A server that speaks OpenAI's API alone, as vLLM does: for backends of engine OpenAI. Errors have vLLM's shapes.

async with openai.running(models=["m"]) as fake:
    fake.failure = openai.loading()      # what the next inferences are answered with
    fake.hold()                          # inferences wait after their head was read, until fake.go()

Source: vLLM's `entrypoints/openai` (ErrorResponse, /health, `stream_options.include_usage`), llama.cpp's "Loading
model", llama-cpp-python's server for X-Request-Id.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests import httpserver

Failure = tuple[int, Mapping[str, Any]]
WORDS = ("one ", "two ", "three ")


def error(status: int, message: str, kind: str) -> Failure:
    """An error in vLLM's shape."""
    return status, {"error": {"message": message, "type": kind, "param": None, "code": status}}


def loading() -> Failure:
    """What llama.cpp's server says while it loads its model."""
    return error(503, "Loading model", "unavailable_error")


class Server:
    """`models` are ids as they are listed and asked for; `token` is wanted when it is set; `health` is the status of
    /health; `paths` are those that run a model, others are unknown."""

    def __init__(self, models: Iterable[str]) -> None:
        self.models = list(models)
        self.token = ""
        self.health = 200
        self.failure: Failure | None = None
        self.window = 4096
        """Words of a text that is embedded, which stand for tokens."""
        self.paths = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings"}
        self.requests: list[tuple[str, bytes]] = []
        """(path, body) of every inference."""
        self.hung_up = 0
        self.url = ""
        self._open = asyncio.Event()
        self._open.set()

    def hold(self) -> None:
        """Let inferences wait."""
        self._open.clear()

    def go(self) -> None:
        """And go on."""
        self._open.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Every path."""
        if request.path == "/health":
            return web.Response(status=self.health)
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            return _json(error(401, "Unauthorized", "AuthenticationError"))
        if request.path == "/v1/models" and request.method == "GET":
            data = [{"id": name, "object": "model", "created": 1, "owned_by": "vllm", "max_model_len": self.window}
                    for name in self.models]  # fmt: skip
            return _json((200, {"object": "list", "data": data}))
        if request.path not in self.paths or request.method != "POST":
            return _json((404, {"detail": "Not Found"}))
        body = await request.read()
        try:  # as llama-cpp-python's server, by starlette-context
            uuid.UUID(request.headers.get("X-Request-Id") or uuid.uuid4().hex)
        except ValueError:
            return web.Response(status=400)
        self.requests.append((request.path, body))
        try:
            await self._open.wait()
        except asyncio.CancelledError:
            self.hung_up += 1
            raise
        asked = json.loads(body)
        if self.failure is not None:
            return _json(self.failure)
        if asked["model"] not in self.models:
            return _json(error(404, f"The model `{asked['model']}` does not exist.", "NotFoundError"))
        if request.path == "/v1/rerank":
            judged = [{"index": at, "relevance_score": float(len(text))} for at, text in enumerate(asked["documents"])]
            return _json((200, {"model": asked["model"], "results": judged, "usage": _usage(0)}))
        if request.path == "/v1/embeddings":
            texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
            if max(len(text.split()) for text in texts) > self.window:
                said = f"This model's maximum context length is {self.window} tokens. However, you requested more."
                return _json(error(400, said, "BadRequestError"))
            # OpenAI promises an index, and no order.
            data = [{"object": "embedding", "index": at, "embedding": [float(len(text)), 1.0]}
                    for at, text in reversed(list(enumerate(texts)))]  # fmt: skip
            return _json((200, {"object": "list", "data": data, "model": asked["model"], "usage": _usage(0)}))
        return await self._stream(request, asked) if asked.get("stream") else _json((200, _whole(asked)))

    async def _stream(self, request: web.Request, asked: Mapping[str, Any]) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        for word in WORDS:
            await _event(answer, _chunk(asked, [{"index": 0, "delta": {"content": word}, "finish_reason": None}]))
        if (asked.get("stream_options") or {}).get("include_usage"):
            await _event(answer, {**_chunk(asked, []), "usage": _usage(len(WORDS))})
        await answer.write(b"data: [DONE]\n\n")
        return answer


@asynccontextmanager
async def running(models: Iterable[str] = ("m",), port: int = 0) -> AsyncIterator[Server]:
    """A server on loopback for the length of the block."""
    fake = Server(models)
    async with httpserver.serving(fake.handle, port=port, handler_cancellation=True) as fake.url:
        try:
            yield fake
        finally:
            fake.go()


def _json(said: Failure) -> web.Response:
    return web.json_response(said[1], status=said[0])


def _usage(tokens: int) -> dict[str, Any]:
    return {"prompt_tokens": 5, "total_tokens": 5 + tokens, "completion_tokens": tokens, "prompt_tokens_details": None}


def _chunk(asked: Mapping[str, Any], choices: list[Any]) -> dict[str, Any]:
    return {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"],
            "choices": choices}  # fmt: skip


def _whole(asked: Mapping[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(WORDS)}
    choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
    return {**_chunk(asked, choices), "object": "chat.completion", "usage": _usage(len(WORDS))}


async def _event(answer: web.StreamResponse, document: Mapping[str, Any]) -> None:
    await answer.write(b"data: " + json.dumps(document).encode() + b"\n\n")
