"""The aiohttp application of the API, and how a handler reads a request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, TypeVar

import orjson
import pydantic
from aiohttp import web

from contracts import browsers
from contracts import problems as shared
from sources.api import problems, routes
from sources.api.gate import Gate

_PROGRAMS = shared.Pages(None, browsers.Origins(), "JERVIS_SOURCES")
"""No web page calls here: each caller shows a token."""
DESCRIPTION = "/api/v1/openapi.json"
MOST_BYTES = 4 << 20
BODY_SECONDS = 30.0
_Model = TypeVar("_Model", bound=pydantic.BaseModel)
_SECONDS = web.AppKey("body_seconds", float)


def build(
    served: Sequence[routes.Served], gate: Gate, *, max_body: int = MOST_BYTES, body_seconds: float = BODY_SECONDS
) -> web.Application:
    """The application with these routes and its description, which needs no token. A body over `max_body` bytes is
    refused, and one that takes longer than `body_seconds`."""
    application = web.Application(client_max_size=max_body, middlewares=[problems.middleware, _PROGRAMS.middleware()])
    application[_SECONDS] = body_seconds
    for route, handler in served:
        application.router.add_route(route.method, route.path, _guarded(route, handler, gate))
    specification = orjson.dumps(routes.document([route for route, _ in served]))

    async def describe(_: web.Request) -> web.Response:
        return web.Response(body=specification, content_type="application/json")

    application.router.add_get(DESCRIPTION, describe)
    return application


async def raw(request: web.Request) -> bytes:
    """The body. Raises `problems.TooSlow`, or aiohttp's 413."""
    seconds = request.config_dict[_SECONDS]
    try:
        async with asyncio.timeout(seconds):
            return await request.read()
    except TimeoutError as error:
        raise problems.TooSlow(
            f"the body did not arrive within {seconds:.0f} seconds", field="body", remedy="Send it faster."
        ) from error


async def read(request: web.Request, model: type[_Model]) -> _Model:
    """The JSON body as `model`. Raises `problems.Malformed`, `Invalid`, `TooSlow`, or aiohttp's 413."""
    shared.require_json(request)
    try:
        document = orjson.loads(await raw(request))
    except orjson.JSONDecodeError as error:
        raise problems.Malformed(
            f"the body is not JSON: {error}",
            field="body",
            remedy="Send a JSON object with Content-Type: application/json.",
        ) from error
    return validate(document, model)


def validate(document: Any, model: type[_Model], place: str = "") -> _Model:
    """`document`, which stands at `place` of the body, as `model`. Raises `problems.Invalid` for the first problem,
    listing the others."""
    try:
        return model.model_validate(document)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        paths = [".".join(str(part) for part in (*([place] if place else []), *one["loc"])) for one in found]
        said = zip(paths[:5], found, strict=False)
        raise problems.Invalid(
            "; ".join(f"{path or 'the body'}: {one['msg']}" for path, one in said),
            field=paths[0] or None,
            remedy=f"Add {paths[0]}." if found[0]["type"] == "missing" else f"See the schema in {DESCRIPTION}.",
        ) from error


def reply(model: pydantic.BaseModel, status: int = 200) -> web.Response:
    """`model` as JSON."""
    return web.Response(
        text=model.model_dump_json(by_alias=True, exclude_none=True), status=status, content_type="application/json"
    )


def _guarded(route: routes.Route, handler: problems.Handler, gate: Gate) -> problems.Handler:
    known = frozenset((*route.query, *route.optional))

    async def answer(request: web.Request) -> web.StreamResponse:
        if not route.open:
            gate.enter(request, runs=route.runs, tokens=route.tokens, analyses=route.analyses, whole=route.whole)
        for name in request.query:
            if name not in known or len(request.query.getall(name)) > 1:
                raise problems.Invalid(
                    f"there is no query parameter {name[:100]!r}, or it is given twice",
                    field=name[:100],
                    remedy=f"Give each of these at most once: {', '.join(sorted(known)) or 'none'}.",
                )
        for name in route.query:
            if name not in request.query:
                raise problems.Invalid(f"the query parameter {name} is missing", field=name, remedy=f"Add {name}.")
        return await handler(request)

    return answer
