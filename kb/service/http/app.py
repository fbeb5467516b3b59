"""The aiohttp application: which routes a process of which mode has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from contracts import browsers, http_routes
from contracts import problems as shared
from kb import metrics, routes
from kb.service.access import audit
from kb.service.http import access, body, buffers, content, health, knowledge, mcp, openapi, page, problems

_PROGRAMS = shared.Pages(browsers.Hosts(), browsers.Origins(), "JERVIS_KB")
"""Of web pages only the service's own."""


@dataclass(frozen=True)
class Faces:
    """What there is to serve; `writing` or `reading` is None in a process of the other mode."""

    writing: knowledge.Writing | None
    reading: knowledge.Reading | None
    content: content.Content
    health: health.Health
    more: Sequence[openapi.Served] = ()
    """Routes beside these, each with its handler."""


def build(
    faces: Faces,
    meters: metrics.Metrics,
    *,
    max_body: int,
    version: str,
    gate: access.Gate | None = None,
    trail: audit.Trail | None = None,
    pages: shared.Pages = _PROGRAMS,
    tool_seconds: float = 60.0,
    buffered: int = 192 << 20,
) -> web.Application:
    """The application. JSON bodies over `max_body` bytes are refused with 413, over `buffered` bytes together with 429;
    `gate` says who may come in, `trail` records who did what, `pages` which web pages may. A tool of `/mcp` gets
    `tool_seconds`."""
    guards = [access.recording(trail)] if trail is not None else []
    guards += [
        mcp.enveloped,
        problems.middleware(meters),
        pages.middleware(),
        *([access.middleware(gate)] if gate is not None else []),
    ]
    guards.append(buffers.middleware(buffers.Buffers(buffered, meters)))
    application = web.Application(client_max_size=max_body, middlewares=guards)
    pages.add_to(application)
    served: list[http_routes.Route[Any]] = []
    handlers: dict[tuple[str, str], problems.Handler] = {}

    def add(route: http_routes.Route[Any], handler: problems.Handler) -> None:
        handlers[route.method, route.path] = _strict(route, handler)
        application.router.add_route(route.method, route.path, handlers[route.method, route.path])
        served.append(route)

    if faces.writing is not None:
        add(routes.INGEST, faces.writing.ingest)
        add(routes.DOCUMENTS_FORGET, faces.writing.forget)
        add(routes.CONTENT_STORE, faces.content.save)
    if faces.reading is not None:
        add(routes.RETRIEVE, faces.reading.retrieve)
    add(routes.CONTENT_LOAD, faces.content.load)
    for route, handler in faces.more:
        add(route, handler)
    agents = mcp.Endpoint(dict(handlers), meters, version=version, seconds=tool_seconds)
    add(mcp.ROUTE, agents.post)

    if faces.reading is not None:
        page.add_to(application)
    application[access.ROUTES] = {(route.method, route.path): route for route in served}
    specification = openapi.document(served, version)

    async def describe(request: web.Request) -> web.Response:
        return web.json_response(specification)

    application.router.add_get("/api/v1/openapi.json", describe)
    application.router.add_get("/healthz", faces.health.live)
    application.router.add_get("/startedz", faces.health.started)
    application.router.add_get("/readyz", faces.health.ready)
    application.router.add_get("/servez", faces.health.serves)
    application.router.add_get("/metrics", faces.health.meters)
    return application


def _strict(route: http_routes.Route[Any], handler: problems.Handler) -> problems.Handler:
    known = frozenset((*route.query, *route.optional))

    async def answer(request: web.Request) -> web.StreamResponse:
        body.only(request, known, route.repeated, prefix=route.prefix)
        return await handler(request)

    return answer
