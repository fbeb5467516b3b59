"""Stands between the knowledge base and its models, passes every byte on and records each call.

Chats go to `chats`, everything else (embeddings) to `rest`: a real model answers prompts while the simulator, which
runs a real embedding model, embeds. A connection that breaks on one side is broken on the other.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

_TAG = re.compile(r"\[prompt:\s*([A-Za-z0-9_.\-]+/v\d+)\s*\]")
_TITLE = re.compile(r"^Title: (.*)$", re.MULTILINE)
CHATS = ("/api/chat", "/api/generate")
_CHARS_PER_TOKEN = 4


@dataclass
class Call:
    """One call to a model. Tokens are the backend's counts, or a quarter of the characters where it counts none
    (`counted` is false). `whole`: it was answered to its end, with JSON. `shape` is the schema that was sent."""

    path: str
    model: str
    tag: str
    title: str
    prompt: str
    digest: str
    status: int = 0
    seconds: float = 0.0
    prompt_tokens: int = 0
    answer_tokens: int = 0
    counted: bool = False
    whole: bool = False
    shape: Any = None
    answer: str = ""


@dataclass
class Spy:
    """`url` is what the knowledge base takes for its router; `calls` are those that have ended."""

    url: str
    calls: list[Call] = field(default_factory=list)

    def chats(self) -> list[Call]:
        """Calls that are no embeddings."""
        return [call for call in self.calls if call.path in CHATS]


@asynccontextmanager
async def between(chats: str, rest: str, port: int = 0) -> AsyncIterator[Spy]:
    """Listens on loopback until the block ends."""
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        spy = Spy("")

        async def handle(request: web.Request) -> web.StreamResponse:
            return await _pass(spy, session, chats if request.path in CHATS else rest, request)

        app = web.Application(client_max_size=64 << 20)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        spy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield spy
        finally:
            await runner.cleanup()


async def _pass(spy: Spy, session: aiohttp.ClientSession, base: str, request: web.Request) -> web.StreamResponse:
    body = await request.read()
    call = described(request.path, body)
    started = time.perf_counter()
    headers = {
        name: value
        for name, value in request.headers.items()
        if name.lower() not in ("host", "content-length", "connection", "accept-encoding")
    }
    said = bytearray()
    try:
        async with session.request(request.method, base + request.path_qs, data=body, headers=headers) as answer:
            call.status = answer.status
            response = web.StreamResponse(status=answer.status)
            for name in ("Content-Type", "Retry-After"):
                if name in answer.headers:
                    response.headers[name] = answer.headers[name]
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                said += piece
                await response.write(piece)
            await response.write_eof()
    except aiohttp.ClientError:
        # The backend hung up: the caller must see that, and not an end.
        if request.transport is not None:
            request.transport.abort()
        response = web.StreamResponse()
    finally:
        call.seconds = time.perf_counter() - started
        read(call, bytes(said))
        spy.calls.append(call)
    return response


def described(path: str, body: bytes) -> Call:
    """A call by what was asked."""
    try:
        asked = json.loads(body) if body else {}
    except ValueError:
        asked = {}
    turns = asked.get("messages") if isinstance(asked, dict) else None
    texts = [str(turn.get("content", "")) for turn in turns or [] if isinstance(turn, dict)]
    tag, title = _TAG.search(texts[0] if texts else ""), _TITLE.search(texts[1] if len(texts) > 1 else "")
    digest = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    model = str(asked.get("model", "")) if isinstance(asked, dict) else ""
    shape = asked.get("format") if isinstance(asked, dict) else None
    prompt = "\n".join(texts)
    return Call(path, model, tag[1] if tag else "", title[1] if title else "", prompt, digest, shape=shape)


def read(call: Call, said: bytes) -> None:
    """Fill in tokens, and whether the answer is whole, from what was answered."""
    if call.path not in CHATS:
        return
    pieces: list[str] = []
    last: dict[str, Any] = {}
    for line in said.splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict):
            last = record
            message = record.get("message")
            pieces.append(str(message.get("content") or "") if isinstance(message, dict) else "")
    text = call.answer = "".join(pieces)
    if call.status == 200 and last.get("done"):
        try:
            call.whole = isinstance(json.loads(text), dict)
        except ValueError:
            call.whole = False
    prompted, answered = last.get("prompt_eval_count"), last.get("eval_count")
    call.counted = isinstance(prompted, int) and isinstance(answered, int)
    call.prompt_tokens = prompted if isinstance(prompted, int) else -(-len(call.prompt) // _CHARS_PER_TOKEN)
    call.answer_tokens = answered if isinstance(answered, int) else -(-len(text) // _CHARS_PER_TOKEN)
