"""Ad-hoc queries of Joern over HTTP: asked by a caller, claimed by the operator, answered by the Job's own token."""

from __future__ import annotations

from aiohttp import web

from codegraph import api, routes
from crds import scope
from kb import errors
from kb.code import joern_queries
from kb.service.http import access, answering, body, openapi


class Analyze:
    """The routes of a process that writes. A query is a program: where it is not `allowed`, none is taken."""

    def __init__(self, rows: joern_queries.Queries, *, allowed: bool) -> None:
        self._rows, self._allowed = rows, allowed

    def routes(self) -> list[openapi.Served]:
        """Each route with its handler."""
        return [
            (routes.QUERY_ASK, self.ask),
            (routes.QUERY_SHOW, self.show),
            (routes.QUERY_CLAIM, self.claim),
            (routes.QUERY_MADE, self.made),
            (routes.QUERY_END, self.end),
        ]

    async def ask(self, request: web.Request) -> web.Response:
        """POST /api/v1/analyze/code"""
        asked = await body.read(request, api.CodeQuery)
        if not self._allowed:
            raise errors.Forbidden(
                "this knowledge base takes no ad-hoc queries",
                field="query",
                remedy="Set joern.enabled and joern.adHocQueries of the chart (JERVIS_KB_CODE_QUERIES).",
            )
        if asked.scope.is_global:
            raise errors.Invalid(
                "a repository belongs to a client", field="scope.clientId", remedy="Name the client of the Connection."
            )
        return answering.json(await self._rows.add(asked), 202)

    async def show(self, request: web.Request) -> web.Response:
        """GET /api/v1/analyze/code/{id}"""
        where, id_ = body.owner(request), request.match_info["id"]
        owner, found = await self._rows.find(id_)
        if owner != where:
            raise joern_queries.missing(id_)
        return answering.json(found)

    async def claim(self, request: web.Request) -> web.Response:
        """POST /api/v1/analyze/code/claims"""
        asked = await body.read(request, api.QueryClaim)
        access.check(request, scope.Scope(client_id=""))
        running = await self._rows.claim(asked.most if self._allowed else 0)
        return answering.json(api.QueryClaims(queries=running))

    async def made(self, request: web.Request) -> web.Response:
        """POST /api/v1/analyze/code/{id}/job"""
        asked, id_ = await body.read(request, api.QueryMade), request.match_info["id"]
        access.check(request, scope.Scope(client_id=""))
        await self._rows.made(id_, asked.job_uid)
        return answering.json((await self._rows.find(id_))[1])

    async def end(self, request: web.Request) -> web.Response:
        """POST /api/v1/analyze/code/{id}/result"""
        found, id_ = await body.read(request, api.QueryResult), request.match_info["id"]
        claims = access.run(request)
        if claims is not None and claims.task_uid != id_:
            # Another query's, or one that analyzes for a task.
            raise joern_queries.missing(id_)
        owner, _ = await self._rows.find(id_)
        access.check(request, owner)
        return answering.json(await self._rows.end(id_, found))
