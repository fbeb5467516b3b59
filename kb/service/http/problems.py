"""The errors of the knowledge base as answers (`contracts.problems`).

400 malformed_json     401 unauthorized     403 forbidden     409 conflict, stale
422 invalid, unusable_answer, misconfigured, model_rejected     404 not_found     408 too_slow     413 too_large
415 unsupported_media_type
429 crowded, 503 unavailable, 503 too_long and 503 misconfigured (once an operator has acted) carry Retry-After: the
same request may succeed later
500 internal is a bug of this service
"""

from __future__ import annotations

import time

from aiohttp import web
from aiohttp.typedefs import Middleware

from codegraph.branch import analyst
from contracts import browsers, problems, trace
from crds import errors as root
from kb import errors, metrics

Handler = problems.Handler


class MalformedJson(errors.Invalid):
    """The body is not JSON at all."""


_ANSWERS = problems.Answers(
    (
        (MalformedJson, 400, "malformed_json"),
        (errors.Unauthorized, 401, "unauthorized"),
        (errors.Forbidden, 403, "forbidden"),
        (errors.NotFound, 404, "not_found"),
        (errors.Conflict, 409, "conflict"),
        (errors.Stale, 409, "stale"),
        (errors.TooLarge, 413, "too_large"),
        (analyst.MemoryExceeded, 413, "too_large"),
        (errors.TooSlow, 408, "too_slow"),
        (errors.Invalid, 422, "invalid"),
        (errors.Unusable, 422, "unusable_answer"),
        (errors.Misconfigured, 422, "misconfigured"),
        (browsers.Foreign, 403, "forbidden"),
        (browsers.NotJson, 415, "unsupported_media_type"),
        (root.Permanent, 422, "model_rejected"),
        (errors.Crowded, 429, "crowded"),
        (errors.Unconfigured, 503, "misconfigured"),
        (errors.TooLong, 503, "too_long"),
    ),
    lambda said: errors.TooLarge(
        f"the body is larger than this service takes ({said})",
        field="content",
        remedy="Store the content with POST /api/v1/content and send its contentRef.",
    ),
)
answer, code = _ANSWERS.answer, _ANSWERS.code
"""The response that an error becomes, and the code in it."""


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
            with meters.spans.span(f"{request.method} {route}", about, parent=parent, kind="SERVER") as tell:
                response = await _ANSWERS.attempt(request, handler)
                tell("http.response.status_code", response.status)
        else:
            response = await _ANSWERS.attempt(request, handler)
        meters.requests.labels(route, str(response.status)).inc()
        meters.seconds.labels(route).observe(time.perf_counter() - started)
        return response

    return guard
