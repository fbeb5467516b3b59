"""From a request to a typed value, with errors that name the field and the remedy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import orjson
import pydantic
from aiohttp import web

from contracts import problems as shared
from crds import priority, scope
from kb import errors
from kb.service.http import access, buffers, problems

_Model = TypeVar("_Model", bound=pydantic.BaseModel)
GIVEN = web.RequestKey("given", dict[str, Any])
"""The body of a call of a route that came in another form than as the request's bytes (`kb.service.http.mcp`)."""
# A slower caller holds one of the few places for large bodies. Bytes a second, and what each one gets on top.
_SLOWEST = 256 << 10
_FIRST_SECONDS = 30.0
_GLOBAL = 'Name the client whose data it is; "" is the global scope, which every client sees.'


async def read(request: web.Request, model: type[_Model], *, seconds: float | None = None) -> _Model:
    """The JSON body as `model`. Raises `problems.MalformedJson`, `errors.Invalid`, `TooSlow` or aiohttp's 413.

    It has to arrive within `seconds`, or else at the slowest pace that is waited for, and find room (`buffers`):
    `errors.Crowded`.
    """
    document = request.get(GIVEN)
    if document is None:
        document = await _sent(request, seconds)
    made = validate(document, model)
    where = getattr(made, "scope", None)
    if isinstance(where, scope.Scope):
        access.check(request, where)
        buffers.belongs(request, where.client_id)
        seen = access.viewer(request, where)
        if seen is not where:
            made = made.model_copy(update={"scope": seen})
    return made


async def _sent(request: web.Request, seconds: float | None) -> Any:
    shared.require_json(request)
    async with _arrives(seconds, request.client_max_size):
        raw = await _json(request)
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise problems.MalformedJson(
            f"the body is not JSON: {error}", remedy="Send a JSON object with Content-Type: application/json."
        ) from error


def validate(document: Any, model: type[_Model]) -> _Model:
    """`document` as `model`. Raises `errors.Invalid` for the first problem, listing the others."""
    try:
        return model.model_validate(document)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        field = ".".join(str(part) for part in found[0]["loc"]) or None
        message = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}" for one in found[:5])
        raise errors.Invalid(message, field=field, remedy=_remedy(field or "", found[0]["type"])) from error


def only(
    request: web.Request, known: Collection[str], repeated: Collection[str] = (), *, prefix: str | None = None
) -> None:
    """Refuse what the route does not read: a misspelt `projectId` would widen the scope. Raises `errors.Invalid`.

    A parameter has one value, but for those in `repeated` and the caller's own, which begin with `prefix`.
    """
    for name in request.query:
        if name not in known and not (prefix is not None and name.startswith(prefix)):
            raise errors.Invalid(
                f"there is no query parameter {name[:100]!r}",
                field=name[:100],
                remedy=f"Remove it, or check its spelling: {', '.join(sorted(known)) or 'this route has none'}.",
            )
        times = len(request.query.getall(name))
        if times > 1 and name not in repeated and not (prefix and name.startswith(prefix)):
            raise errors.Invalid(f"{name} is given {times} times", field=name, remedy="Give it once.")


def owner(request: web.Request) -> scope.Scope:
    """The scope in the query: clientId (mandatory, "" for global), projectId, groupId."""
    names = ("clientId", "projectId", "groupId")
    given: Mapping[str, str] = {name: request.query[name] for name in names if name in request.query}
    where = validate(given, scope.Scope)
    access.check(request, where)
    return access.viewer(request, where)


async def raw(request: web.Request, limit: int, remedy: str, *, seconds: float | None = None) -> bytes:
    """The body as it is, at most `limit` bytes of it. Raises `errors.TooLarge` before more is read, or `Invalid`.

    It has to arrive within `seconds`, or else at the slowest pace that is waited for: `errors.TooSlow`.
    """
    async with _arrives(seconds, limit):
        return await _arriving(request, limit, remedy)


def patience(size: int) -> float:
    """Seconds in which `size` bytes arrive, or are taken, at the slowest pace that is waited for."""
    return _FIRST_SECONDS + size / _SLOWEST


@asynccontextmanager
async def _arrives(seconds: float | None, limit: int) -> AsyncIterator[None]:
    """Bounds the time in which a body of at most `limit` bytes arrives. Raises `errors.TooSlow`."""
    most = patience(limit) if seconds is None else seconds
    try:
        async with asyncio.timeout(most):
            yield
    except TimeoutError as error:
        raise errors.TooSlow(
            f"the body did not arrive within {most:.0f} seconds",
            field="body",
            remedy="Send it faster, or in parts.",
        ) from error


async def _json(request: web.Request) -> bytes:
    read = bytearray()
    limit = request.client_max_size
    async for piece in request.content.iter_any():
        read += piece
        if limit and len(read) >= limit:
            raise web.HTTPRequestEntityTooLarge(max_size=limit, actual_size=len(read))
        buffers.arrived(request, len(piece))
    return bytes(read)


async def _arriving(request: web.Request, limit: int, remedy: str) -> bytes:
    too_large = errors.TooLarge(f"the body is larger than {limit} bytes", field="body", remedy=remedy)
    if request.content_length is not None and request.content_length > limit:
        raise too_large
    read = bytearray()
    # Not request.read(): its limit is that of the JSON bodies, which are far smaller.
    async for piece in request.content.iter_chunked(1 << 16):
        read += piece
        if len(read) > limit:
            raise too_large
    if not read:
        raise errors.Invalid("the body is empty", field="body", remedy="Send the content as the raw body.")
    return bytes(read)


def urgency(request: web.Request) -> priority.Priority | None:
    """The priority that the caller named, if any; a run's is never above the ceiling of its token."""
    return access.capped(request, priority.parse(request.headers.get(priority.HEADER)))


def _remedy(field: str, kind: str) -> str:
    name = field.rpartition(".")[2]
    if field == "scope" or name == "clientId":
        return _GLOBAL
    if kind == "missing":
        return f"Add {field}."
    if name == "ruleContent" and kind == "value_error":
        return "Change the line as the message says; docs/rules.md has all of them."
    if kind == "extra_forbidden":
        return f"Remove {field}, or check its spelling against /api/v1/openapi.json."
    return "See the field's schema in /api/v1/openapi.json."
