"""Links over HTTP: the patterns of a client, and the reading of one link."""

from __future__ import annotations

from aiohttp import web

from kb import api, errors, identity, routes
from kb.links import patterns, reading
from kb.service.http import access, answering, body, buffers, openapi


class Patterns:
    """The routes of every process."""

    def __init__(self, kept: patterns.Patterns) -> None:
        self._patterns = kept

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.LINKS_LIST, self.list), (routes.LINKS_PUT, self.put), (routes.LINKS_DELETE, self.delete)]

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/links/patterns?clientId=..."""
        return answering.json(api.LinkPatterns(patterns=await self._patterns.holding(body.owner(request))))

    async def put(self, request: web.Request) -> web.Response:
        """PUT /api/v1/links/patterns"""
        return answering.json(await self._patterns.put(await body.read(request, api.LinkPatternDraft)))

    async def delete(self, request: web.Request) -> web.Response:
        """DELETE /api/v1/links/patterns?pattern=...&clientId=..."""
        owner, pattern = body.owner(request), answering.text(request, "pattern")
        if not await self._patterns.delete(owner, pattern):
            raise errors.NotFound(
                f"there is no pattern {pattern!r} of exactly this scope",
                field="pattern",
                remedy="See GET /api/v1/links/patterns for the patterns and their scopes.",
            )
        return web.Response(status=204)


class Reading:
    """The route of a process that writes; `width` links are read at once."""

    def __init__(self, reader: reading.Reader, *, width: int = 4) -> None:
        self._reader = reader
        self._slots = buffers.Slots(width=width, waiting=25 * width, purpose="for a link to be read")

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.LINKS_READ, self.read)]

    async def read(self, request: web.Request) -> web.Response:
        """POST /api/v1/ingest/link"""
        asked = await body.read(request, api.LinkRequest)
        access.concerns(request, identity.document(asked.scope, asked.source_urn))
        async with self._slots.enter(asked.scope.client_id):
            return answering.json(await self._reader.read(asked, answering.or_background(body.urgency(request))))
