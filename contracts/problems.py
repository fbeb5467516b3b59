"""Errors as answers of a service: one shape, `{"error": {code, message, field, remedy}}`, and the status that says what
to do. 503, 429 and 423 have Retry-After: the same request may succeed later. 500 internal is a bug of the service.

The knowledge base and the sources process answer by this; each has the rules for errors of its own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from contracts import browsers
from crds import errors

log = structlog.get_logger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Rule = tuple[type[errors.JervisError], int, str]
"""(an error, the status and the code of its answer)."""
_RETRY_AFTER = 5.0
_ACCEPTED = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*")+')
_WEIGHT = re.compile(r"0(?:\.\d{0,3})?|1(?:\.0{0,3})?")


class Answers:
    """`rules`: the first one that fits decides, so the more specific come first. `large` makes the error of a body that
    aiohttp refuses, of what aiohttp says about it."""

    def __init__(self, rules: Sequence[Rule], large: Callable[[str], errors.JervisError]) -> None:
        self._rules: tuple[Rule, ...] = (
            *rules,
            (browsers.Foreign, 403, "forbidden"),
            (browsers.NotJson, 415, "unsupported_media_type"),
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


@dataclass(frozen=True)
class Pages:
    """Which web pages may call; `setting` is what the names of their settings begin with. `hosts`: None where each
    caller shows a token, so that a name which was made to lead here opens nothing."""

    hosts: browsers.Hosts | None
    origins: browsers.Origins
    setting: str

    def middleware(self) -> Middleware:
        """Refuses others with `browsers.Foreign`, and answers what a browser asks before it sends a request."""

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            host, origin = request.headers.get(hdrs.HOST), request.headers.get(hdrs.ORIGIN)
            named = None if host is None else host.encode("latin-1", "replace")
            if self.hosts is not None and not self.hosts.allow(named):
                raise browsers.foreign_host(host or "", f"{self.setting}_ALLOWED_HOSTS")
            if not self.origins.allow(origin, host or ""):
                raise browsers.foreign_origin(origin or "", f"{self.setting}_ORIGINS")
            if request.method == hdrs.METH_OPTIONS and origin and self.origins.lists(origin):
                wanted = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
                headers = {
                    hdrs.ACCESS_CONTROL_ALLOW_METHODS: "GET, POST, PUT, PATCH, DELETE",
                    hdrs.ACCESS_CONTROL_ALLOW_HEADERS: wanted,
                    hdrs.ACCESS_CONTROL_MAX_AGE: "600",
                }
                return web.Response(status=204, headers=headers)
            return await handler(request)

        return guard

    def add_to(self, application: web.Application) -> None:
        """Let the listed pages read answers."""

        async def name(request: web.Request, response: web.StreamResponse) -> None:
            origin = request.headers.get(hdrs.ORIGIN)
            if origin and self.origins.lists(origin):
                response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
                response.headers[hdrs.VARY] = "Origin"

        application.on_response_prepare.append(name)


def accepts(request: web.Request, kind: str, *, by_name: bool = False) -> bool:
    """Whether an answer of this media type may be given (RFC 9110 12.5.1): the most specific range of all lines of
    Accept that fits it decides, whatever its parameters; without any, every type may. `by_name`: ranges of several
    types do not count."""
    weights: dict[str, float] = {}
    for part in _ACCEPTED.findall(",".join(request.headers.getall(hdrs.ACCEPT, []))):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        if media:
            weights[media] = max(weights.get(media, 0.0), float(weight) if _WEIGHT.fullmatch(weight) else 1.0)
    ranges = (kind,) if by_name else (kind, f"{kind.partition('/')[0]}/*", "*/*")
    return next((weights[media] > 0 for media in ranges if media in weights), not by_name and not weights)


def require_json(request: web.Request) -> None:
    """Raises `browsers.NotJson` for a body of another type."""
    if request.content_type != "application/json":
        raise browsers.NotJson(
            f"the body is {request.headers.get(hdrs.CONTENT_TYPE, 'of no type')[:100]!r}",
            field="Content-Type",
            remedy="Send JSON with Content-Type: application/json.",
        )
