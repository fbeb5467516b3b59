"""What a request is based on, by its header, and the route by which a new observation begins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from crds import scope
from kb import api, routes
from kb.ingest import observers
from kb.service.http import body, openapi


class Observing:
    """The route of a process that writes."""

    def __init__(self, known: observers.Observers) -> None:
        self._known = known

    def routes(self) -> list[openapi.Served]:
        """The route with its handler."""
        return [(routes.OBSERVE, self.observe)]

    async def observe(self, request: web.Request) -> web.Response:
        """POST /api/v1/observations"""
        sent = await body.read(request, api.Observed)
        async with self._known.based(sent.scope, sent.observation):
            return web.Response(status=204)


@asynccontextmanager
async def based(known: observers.Observers | None, request: web.Request, owner: scope.Scope) -> AsyncIterator[None]:
    """While a request is done that may name an observation in its header; `known` None: of which none counts. Raises
    `kb.errors.Invalid`, and what `Observers.based` raises."""
    said = request.headers.get(api.OBSERVATION)
    if known is None or said is None:
        yield
        return
    number, _, observer = said.partition(" ")
    on = body.validate({"observer": observer, "number": number}, api.Observation)
    async with known.based(owner, on):
        yield
