"""From a request to a typed value, with errors that name the field and the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
import pydantic
from aiohttp import web

from crds import priority, scope
from kb import errors
from kb.http import problems

_Model = TypeVar("_Model", bound=pydantic.BaseModel)
_GLOBAL = 'Name the client whose data it is; "" is the global scope, which everybody sees.'


async def read(request: web.Request, model: type[_Model]) -> _Model:
    """The JSON body as `model`. Raises `problems.MalformedJson`, `errors.Invalid` or aiohttp's 413."""
    raw = await request.read()
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise problems.MalformedJson(
            f"the body is not JSON: {error}", remedy="Send a JSON object with Content-Type: application/json."
        ) from error
    return validate(document, model)


def validate(document: Any, model: type[_Model]) -> _Model:
    """`document` as `model`. Raises `errors.Invalid` for the first problem, listing the others."""
    try:
        return model.model_validate(document)
    except pydantic.ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        field = ".".join(str(part) for part in found[0]["loc"]) or None
        message = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'the body'}: {one['msg']}" for one in found[:5])
        raise errors.Invalid(message, field=field, remedy=_remedy(field or "", found[0]["type"])) from error


def owner(request: web.Request) -> scope.Scope:
    """The scope in the query: clientId (mandatory, "" for global), projectId, groupId."""
    names = ("clientId", "projectId", "groupId")
    given: Mapping[str, str] = {name: request.query[name] for name in names if name in request.query}
    return validate(given, scope.Scope)


def urgency(request: web.Request) -> priority.Priority | None:
    """The priority that the caller named, if any."""
    return priority.parse(request.headers.get(priority.HEADER))


def _remedy(field: str, kind: str) -> str:
    name = field.rpartition(".")[2]
    if field == "scope" or name == "clientId":
        return _GLOBAL
    if kind == "missing":
        return f"Add {field}."
    if kind == "extra_forbidden":
        return f"Remove {field}, or check its spelling against /api/v1/openapi.json."
    return "See the field's schema in /api/v1/openapi.json."
