"""The operations of the API, and its OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from aiohttp import web

from contracts import openapi
from crds import VERSION
from kb import api


@dataclass(frozen=True)
class Route:
    """One operation. `body` and `reply` are wire models; `raw_body` and `raw_reply`: bytes travel instead.

    `runs`, `analyses`, `tokens`: whether run tokens, those of Jobs that analyze code, and tokens of the file may call
    it. `open`: no token is asked for, the handler
    authenticates the caller itself. `whole`: it shows a scope as a whole, and is closed to callers that see what some
    principals see. `query` and `optional` are all its parameters, others are refused. `errors`: more
    statuses, each with what it says.
    """

    method: str
    path: str
    summary: str
    status: int = 200
    body: type[pydantic.BaseModel] | None = None
    reply: type[pydantic.BaseModel] | None = None
    raw_body: bool = False
    raw_reply: bool = False
    runs: bool = False
    analyses: bool = False
    tokens: bool = True
    open: bool = False
    whole: bool = False
    query: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    errors: tuple[tuple[int, str], ...] = ()


Served = tuple[Route, Callable[[web.Request], Awaitable[web.StreamResponse]]]
"""A route and what answers it."""
_FAILURES = {
    400: "The body is not JSON.",
    401: "No token, or one that is not accepted.",
    403: "The token is not for this.",
    404: "Not there, or not visible to the caller.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    422: "A field is wrong; the error names it and the remedy.",
    429: "Too much is asked at once; see Retry-After.",
    503: "A service that is needed is away; see Retry-After.",
}
_BYTES = {"type": "string", "format": "binary"}
_RETRY = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """OpenAPI 3.1 of the given routes."""
    made = openapi.document("Jervis sources", VERSION, [_operation(route) for route in routes])
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "A run token, or one of sources.tokens."}
    }
    for route in routes:
        if not route.open:
            made["paths"][route.path][route.method.lower()]["security"] = [{"bearer": []}]
    return made


def _operation(route: Route) -> openapi.Operation:
    content = openapi.json(route.reply) if route.reply else {}
    if route.raw_reply:
        content = {"application/octet-stream": _BYTES}
    body = openapi.json(route.body) if route.body else None
    if route.raw_body:
        body = {"*/*": _BYTES}
    failures = {**_FAILURES, **dict(route.errors)}
    return openapi.Operation(
        route.method,
        route.path,
        route.summary,
        {route.status: openapi.Answer(route.summary, content)}
        | {
            status: openapi.Answer(text, openapi.json(api.ErrorReply), _RETRY if status in (429, 503) else {})
            for status, text in failures.items()
        },
        [
            *(openapi.parameter(name, required=True) for name in route.query),
            *(openapi.parameter(name) for name in route.optional),
            *(openapi.parameter(name, place="path", required=True) for name in re.findall(r"{(\w+)}", route.path)),
        ],
        body,
    )
