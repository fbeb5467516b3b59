"""Questions about code over HTTP."""

from __future__ import annotations

from aiohttp import web

from codegraph import api, routes
from kb.code import history, service
from kb.service.http import answering, body, openapi


class Code:
    """The routes of a process that reads."""

    def __init__(self, asks: service.Questions, histories: history.History) -> None:
        self._asks, self._histories = asks, histories

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.CALLERS, self.callers),
            (routes.CALLEES, self.callees),
            (routes.IMPACT, self.impact),
            (routes.PATH, self.path),
            (routes.WHERE, self.where),
            (routes.MAP, self.map),
            (routes.HISTORY, self.history),
            (routes.NEIGHBOURHOOD, self.neighbourhood),
        ]

    async def callers(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/callers"""
        return await self._answer(request, "callers", api.Callers)

    async def callees(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/callees"""
        return await self._answer(request, "callees", api.Callers)

    async def impact(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/impact"""
        return await self._answer(request, "impact", api.Impact)

    async def path(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/path"""
        return await self._answer(request, "path", api.CodePath)

    async def where(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/where"""
        return await self._answer(request, "where", api.CodeWhere)

    async def map(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/map"""
        return await self._answer(request, "map", api.CodeMap)

    async def history(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/history"""
        return answering.json(await self._histories.ask(await body.read(request, api.CodeHistory)))

    async def neighbourhood(self, request: web.Request) -> web.Response:
        """POST /api/v1/code/neighbourhood"""
        return await self._answer(request, "neighbourhood", api.CodeNeighbourhood)

    async def _answer(self, request: web.Request, kind: str, model: type[api.CodeQuestion]) -> web.Response:
        asked = await body.read(request, model)
        return web.Response(text=await self._asks.ask(kind, asked), content_type="application/json")
