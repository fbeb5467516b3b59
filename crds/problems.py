"""Errors as answers of a service: one shape, `{"error": {code, message, field, remedy}}`, and the status that says what
to do. 503, 429 and 423 have Retry-After: the same request may succeed later. 500 internal is a bug of the service.

The knowledge base and the sources process answer by this; each has the rules for errors of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable, Sequence

import structlog
from aiohttp import web

from crds import errors

log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Rule = tuple[type[errors.JervisError], int, str]
"""(an error, the status and the code of its answer)."""
_RETRY_AFTER = 5.0


class Answers:
    """`rules`: the first one that fits decides, so the more specific come first. `large` makes the error of a body that
    aiohttp refuses, of what aiohttp says about it."""

    def __init__(self, rules: Sequence[Rule], large: Callable[[str], errors.JervisError]) -> None:
        self._rules: tuple[Rule, ...] = (
            *rules,
            (errors.Operational, 503, "unavailable"),
            (errors.JervisError, 500, "internal"),
        )
        self._large = large

    def code(self, error: errors.JervisError) -> str:
        """The code of the answer that an error becomes."""
        return self._rule(error)[1]

    def answer(self, error: errors.JervisError) -> web.Response:
        """The response that an error becomes."""
        status, code = self._rule(error)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if isinstance(error, errors.Operational):
            seconds = _RETRY_AFTER if error.retry_after is None else error.retry_after
            headers["Retry-After"] = str(math.ceil(seconds))
        field, remedy = getattr(error, "field", None), getattr(error, "remedy", None)
        return _reply(status, code, error.message, field, remedy, headers=headers)

    async def attempt(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What the handler answers; every error as an answer."""
        try:
            return await handler(request)
        except errors.JervisError as error:
            return self.answer(error)
        except web.HTTPRequestEntityTooLarge as error:
            return self.answer(self._large(error.text or ""))
        except web.HTTPException as error:
            code = (error.reason or "error").lower().replace(" ", "_")
            allowed = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else {}
            return _reply(error.status, code, f"{request.method} {request.path}: {error.reason}", headers=allowed)
        except Exception:
            # Not the path: keys and ids that callers chose stand in it.
            resource = request.match_info.route.resource
            log.exception("unhandled", method=request.method, route=resource.canonical if resource else "unknown")
            return _reply(500, "internal", "an unexpected error; the service's log has its traceback")

    def _rule(self, error: errors.JervisError) -> tuple[int, str]:
        return next((status, code) for kind, status, code in self._rules if isinstance(error, kind))


def _reply(
    status: int, code: str, message: str, field: str | None = None, remedy: str | None = None, *,
    headers: dict[str, str] | None = None,
) -> web.Response:  # fmt: skip
    said = {"code": code, "message": message, "field": field, "remedy": remedy}
    known = {"error": {name: text for name, text in said.items() if text is not None}}
    body = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    return web.Response(
        status=status, body=body.encode(errors="replace"), content_type="application/json", charset="utf-8",
        headers=headers,
    )  # fmt: skip
