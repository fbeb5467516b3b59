"""Questions about code over HTTP."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from codegraph import api
from contracts import http_routes
from contracts.api import message
from kb.code import history, service
from kb.service.http import answering, body, openapi


class Code:
    """The routes of a process that reads."""

    def __init__(self, asks: service.Questions, histories: history.History) -> None:
        self._asks, self._histories = asks, histories

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (CALLERS, self.callers),
            (CALLEES, self.callees),
            (IMPACT, self.impact),
            (PATH, self.path),
            (WHERE, self.where),
            (MAP, self.map),
            (HISTORY, self.history),
            (NEIGHBOURHOOD, self.neighbourhood),
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


def _route(
    kind: str, summary: str, asked: type[api.CodeQuestion], reply: type[message.Reply]
) -> http_routes.Route[Any]:
    """A question that is sent as a body; a run asks it, and principals see what they may."""
    callers = frozenset({http_routes.Caller.RUN})
    path = f"/api/v1/code/{kind}"
    return http_routes.Route(
        "POST", path, summary, body=asked, reply=reply, asks=True, principals=True, callers=callers
    )


CALLERS = _route("callers", "Who calls a function, method or class", api.Callers, api.CallsReply)
CALLEES = _route("callees", "What a function or method calls", api.Callers, api.CallsReply)
IMPACT = _route(
    "impact", "What may break when a declaration changes, and the tests to run", api.Impact, api.ImpactReply
)
PATH = _route("path", "The shortest way by calls from one declaration to another", api.CodePath, api.PathReply)
WHERE = _route("where", "Files and functions that the text of an issue is about", api.CodeWhere, api.WhereReply)
MAP = _route("map", "An outline of a repository within a number of tokens", api.CodeMap, api.MapReply)
HISTORY = _route("history", "Which commits changed a declaration or a file", api.CodeHistory, api.HistoryReply)
NEIGHBOURHOOD = _route(
    "neighbourhood",
    "The callers and callees of a declaration, one or two steps away",
    api.CodeNeighbourhood,
    api.NeighbourhoodReply,
)
