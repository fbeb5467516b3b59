"""The OpenAPI document of the history, made from the wire models and the bounds that parameters are checked against."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from controllers.archive import query, wire
from crds import VERSION, phases

_TEXT = {"type": "string"}
_PARAMETERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("namespace", "Only tasks of this namespace.", _TEXT),
    ("client", "Only tasks of this client.", _TEXT),
    ("phase", "Only tasks that ended so.", {**_TEXT, "enum": sorted(phase.value for phase in phases.TERMINAL)}),
    (
        "limit",
        "How many at the most.",
        {"type": "integer", "minimum": 1, "maximum": query.MOST, "default": query.USUAL},
    ),
    ("before", "Only tasks that ended before this RFC 3339 time; or `next` of the page before.", _TEXT),
)
_FAILURES = {
    "400": "A parameter is wrong; the error names it and the remedy.",
    "404": "No task of that uid was archived.",
    "503": "MongoDB is away; ask again after Retry-After seconds.",
}
_REPLIES = (wire.Page, wire.Whole, wire.Failure)


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    references, definitions = models_json_schema(
        [(reply, "serialization") for reply in _REPLIES], by_alias=True, ref_template="#/components/schemas/{model}"
    )
    page, whole, failure = ({"application/json": {"schema": references[one, "serialization"]}} for one in _REPLIES)
    listed = [
        {"name": name, "in": "query", "required": False, "description": told, "schema": schema}
        for name, told, schema in _PARAMETERS
    ]
    key = {"name": "uid", "in": "path", "required": True, "schema": {**_TEXT, "format": "uuid"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jervis history", "version": VERSION},
        "paths": {
            "/api/v1/history": {
                "get": _operation("Finished tasks, the one that ended last first", listed, page, failure, "400", "503")
            },
            "/api/v1/history/{uid}": {
                "get": _operation("Everything about one of them", [key], whole, failure, "400", "404", "503")
            },
        },
        "components": {"schemas": definitions["$defs"]},
    }


def _operation(
    told: str, parameters: list[dict[str, Any]], reply: dict[str, Any], failure: dict[str, Any], *codes: str
) -> dict[str, Any]:
    failures: dict[str, Any] = {code: {"description": _FAILURES[code], "content": failure} for code in codes}
    failures["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    responses = {"200": {"description": told, "content": reply}, **failures}
    return {"summary": told, "parameters": parameters, "responses": responses}
