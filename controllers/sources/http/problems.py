"""Errors as answers, in the shape of the knowledge base's: `{"error": {code, message, field, remedy}}`.

    crds.errors.Permanent     422 refused, unless it is one of these:
    +-- Malformed             400 malformed_json
    +-- Unauthorized          401 unauthorized
    +-- Forbidden             403 forbidden
    +-- NotFound              404 not_found
    +-- TooSlow               408 too_slow
    +-- Conflict              409 conflict
    +-- TooLarge              413 too_large
    +-- Invalid               422 invalid
    +-- Full                  507 full
    crds.errors.Operational   503 unavailable, with Retry-After: the same request may succeed later
    +-- Locked                423 locked, with Retry-After
    +-- Crowded               429 crowded, with Retry-After

500 internal is a bug of this process.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import structlog
from aiohttp import web

from crds import errors
from kb import api

log = structlog.get_logger("sources")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_RETRY_AFTER = 5.0


class Malformed(errors.Permanent):
    """The body is not JSON."""


class Unauthorized(errors.Permanent):
    """No token, or one that is not accepted."""


class Forbidden(errors.Permanent):
    """The token is good, and not for this."""


class NotFound(errors.Permanent):
    """Not there, or not visible to the caller."""


class TooSlow(errors.Permanent):
    """The body did not arrive in time."""


class Conflict(errors.Permanent):
    """What is known already says something else."""


class TooLarge(errors.Permanent):
    """More bytes than are taken."""


class Invalid(errors.Permanent):
    """A field is wrong."""


class Full(errors.Permanent):
    """A quota is used up."""


class Locked(errors.Operational):
    """Another caller is writing to it."""


class Crowded(errors.Operational):
    """Too much is asked at once."""


_PERMANENT: tuple[tuple[type[errors.Permanent], int, str], ...] = (
    (Malformed, 400, "malformed_json"),
    (Unauthorized, 401, "unauthorized"),
    (Forbidden, 403, "forbidden"),
    (NotFound, 404, "not_found"),
    (TooSlow, 408, "too_slow"),
    (Conflict, 409, "conflict"),
    (TooLarge, 413, "too_large"),
    (Invalid, 422, "invalid"),
    (Full, 507, "full"),
    (errors.Permanent, 422, "refused"),
)


def answer(error: errors.JervisError) -> web.Response:
    """The response that an error of ours becomes."""
    if isinstance(error, errors.Operational):
        status, code = (429, "crowded") if isinstance(error, Crowded) else (503, "unavailable")
        if isinstance(error, Locked):
            status, code = 423, "locked"
        seconds = _RETRY_AFTER if error.retry_after is None else error.retry_after
        return _reply(status, api.Problem(code=code, message=error.message), {"Retry-After": str(math.ceil(seconds))})
    for kind, status, code in _PERMANENT:
        if isinstance(error, kind):
            problem = api.Problem(code=code, message=error.message, field=error.field, remedy=error.remedy)
            return _reply(status, problem, {"WWW-Authenticate": "Bearer"} if status == 401 else None)
    return _reply(500, api.Problem(code="internal", message=error.message))


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns every error into an answer."""
    try:
        return await handler(request)
    except errors.JervisError as error:
        return answer(error)
    except web.HTTPRequestEntityTooLarge as error:
        return answer(TooLarge(f"the body is larger than this service takes ({error.text})", field="body"))
    except web.HTTPException as error:
        code = (error.reason or "error").lower().replace(" ", "_")
        allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        message = f"{request.method} {request.path}: {error.reason}"
        return _reply(error.status, api.Problem(code=code, message=message), allowed)
    except Exception:
        # Not the path: keys that callers chose stand in it.
        resource = request.match_info.route.resource
        log.exception("unhandled", method=request.method, route=resource.canonical if resource else "unknown")
        problem = api.Problem(code="internal", message="an unexpected error; the process's log has its traceback")
        return _reply(500, problem)


def _reply(status: int, problem: api.Problem, headers: dict[str, str] | None = None) -> web.Response:
    body = api.ErrorReply(error=problem).model_dump_json(by_alias=True, exclude_none=True)
    return web.Response(status=status, text=body, content_type="application/json", headers=headers)
