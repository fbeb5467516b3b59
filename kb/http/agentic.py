"""Questions to the decision agent over HTTP: events as they happen, one JSON object on a line each."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator

from aiohttp import web

from crds import priority
from kb import api, errors
from kb.agent import running, store
from kb.http import access, body, openapi

_LINES = "application/x-ndjson"
_LOOK = 0.25
"""Seconds between two looks whether the reader is still there, while there is nothing to send."""
_STREAM = re.compile(r"[0-9a-f]{32}")


class Agentic:
    """The routes of a process that reads."""

    def __init__(self, questions: running.Questions) -> None:
        self._questions = questions

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(ASK, self.ask), (RESUME, self.resume)]

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """POST /api/v1/agentic_search"""
        asked = await body.read(request, api.AgenticSearch)
        urgency = body.urgency(request)
        if urgency is None:
            # A person waits, as for `jervis-kb ask` and the tools at /mcp.
            urgency = access.capped(request, priority.Priority.P1) or priority.Priority.P1
        found = await self._questions.ask(asked, urgency)
        try:
            return await _sent(request, found.follow())
        finally:
            self._questions.leave(found, asked.resume_seconds)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        """GET /api/v1/agentic_search/{stream}"""
        viewer, stream = body.owner(request), request.match_info["stream"]
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise errors.Invalid(f"after={after[:50]!r} is no number", field="after", remedy="Give the id of an event.")
        if not _STREAM.fullmatch(stream):
            raise errors.NotFound(
                "there is no such stream in this scope", field="stream", remedy="Use the stream of a first event."
            )
        return await _sent(request, self._questions.resume(viewer, stream, int(after)))


async def _sent(request: web.Request, events: AsyncIterator[api.AgentEvent]) -> web.StreamResponse:
    """The lines, until the last one or until the reader has hung up."""
    response = web.StreamResponse(headers={"Content-Type": _LINES, "Cache-Control": "no-store"})
    coming = asyncio.ensure_future(_next(events))
    try:
        # The first one before the status goes out, so that what cannot succeed is an error and not a line.
        event = await coming
        await response.prepare(request)
        while event is not None:
            await response.write(store.line(event).encode() + b"\n")
            coming = asyncio.ensure_future(_next(events))
            while not (await asyncio.wait({coming}, timeout=_LOOK))[0]:
                if request.transport is None or request.transport.is_closing():
                    return response
            event = await coming
        await response.write_eof()
    except ConnectionError:
        # The reader has hung up; who calls this ends the question.
        pass
    finally:
        coming.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await coming
    return response


async def _next(events: AsyncIterator[api.AgentEvent]) -> api.AgentEvent | None:
    return await anext(events, None)


ASK = openapi.Route(
    "POST",
    "/api/v1/agentic_search",
    "An answer by the decision agent, event by event (application/x-ndjson)",
    body=api.AgenticSearch,
    reply=api.AgentEvent,
)
RESUME = openapi.Route(
    "GET",
    "/api/v1/agentic_search/{stream}",
    "The events of such an answer after one of them, and those that come (application/x-ndjson)",
    reply=api.AgentEvent,
    query=openapi.SCOPE,
    optional=("after",),
)
