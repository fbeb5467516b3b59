"""Erasing a whole scope over HTTP."""

from __future__ import annotations

import structlog
from aiohttp import web

from crds import scope
from kb import api, errors, routes
from kb.erasure import book, eraser, places
from kb.service.http import access, answering, body, openapi

log = structlog.get_logger(__name__)
# Places hold text of every scope: only a token for all of them may ask for these.
_EVERYWHERE = scope.Scope(client_id="")


class Erasing:
    """The routes of a process that writes."""

    def __init__(self, works: eraser.Eraser, records: book.Book, registry: places.Places) -> None:
        self._eraser = works
        self._book = records
        self._places = registry

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.ERASURES_ASK, self.erase),
            (routes.ERASURES_LIST, self.list),
            (routes.ERASURES_PLACES, self.places),
            (routes.ERASURES_FORGET, self.forget),
        ]

    async def erase(self, request: web.Request) -> web.Response:
        """POST /api/v1/erasures"""
        asked = await body.read(request, api.ErasureDraft)
        return answering.json(await self._eraser.ask(asked.scope, asked.by), 202)

    async def list(self, request: web.Request) -> web.Response:
        """GET /api/v1/erasures?clientId=..."""
        return answering.json(api.Erasures(erasures=await self._book.listed(body.owner(request))))

    async def places(self, request: web.Request) -> web.Response:
        """GET /api/v1/erasures/places"""
        access.check(request, _EVERYWHERE)
        return answering.json(api.Places(places=list(await self._places.listed())))

    async def forget(self, request: web.Request) -> web.Response:
        """POST /api/v1/erasures/places/forget"""
        asked = await body.read(request, api.PlaceDraft)
        access.check(request, _EVERYWHERE)
        if not await self._places.forget(asked.id):
            raise errors.NotFound(
                f"no place has the id {asked.id!r}",
                field="id",
                remedy="See GET /api/v1/erasures/places for the places and their ids.",
            )
        log.warning("a place is taken for lost", place=asked.id, by=asked.by)
        return answering.json(api.Places(places=list(await self._places.listed())))
