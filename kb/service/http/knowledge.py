"""Ingest, retrieve and forget over HTTP."""

from __future__ import annotations

import pydantic
from aiohttp import web

from contracts import problems
from crds import errors as root
from crds import priority
from kb import api, errors, identity
from kb.ingest import lanes, observers, pipeline
from kb.retrieve import search
from kb.service.http import access, body, observing, openapi
from text import json_lines


class Writing:
    """The routes of a process that writes; `readers` are the lanes of writers that wait for models."""

    def __init__(
        self,
        pipe: pipeline.Pipeline,
        writers: lanes.Lanes,
        readers: lanes.Lanes | None = None,
        known: observers.Observers | None = None,
    ) -> None:
        self._pipeline = pipe
        self._observers = known
        self._lanes = writers
        self._readers = readers or writers

    async def ingest(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/full"""
        urgency = body.urgency(request)
        document = await body.read(request, api.IngestRequest)
        access.concerns(request, identity.document(document.scope, document.source_urn))
        async with self._readers.enter(urgency, document.scope.client_id):
            if request.transport is None or request.transport.is_closing():
                # Nothing was recorded: its caller sends it again, or its task is gone. Others wait for the slot.
                raise root.Operational("the caller has hung up while it waited for a slot")
            reply = await self._pipeline.ingest(document, _or_background(urgency))
        return _json(reply)

    async def forget(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/documents?sourceUrn=...&clientId=..."""
        owner = body.owner(request)
        source_urn = request.query.get("sourceUrn", "")
        if not source_urn:
            raise errors.Invalid("sourceUrn is missing", field="sourceUrn", remedy="Add sourceUrn to the query.")
        access.concerns(request, identity.document(owner, source_urn))
        based = observing.based(self._observers, request, owner)
        async with self._lanes.enter(body.urgency(request), owner.client_id), based:
            known = await self._pipeline.forget(owner, source_urn)
        if not known:
            raise errors.NotFound(
                f"no document {source_urn!r} in this scope",
                field="sourceUrn",
                remedy="Use the sourceUrn and the scope that the document was ingested with.",
            )
        return web.Response(status=204)


class Reading:
    """The routes of a process that reads."""

    def __init__(self, finder: search.Search) -> None:
        self._search = finder

    async def retrieve(self, request: web.Request) -> web.StreamResponse:
        """POST /api/v1/retrieve; in lines, stage by stage, where the caller accepts application/x-ndjson."""
        question = await body.read(request, api.RetrieveRequest)
        urgency = _or_background(body.urgency(request))
        if not problems.accepts(request, openapi.LINES, by_name=True):
            return _json(await self._search.retrieve(question, urgency))
        events = self._search.stream(question, urgency)
        # The first stage answers before the status goes out, so that what cannot succeed is an error and not a line.
        first = await anext(events)
        response = web.StreamResponse(headers={"Content-Type": openapi.LINES, "Cache-Control": "no-store"})
        await response.prepare(request)
        await response.write(_line(first))
        async for event in events:
            await response.write(_line(event))
        await response.write_eof()
        return response


def _or_background(urgency: priority.Priority | None) -> priority.Priority:
    return priority.Priority.P3 if urgency is None else urgency


def _line(event: api.RetrieveEvent) -> bytes:
    return json_lines.line(event.model_dump_json(by_alias=True, exclude_none=True))


def _json(reply: pydantic.BaseModel, status: int = 200) -> web.Response:
    return web.Response(status=status, text=reply.model_dump_json(by_alias=True), content_type="application/json")
