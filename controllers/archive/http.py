"""`/api/v1/history` on a port of its own: the finished tasks in the archive, for clients with a ticket.

The API only reads, so any replica answers. A ticket (a short-lived token) gives access to one namespace; the tasks of
other namespaces are not found.

GET /api/v1/history?client=&phase=&name=&limit=&since=&before=    a page
GET /api/v1/history/{uid}                                         one task with its object and its result
GET /api/v1/results/{uid}                                         what the last run stored, of a live task as well
GET /api/v1/traces/{uid}                                          what its runs did, as a tree
GET /api/v1/artifacts/{uid}                                       what its result has beside the answer
GET /api/v1/artifacts/{uid}/{key}                                 one stored content of these
GET /openapi.json                                                 the description of this API; needs no ticket
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from contracts import browsers, problems
from contracts.api import history
from controllers.archive import mongo, openapi, query, tickets, traces, wire
from crds import errors, model, scope, values

RETRY_SECONDS = 5
_PROGRAMS = problems.Pages(None, browsers.Origins(), "JERVIS_OPERATOR")
"""No web page calls here: each caller shows a ticket or a token."""
TOO_OFTEN_SECONDS = 1

Contents = Callable[[scope.Scope, str], Awaitable[bytes]]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class TooOften(errors.Operational):
    """Asked again too soon; the same question may be asked after `TOO_OFTEN_SECONDS`."""


class History:
    """Serves one archive. `access` authenticates each request; `contents` is what the knowledge base stores for a
    scope under a key, it raises `crds.errors.Permanent` for a key that it has not."""

    def __init__(self, archive: mongo.Archive, access: tickets.Tickets, contents: Contents) -> None:
        self._archive, self._access, self._contents = archive, access, contents
        self._description = orjson.dumps(openapi.document())

    def serve(self, application: web.Application) -> None:
        """Add the paths."""
        application.router.add_get("/api/v1/history", answering(self._page))
        application.router.add_get("/api/v1/history/{uid}", answering(self._one))
        application.router.add_get("/api/v1/results/{uid}", answering(self._result))
        application.router.add_get("/api/v1/traces/{uid}", answering(self._trace))
        application.router.add_get("/api/v1/artifacts/{uid}", answering(self._artifacts))
        application.router.add_get("/api/v1/artifacts/{uid}/{key}", answering(self._content))
        application.router.add_get("/openapi.json", self._describe)

    def application(self) -> web.Application:
        """An application with nothing else."""
        made = web.Application(middlewares=[_answered, _PROGRAMS.middleware()])
        self.serve(made)
        return made

    async def _page(self, request: web.Request) -> web.Response:
        namespace = await self._access.namespace(ticket(request), request.remote or "")
        for name in set(request.query):
            if len(request.query.getall(name)) > 1:
                raise query.Unreadable(f"{name} is given more than once", field=name, remedy="Give it once.")
        asked = query.parse(request.query)
        if asked.namespace not in ("", namespace):
            raise tickets.Elsewhere(namespace)
        wanted = replace(asked, namespace=namespace)
        return reply(wire.page(await self._archive.page(wanted), wanted))

    async def _one(self, request: web.Request) -> web.Response:
        namespace = await self._access.namespace(ticket(request), request.remote or "")
        uid = query.uid(request.match_info["uid"])
        found = await self._archive.one(uid)
        if found is None or found["namespace"] != namespace:
            return failure(404, "not_found", f"no task {uid} was archived")
        return reply(wire.whole(found))

    async def _result(self, request: web.Request) -> web.Response:
        uid, found, archived = await self._stored(request)
        if found is None:
            return _no_result(uid)
        return reply(wire.result(uid, found, archived=archived))

    async def _trace(self, request: web.Request) -> web.Response:
        namespace = await self._access.namespace(ticket(request), request.remote or "")
        uid = query.uid(request.match_info["uid"])
        owner = await self._archive.owner(uid)
        if owner is None or owner["namespace"] != namespace:
            return failure(404, "not_found", f"no run of task {uid} is known")
        return reply(traces.of(uid, owner, await self._archive.left(uid)))

    async def _artifacts(self, request: web.Request) -> web.Response:
        uid, found, _ = await self._stored(request)
        if found is None:
            return _no_result(uid)
        named = traces.artifacts(found["result"])
        sizes = {key: len(text.encode()) for key, text in _texts(await self._archive.texts(uid, named)).items()}
        changed = traces.changed_files(found["result"])
        return reply(history.Artifacts(uid=uid, artifacts=traces.listed(named, sizes), changed_files=changed))

    async def _content(self, request: web.Request) -> web.Response:
        uid, found, _ = await self._stored(request)
        key = request.match_info["key"]
        missing = failure(404, "not_found", f"the result of task {uid} has no stored content {key[:100]}")
        # Only what the result names: other values of a run are prompts and what they are made from.
        if found is None or key not in traces.artifacts(found["result"]) or not values.is_key(key):
            return missing
        texts = _texts(await self._archive.texts(uid, [key]))
        try:
            raw = texts[key].encode() if key in texts else await self._contents(traces.scope_of(found), key)
        except errors.Permanent:
            return missing  # the name of something that was made elsewhere, or content that is gone
        return reply(history.Content(uid=uid, key=key, data=base64.b64encode(raw).decode()))

    async def _stored(self, request: web.Request) -> tuple[str, Mapping[str, Any] | None, bool]:
        """The uid that a request names, what its last run stored if the ticket opens it, and whether it is archived."""
        namespace = await self._access.namespace(ticket(request), request.remote or "")
        uid = query.uid(request.match_info["uid"])
        # The archive first: what it holds is the last word.
        kept = await self._archive.one(uid)
        found = kept or await self._archive.live(uid)
        if found is None or found["namespace"] != namespace or not found["result"]:
            return uid, None, False
        return uid, found, kept is not None

    async def _describe(self, _: web.Request) -> web.Response:
        return web.Response(body=self._description, content_type="application/json")


def _no_result(uid: str) -> web.Response:
    return failure(404, "not_found", f"no run of task {uid} has stored a result")


def _texts(bodies: Mapping[str, str]) -> dict[str, str]:
    """Stored values as texts: a text itself, JSON for anything else."""
    values = {key: json.loads(body) for key, body in bodies.items()}
    return {key: value if isinstance(value, str) else bodies[key] for key, value in values.items()}


def answering(handler: Handler) -> Handler:
    """`handler`, with errors as `Failure` and their status code."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except query.Unreadable as error:
            return failure(400, "bad_request", error.message, error.field, error.remedy)
        except (browsers.Foreign, tickets.Elsewhere) as error:
            return failure(403, "forbidden", error.message, error.field, error.remedy)
        except tickets.Denied as error:
            response = failure(401, "unauthorized", error.message, error.field, error.remedy)
            response.headers["WWW-Authenticate"] = f'Bearer realm="{history.AUDIENCE}"'
            return response
        except TooOften as error:
            response = failure(429, "too_many_requests", error.message)
            response.headers["Retry-After"] = str(TOO_OFTEN_SECONDS)
            return response
        except errors.Operational as error:
            response = failure(503, "unavailable", error.message)
            response.headers["Retry-After"] = str(RETRY_SECONDS)
            return response

    return answer


@web.middleware
async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await answering(handler)(request)


def ticket(request: web.Request) -> str:
    """The ticket that a request shows, "" when it shows none."""
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return request.headers.get(history.TICKET_HEADER) or (token.strip() if kind.lower() == "bearer" else "")


def reply(said: model.Model, status: int = 200) -> web.Response:
    """`said` as JSON."""
    return web.Response(body=encoded(said), status=status, content_type="application/json")


def encoded(said: model.Model) -> bytes:
    """`said` as JSON."""
    return orjson.dumps(said.model_dump(mode="json", by_alias=True))


def failure(status: int, code: str, message: str, field: str | None = None, remedy: str | None = None) -> web.Response:
    """An answer that is not 200."""
    problem = wire.Problem(code=code, message=message, field=field, remedy=remedy)
    return reply(wire.Failure(error=problem), status)
