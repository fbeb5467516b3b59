"""The errors of the sources process as answers (`contracts.problems`).

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
    +-- browsers.Foreign      403 forbidden
    +-- browsers.NotJson      415 unsupported_media_type
    crds.errors.Operational   503 unavailable, with Retry-After: the same request may succeed later
    +-- Locked                423 locked, with Retry-After
    +-- Crowded               429 crowded, with Retry-After

500 internal is a bug of this process.
"""

from __future__ import annotations

from aiohttp import web

from contracts import browsers, problems
from crds import errors

Handler = problems.Handler


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


_ANSWERS = problems.Answers(
    (
        (Malformed, 400, "malformed_json"),
        (Unauthorized, 401, "unauthorized"),
        (Forbidden, 403, "forbidden"),
        (NotFound, 404, "not_found"),
        (TooSlow, 408, "too_slow"),
        (Conflict, 409, "conflict"),
        (TooLarge, 413, "too_large"),
        (Invalid, 422, "invalid"),
        (Full, 507, "full"),
        (browsers.Foreign, 403, "forbidden"),
        (browsers.NotJson, 415, "unsupported_media_type"),
        (errors.Permanent, 422, "refused"),
        (Locked, 423, "locked"),
        (Crowded, 429, "crowded"),
    ),
    lambda said: TooLarge(f"the body is larger than this service takes ({said})", field="body"),
)


@web.middleware
async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns every error into an answer."""
    return await _ANSWERS.attempt(request, handler)
