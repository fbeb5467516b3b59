"""Errors as answers: one shape, `{"error": {code, message, field, remedy}}`, and the status that says what to do.

400 malformed_json     401 unauthorized     403 forbidden
422 invalid, unusable_answer, misconfigured, model_rejected     404 not_found     409 stale     408 too_slow
413 too_large
429 crowded, 503 unavailable, 503 too_long and 503 misconfigured (once an operator has acted) carry Retry-After: the
same request may succeed later
500 internal is a bug of this service
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable

import orjson
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from crds import errors as root
from crds import trace
from kb import api, errors, metrics

log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_RETRY_AFTER = 5.0
# The first class that fits decides, so the more specific come first.
_PERMANENT: tuple[tuple[type[root.Permanent], int, str], ...] = (
    (errors.Unauthorized, 401, "unauthorized"),
    (errors.Forbidden, 403, "forbidden"),
    (errors.NotFound, 404, "not_found"),
    (errors.Stale, 409, "stale"),
    (errors.TooLarge, 413, "too_large"),
    (errors.TooSlow, 408, "too_slow"),
    (errors.Invalid, 422, "invalid"),
    (errors.Unusable, 422, "unusable_answer"),
    (errors.Misconfigured, 422, "misconfigured"),
    (root.Permanent, 422, "model_rejected"),
)


class MalformedJson(errors.Invalid):
    """The body is not JSON at all."""


def answer(error: root.JervisError) -> web.Response:
    """The response that an error of ours becomes."""
    if isinstance(error, root.Operational):
        status, code = (429, "crowded") if isinstance(error, errors.Crowded) else (503, "unavailable")
        seconds = _RETRY_AFTER if error.retry_after is None else error.retry_after
        problem = api.Problem(code=code, message=error.message)
        if isinstance(error, errors.Unconfigured):
            problem = api.Problem(code="misconfigured", message=error.message, field=error.field, remedy=error.remedy)
        elif isinstance(error, errors.TooLong):
            problem = api.Problem(code="too_long", message=error.message, remedy=error.remedy)
        elif isinstance(error, errors.Crowded):
            problem = api.Problem(code=code, message=error.message, field=error.field, remedy=error.remedy)
        return _reply(status, problem, {"Retry-After": str(math.ceil(seconds))})
    if isinstance(error, MalformedJson):
        return _reply(400, api.Problem(code="malformed_json", message=error.message, remedy=error.remedy))
    for kind, status, code in _PERMANENT:
        if isinstance(error, kind):
            problem = api.Problem(code=code, message=error.message, field=error.field, remedy=error.remedy)
            challenge = {"WWW-Authenticate": "Bearer"} if status == 401 else None
            return _reply(status, problem, challenge)
    return _reply(500, api.Problem(code="internal", message=error.message))


def code(error: root.JervisError) -> str:
    """The code of the answer that an error becomes."""
    made = answer(error).body
    assert isinstance(made, bytes)
    return str(orjson.loads(made)["error"]["code"])


def middleware(meters: metrics.Metrics) -> Middleware:
    """Turns every error into an answer and counts every request by its route."""

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else "unknown"
        started = time.perf_counter()
        if request.path.startswith("/api/") or request.path == "/mcp":
            parent = request.headers.get(trace.HEADER, "")
            about = {"http.request.method": request.method, "http.route": route}
            with meters.spans.span(f"{request.method} {route}", about, parent=parent, server=True) as tell:
                response = await _attempt(request, handler)
                tell("http.response.status_code", response.status)
        else:
            response = await _attempt(request, handler)
        meters.requests.labels(route, str(response.status)).inc()
        meters.seconds.labels(route).observe(time.perf_counter() - started)
        return response

    return guard


async def _attempt(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except root.JervisError as error:
        return answer(error)
    except web.HTTPRequestEntityTooLarge as error:
        return answer(
            errors.TooLarge(
                f"the body is larger than this service takes ({error.text})",
                field="content",
                remedy="Store the content with POST /api/v1/content and send its contentRef.",
            )
        )
    except web.HTTPException as error:
        code = (error.reason or "error").lower().replace(" ", "_")
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        message = f"{request.method} {request.path}: {error.reason}"
        return _reply(error.status, api.Problem(code=code, message=message), allowed)
    except Exception:
        # Not the path: keys and ids that callers chose stand in it.
        resource = request.match_info.route.resource
        log.exception("unhandled", method=request.method, route=resource.canonical if resource else "unknown")
        problem = api.Problem(code="internal", message="an unexpected error; the service's log has its traceback")
        return _reply(500, problem)


def _reply(status: int, problem: api.Problem, headers: dict[str, str] | None = None) -> web.Response:
    body = api.ErrorReply(error=problem).model_dump_json(by_alias=True, exclude_none=True)
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)
