"""The OpenAPI document, made from the wire models: it cannot say anything else than what is validated."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pydantic
from aiohttp import web
from pydantic.json_schema import models_json_schema

from crds import priority
from kb import api


@dataclass(frozen=True)
class Route:
    """One operation. `body` and `reply` are wire models; `raw` names a media type where bytes travel instead.

    `query` and `optional` are all its parameters, others are refused; those in `repeated` may be given several times.
    Names that begin with `prefix` are the caller's own.
    """

    method: str
    path: str
    summary: str
    status: int = 200
    body: type[pydantic.BaseModel] | None = None
    reply: type[pydantic.BaseModel] | None = None
    raw_body: bool = False
    raw_reply: bool = False
    query: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    prefix: str | None = None


Served = tuple[Route, Callable[[web.Request], Awaitable[web.StreamResponse]]]
"""A route and what answers it."""
SCOPE = ("clientId", "projectId", "groupId")
INGEST = Route("POST", "/api/v1/ingest/full", "Make a document known", body=api.IngestRequest, reply=api.IngestReply)
FORGET = Route("DELETE", "/api/v1/documents", "Forget a document", status=204, query=("sourceUrn", *SCOPE))
RETRIEVE = Route(
    "POST", "/api/v1/retrieve", "Evidence for a question", body=api.RetrieveRequest, reply=api.RetrieveReply
)
SAVE = Route(
    "POST", "/api/v1/content", "Store large content", status=201, raw_body=True, reply=api.ContentRef, query=SCOPE
)
LOAD = Route("GET", "/api/v1/content/{key}", "Stored content", raw_reply=True, query=SCOPE)

_FAILURES = {
    "400": "the body is not JSON",
    "401": "a bearer token is needed, or this one is unknown",
    "403": "the token is not for this scope, or not for writing",
    "404": "not there, or not visible in this scope",
    "408": "the body did not arrive in time",
    "413": "too large",
    "422": "a field is wrong; the error names it and the remedy",
    "429": "too many writers wait; see Retry-After",
    "503": "a store or the router is away; see Retry-After",
}
_OPTIONAL = frozenset({"projectId", "groupId"})


def document(routes: Sequence[Route], version: str) -> dict[str, Any]:
    """OpenAPI 3.1 of the given routes."""
    models = {model for route in routes for model in (route.body, route.reply) if model} | {api.ErrorReply}
    ordered = sorted(models, key=lambda model: model.__name__)
    references, definitions = models_json_schema(
        [(model, "validation") for model in ordered], by_alias=True, ref_template="#/components/schemas/{model}"
    )
    schemas = {model: references[(model, "validation")] for model in ordered}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jervis knowledge base", "version": version},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }


def _operation(route: Route, schemas: dict[type[pydantic.BaseModel], Any]) -> dict[str, Any]:
    success: dict[str, Any] = {"description": route.summary}
    if route.reply:
        success["content"] = {"application/json": {"schema": schemas[route.reply]}}
    if route.raw_reply:
        success["content"] = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    failure = {"application/json": {"schema": schemas[api.ErrorReply]}}
    responses = {str(route.status): success}
    responses |= {status: {"description": text, "content": failure} for status, text in _FAILURES.items()}
    operation: dict[str, Any] = {"summary": route.summary, "parameters": _parameters(route), "responses": responses}
    if route.body:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": schemas[route.body]}},
        }
    if route.raw_body:
        operation["requestBody"] = {
            "required": True,
            "content": {"*/*": {"schema": {"type": "string", "format": "binary"}}},
        }
    return operation


def _parameters(route: Route) -> list[dict[str, Any]]:
    text = {"type": "string"}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "required": name not in _OPTIONAL, "schema": text} for name in route.query
    ]
    several = {"type": "array", "items": text}
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": several if name in route.repeated else text}
        for name in route.optional
    ]
    for name in re.findall(r"{(\w+)}", route.path):
        parameters.append({"name": name, "in": "path", "required": True, "schema": text})
    about = "0..3 or P0..P3, 0 is the most urgent; 0..2 take the fast lane and it is passed on to the models"
    parameters.append({"name": priority.HEADER, "in": "header", "schema": text, "description": about})
    return parameters
