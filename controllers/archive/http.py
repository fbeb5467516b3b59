"""`/api/v1/history` on the operator's port: finished tasks as the archive knows them.

Reads only, so any replica answers.

GET /api/v1/history?namespace=&client=&phase=&limit=&before=    a page
GET /api/v1/history/{uid}                                       one task with its object and its result
GET /openapi.json                                               both, described
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson
from aiohttp import web

from controllers.archive import mongo, openapi, query, wire
from crds import errors, model

RETRY_SECONDS = 5

Handler = Callable[[web.Request], Awaitable[web.Response]]


class History:
    """Answers from one archive."""

    def __init__(self, archive: mongo.Archive) -> None:
        self._archive = archive
        self._description = orjson.dumps(openapi.document())

    def serve(self, application: web.Application) -> None:
        """Add the three paths."""
        application.router.add_get("/api/v1/history", _answering(self._page))
        application.router.add_get("/api/v1/history/{uid}", _answering(self._one))
        application.router.add_get("/openapi.json", self._describe)

    async def _page(self, request: web.Request) -> web.Response:
        for name in set(request.query):
            if len(request.query.getall(name)) > 1:
                raise query.Unreadable(f"{name} is given more than once", field=name, remedy="Give it once.")
        wanted = query.parse(request.query)
        return _json(wire.page(await self._archive.page(wanted), wanted))

    async def _one(self, request: web.Request) -> web.Response:
        uid = query.uid(request.match_info["uid"])
        found = await self._archive.one(uid)
        if found is None:
            return _failure(404, "not_found", f"no task {uid} was archived")
        return _json(wire.whole(found))

    async def _describe(self, _: web.Request) -> web.Response:
        return web.Response(body=self._description, content_type="application/json")


def _answering(handler: Handler) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        try:
            return await handler(request)
        except query.Unreadable as error:
            return _failure(400, "bad_request", error.message, error.field, error.remedy)
        except errors.Operational as error:
            response = _failure(503, "unavailable", error.message)
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return response

    return answer


def _json(reply: model.Model, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(reply.model_dump(mode="json", by_alias=True)), status=status, content_type="application/json"
    )


def _failure(status: int, code: str, message: str, field: str | None = None, remedy: str | None = None) -> web.Response:
    problem = wire.Problem(code=code, message=message, field=field, remedy=remedy)
    return _json(wire.Failure(error=problem), status)
