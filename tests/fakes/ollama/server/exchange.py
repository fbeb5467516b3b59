"""The frame around every request: journal entry, body, fault, and how each way of ending is written down."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from tests.fakes.ollama import catalogue, faults
from tests.fakes.ollama.protocol import errors, reply
from tests.fakes.ollama.protocol import request as wanted
from tests.fakes.ollama.rules import prompt
from tests.fakes.ollama.runner import engine
from tests.fakes.ollama.server import journal, service, wire

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
ADMIN = "/simulator/"


@dataclass
class Exchange:
    """One request on its way: who asks, the raw body, the way back, and the notes about it."""

    asked: web.Request
    raw: bytes
    wire: wire.Wire
    entry: journal.Entry
    service: service.Service

    def body(self) -> wanted.Body:
        """The JSON object that was sent. Raises Refusal 400."""
        return wanted.parse(self.raw, openai=self.entry.path.startswith("/v1/"))

    @property
    def crash(self) -> faults.Crash | None:
        """What ends the runner of this request, if anything does."""
        return self.wire.fault.crash if self.wire.fault is not None else None

    @asynccontextmanager
    async def slot(
        self, model: catalogue.Model, num_ctx: int, keep_alive: float | None = None, *, load_only: bool = False
    ) -> AsyncIterator[engine.Slot]:
        """A slot of the model for the length of the block. Raises Refusal where there will be none, and Gone when the
        runner ends meanwhile."""
        fails = self.crash is not None and self.crash.loading
        try:
            slot = self.service.engine.slot(model, num_ctx, keep_alive, load_only=load_only, fails=fails)
            async with slot as held:
                self.service.journal.grant(self.entry)
                yield held
        except engine.Busy as busy:
            raise errors.Refusal(503, str(busy)) from busy
        except engine.NotLoaded as failure:
            raise errors.Refusal(500, faults.KILLED) from failure


KEY: web.RequestKey[Exchange] = web.RequestKey("exchange", Exchange)


@web.middleware
async def frame(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Run the handler and account for its end. The `/simulator/` interface is neither journalled nor hit by faults."""
    if request.path.startswith(ADMIN):
        try:
            return await handler(request)
        except ValueError as error:  # of what a test wants
            return web.json_response({"error": str(error)}, status=400)
    owner = request.app[service.KEY]
    headers = {name: ", ".join(request.headers.getall(name)) for name in request.headers}
    priority = request.headers.get(journal.PRIORITY_HEADER)
    entry = owner.journal.open(reply.stamp(owner.now()), request.method, request.path, headers, priority)
    way = wire.Wire(request, entry, owner.gates)
    outcome = "broken"
    try:
        response = await _answer(request, handler, owner, entry, way)
        outcome = "finished" if response.status < 400 else "refused"
        return response
    except errors.Refusal as refusal:
        outcome = "refused"
        way.fault = None  # the refusal itself always arrives whole
        return await _refuse(way, refusal)
    except wire.Cut as cut:
        entry.fault = str(cut)
        return way.response or web.Response()
    except (asyncio.CancelledError, ConnectionError):
        # aiohttp cancels the handler when the client hangs up; a write may notice it first.
        outcome = "cancelled"
        raise
    finally:
        owner.journal.close(entry, outcome)


async def _answer(
    asked: web.Request, handler: Handler, owner: service.Service, entry: journal.Entry, way: wire.Wire
) -> web.StreamResponse:
    raw = await asked.read() if asked.can_read_body else b""
    document = _peek(raw)
    if document is not None:
        model = document.get("model") or document.get("name")
        owner.journal.describe(
            entry, model if isinstance(model, str) else "", prompt.find_tag(document), document, len(raw)
        )
    way.fault = owner.plan.choose(entry.path, entry.model, entry.tag, entry.priority, raw)
    await way.begin()
    asked[KEY] = Exchange(asked, raw, way, entry, owner)
    try:
        return await handler(asked)
    except web.HTTPNotFound:
        entry.status = 404
        return _plain(404, "404 page not found")
    except web.HTTPMethodNotAllowed as refused:
        entry.status = 405
        return _plain(405, "405 method not allowed", Allow=", ".join(sorted(refused.allowed_methods)))


def _plain(status: int, text: str, **headers: str) -> web.Response:
    """An answer of Ollama's router, which names no character set."""
    shown = {"Server": reply.SERVER, "Content-Type": "text/plain", **headers}
    return web.Response(status=status, body=text.encode(), headers=shown)


async def _refuse(way: wire.Wire, refusal: errors.Refusal) -> web.StreamResponse:
    headers = {} if refusal.retry_after is None else {"Retry-After": str(refusal.retry_after)}
    path = way.entry.path
    return await way.whole(refusal.body(path), refusal.status, headers, refusal.media(path))


def _peek(raw: bytes) -> dict[str, Any] | None:
    """The body for the journal and the faults; what is wrong with it is told by the handler that needs it."""
    try:
        document = json.loads(raw)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
