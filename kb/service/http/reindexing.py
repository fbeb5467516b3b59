"""How far a new embedding model has come, over HTTP."""

from __future__ import annotations

import structlog
from aiohttp import web

from crds import scope
from kb import api, errors, routes
from kb.reindex import phase
from kb.service.http import access, answering, body, openapi

log = structlog.get_logger(__name__)
# An index holds the data of every scope: only a token for all of them may ask.
_EVERYWHERE = scope.Scope(client_id="")


class Reindexing:
    """The routes of a process that writes."""

    def __init__(self, book: phase.Book) -> None:
        self._book = book

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [(routes.REINDEX_STATUS, self.status), (routes.REINDEX_DROP, self.drop)]

    async def status(self, request: web.Request) -> web.Response:
        """GET /api/v1/reindex"""
        access.check(request, _EVERYWHERE)
        found = await self._book.find()
        return answering.json(api.Reindexes(reindexes=[] if found is None else [found]))

    async def drop(self, request: web.Request) -> web.Response:
        """POST /api/v1/reindex/drop"""
        asked = await body.read(request, api.ReindexDrop)
        access.check(request, _EVERYWHERE)
        found = await self._book.ask_drop()
        if found is None:
            raise errors.NotFound(
                "no reindex has an old index that can be dropped",
                field="state",
                remedy="See GET /api/v1/reindex: it can be dropped in the state Switched.",
            )
        log.warning("the index of the model before is not needed any more", model=found.before, by=asked.by)
        return answering.json(api.Reindexes(reindexes=[found]))
