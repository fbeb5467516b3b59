"""Erasing a whole scope over HTTP."""

from __future__ import annotations

from aiohttp import web

from kb import writing
from kb.erasure import book, eraser
from kb.http import access, answering, body, openapi


class Erasing:
    """The routes of a process that writes."""

    def __init__(self, works: eraser.Eraser, records: book.Book) -> None:
        self._eraser = works
        self._book = records

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(ERASE, self.erase), (LIST, self.list)]

    async def erase(self, request: web.Request) -> web.Response:
        """POST /api/v1/erasures"""
        asked = await body.read(request, writing.ErasureDraft)
        return answering.json(await self._eraser.ask(asked.scope, asked.by), 202)

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/erasures?clientId=..."""
        return answering.json(writing.Erasures(erasures=await self._book.listed(body.owner(request))))


ERASE = openapi.Route(
    "POST",
    access.ERASURES,
    "Forget all that a client, a project or a group owns",
    status=202,
    body=writing.ErasureDraft,
    reply=writing.Erasure,
)
LIST = openapi.Route(
    "GET",
    access.ERASURES,
    "Erasures of a scope, and how far they have come",
    reply=writing.Erasures,
    query=openapi.SCOPE,
)
