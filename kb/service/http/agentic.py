"""Questions to the decision agent over HTTP: events as they happen, one JSON object on a line each."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, AsyncIterator

import structlog
from aiohttp import web

from crds import errors as root
from crds import priority
from kb import api, errors, routes
from kb.agent import running, store
from kb.service.http import access, body, openapi
from text import json_lines

log = structlog.get_logger(__name__)
_LOOK = 0.25
"""Seconds between two looks whether the reader is still there, while there is nothing to send."""
_LIFE_SIGN = 15.0
"""Seconds of silence after which a blank line is sent: proxies cut a connection that is silent for a minute."""
_LONGEST_WRITE = 60.0
"""Seconds in which a reader takes a line."""
_STREAM = re.compile(r"[0-9a-f]{32}")


class Agentic:
    """The routes of a process that reads."""

    def __init__(self, questions: running.Questions) -> None:
        self._questions = questions

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.AGENT_ASK, self.ask), (routes.AGENT_RESUME, self.resume), (routes.AGENT_STOP, self.stop)]

    async def ask(self, request: web.Request) -> web.StreamResponse:
        """POST /api/v1/agentic_search"""
        asked = await body.read(request, api.AgenticSearch)
        urgency = body.urgency(request)
        if urgency is None:
            # A person waits, as for `jervis-kb ask` and the tools at /mcp.
            urgency = access.capped(request, priority.Priority.P1) or priority.Priority.P1
        # A run that a person's approval is asked of does not give the answer before it
        # (`orchestrator_job.run.finalize`).
        reviewed = access.of_run(request)
        found = await self._questions.ask(asked, urgency, who=access.who(request), reviewed=reviewed)
        try:
            return await _sent(request, found.follow())
        finally:
            self._questions.leave(found, asked.resume_seconds)

    async def resume(self, request: web.Request) -> web.StreamResponse:
        """GET /api/v1/agentic_search/{stream}"""
        viewer, stream = body.owner(request), _stream(request)
        after = request.query.get("after", "0")
        if not (after.isascii() and after.isdigit() and len(after) < 10):
            raise errors.Invalid(f"after={after[:50]!r} is no number", field="after", remedy="Give the id of an event.")
        return await _sent(request, self._questions.resume(viewer, stream, int(after)))

    async def stop(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/agentic_search/{stream}"""
        await self._questions.stop(body.owner(request), _stream(request))
        return web.Response(status=204)


def _stream(request: web.Request) -> str:
    stream = request.match_info["stream"]
    if not _STREAM.fullmatch(stream):
        raise errors.NotFound(
            "there is no such stream in this scope", field="stream", remedy="Use the stream of a first event."
        )
    return stream


async def _sent(request: web.Request, events: AsyncGenerator[api.AgentEvent, None]) -> web.StreamResponse:
    """The lines, until the last one or until the reader has hung up, with a blank one now and then."""
    response = web.StreamResponse(headers={"Content-Type": openapi.LINES, "Cache-Control": "no-store"})
    coming: asyncio.Future[api.AgentEvent | None] | None = None
    last = 0
    try:
        while True:
            coming = asyncio.ensure_future(_next(events))
            silent = 0.0
            while not (await asyncio.wait({coming}, timeout=_LOOK))[0]:
                if request.transport is None or request.transport.is_closing():
                    return response
                silent += _LOOK
                if silent >= _LIFE_SIGN:
                    await _write(request, response, "")
                    silent = 0.0
            try:
                # The first one before the status goes out, so that what cannot succeed is an error and not a line.
                event = await coming
                line = None if event is None else store.line(event)
            except root.Operational as error:
                if not response.prepared:
                    raise
                # What is read again goes on without this reader, who comes back to it and finds here what is away.
                raise ConnectionAbortedError(error.message) from error
            except Exception as error:
                if not response.prepared:
                    raise
                for one in _failure(error, last):
                    await _write(request, response, store.line(one))
                break
            if event is None or line is None:
                break
            await _write(request, response, line)
            last = event.id
        await response.write_eof()
    except (ConnectionError, TimeoutError):
        # The reader has hung up, or takes nothing any more; who calls this ends the question.
        if request.transport is not None:
            request.transport.abort()
    finally:
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await coming
        await events.aclose()
    return response


async def _write(request: web.Request, response: web.StreamResponse, line: str) -> None:
    async with asyncio.timeout(_LONGEST_WRITE):
        if not response.prepared:
            await response.prepare(request)
        await response.write(json_lines.line(line))


def _failure(error: Exception, last: int) -> list[api.AgentEvent]:
    """The last events of an answer whose status went out before."""
    if isinstance(error, root.JervisError):
        why = error.message
    else:
        log.error("an answer ended with an error that was not foreseen", exc_info=error)
        why = "This service has made an error."
    return [
        api.AgentEvent(id=last + 1, type="error", message=why, recoverable=False, suggestion="Ask again."),
        api.AgentEvent(id=last + 2, type="complete", outcome="failed", reason=why),
    ]


async def _next(events: AsyncIterator[api.AgentEvent]) -> api.AgentEvent | None:
    return await anext(events, None)
