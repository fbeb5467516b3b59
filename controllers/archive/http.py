"""`/api/v1/history` on a port of its own: finished tasks as the archive knows them, to whoever shows a ticket.

Reads only, so any replica answers. A ticket opens one namespace; what is outside of it does not exist.

GET /api/v1/history?client=&phase=&name=&limit=&since=&before=    a page
GET /api/v1/history/{uid}                                         one task with its object and its result
GET /openapi.json                                                 both, described; open to everybody
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

import orjson
from aiohttp import web

from controllers.archive import mongo, openapi, query, tickets, wire
from crds import errors, history, model

RETRY_SECONDS = 5

Handler = Callable[[web.Request], Awaitable[web.Response]]


class History:
    """Answers from one archive to those whom `door` lets in."""

    def __init__(self, archive: mongo.Archive, door: tickets.Door) -> None:
        self._archive, self._door = archive, door
        self._description = orjson.dumps(openapi.document())

    def serve(self, application: web.Application) -> None:
        """Add the three paths."""
        application.router.add_get("/api/v1/history", _answering(self._page))
        application.router.add_get("/api/v1/history/{uid}", _answering(self._one))
        application.router.add_get("/openapi.json", self._describe)

    def application(self) -> web.Application:
        """An application with nothing else."""
        made = web.Application()
        self.serve(made)
        return made

    async def _page(self, request: web.Request) -> web.Response:
        namespace = await self._door.namespace(_ticket(request))
        for name in set(request.query):
            if len(request.query.getall(name)) > 1:
                raise query.Unreadable(f"{name} is given more than once", field=name, remedy="Give it once.")
        asked = query.parse(request.query)
        if asked.namespace not in ("", namespace):
            raise tickets.Elsewhere(namespace)
        wanted = replace(asked, namespace=namespace)
        return _json(wire.page(await self._archive.page(wanted), wanted))

    async def _one(self, request: web.Request) -> web.Response:
        namespace = await self._door.namespace(_ticket(request))
        uid = query.uid(request.match_info["uid"])
        found = await self._archive.one(uid)
        if found is None or found["namespace"] != namespace:
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
        except tickets.Elsewhere as error:
            return _failure(403, "forbidden", error.message, error.field, error.remedy)
        except tickets.Denied as error:
            response = _failure(401, "unauthorized", error.message, error.field, error.remedy)
            response.headers["WWW-Authenticate"] = f'Bearer realm="{history.AUDIENCE}"'
            return response
        except errors.Operational as error:
            response = _failure(503, "unavailable", error.message)
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return response

    return answer


def _ticket(request: web.Request) -> str:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return request.headers.get(history.TICKET_HEADER) or (token.strip() if kind.lower() == "bearer" else "")


def _json(reply: model.Model, status: int = 200) -> web.Response:
    return web.Response(
        body=orjson.dumps(reply.model_dump(mode="json", by_alias=True)), status=status, content_type="application/json"
    )


def _failure(status: int, code: str, message: str, field: str | None = None, remedy: str | None = None) -> web.Response:
    problem = wire.Problem(code=code, message=message, field=field, remedy=remedy)
    return _json(wire.Failure(error=problem), status)
