"""The operations of the knowledge base and the OpenAPI document of those that a process serves."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from aiohttp import web

from contracts import http_routes, openapi
from crds import priority
from kb import api

Served = tuple[http_routes.Route[Any], Callable[[web.Request], Awaitable[web.StreamResponse]]]
"""A route and what answers it."""
LINES = "application/x-ndjson"
"""The media type of lines of JSON. A document of OpenAPI 3.1 has the schema of one line under it."""

_FAILURES = {
    400: "the body is not JSON",
    401: "a bearer token is needed, or this one is unknown",
    403: "the token is not for this scope, or not for writing",
    404: "not there, or not visible in this scope",
    408: "the body did not arrive in time",
    409: "what is known is not what the request is about or based on",
    413: "too large",
    422: "a field is wrong; the error names it and the remedy",
    429: "too many writers wait; see Retry-After",
    503: "a store or the router is away, or a newer version is not stored yet; see Retry-After",
}
_OBSERVATION = {
    "name": api.OBSERVATION,
    "in": "header",
    "schema": openapi.TEXT,
    "description": "NUMBER OBSERVER: nothing is done where the observer has a greater number (/api/v1/observations)",
}
_OPTIONAL = frozenset({"projectId", "groupId"})
_BYTES = {"type": "string", "format": "binary"}


def document(served: Sequence[http_routes.Route[Any]], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the given routes."""
    return openapi.document("Jervis knowledge base", version, [_operation(route) for route in served])


def _operation(route: http_routes.Route[Any]) -> openapi.Operation:
    content = dict(openapi.json(route.reply_model)) if route.reply else {}
    if route.lines:
        content[LINES] = http_routes.model(route.lines)
    if route.raw_reply:
        content = {"application/octet-stream": _BYTES}
    body = openapi.json(http_routes.model(route.body)) if route.body else None
    if route.raw_body:
        body = {"*/*": _BYTES}
    failure = openapi.json(api.ErrorReply)
    return openapi.Operation(
        route.method,
        route.path,
        route.summary,
        {route.status: openapi.Answer(route.summary, content)}
        | {status: openapi.Answer(text, failure) for status, text in _FAILURES.items()},
        _parameters(route),
        body,
    )


def _parameters(route: http_routes.Route[Any]) -> list[Mapping[str, Any]]:
    several = {"type": "array", "items": openapi.TEXT}
    about = "0..3 or P0..P3, 0 is the most urgent; 0..2 take the fast lane and it is passed on to the models"
    return [
        *(openapi.parameter(name, required=name not in _OPTIONAL) for name in route.query),
        *(
            openapi.parameter(name, schema=several if name in route.repeated else openapi.TEXT)
            for name in route.optional
        ),
        *(openapi.parameter(name, place="path", required=True) for name in re.findall(r"{(\w+)}", route.path)),
        {"name": priority.HEADER, "in": "header", "schema": openapi.TEXT, "description": about},
        *([_OBSERVATION] if route.observed else []),
    ]
