"""The OpenAPI document of the history and the queue.

Made from the wire models and the bounds that parameters are checked against.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from controllers.archive import query, wire
from crds import VERSION, history, phases, waits

_TEXT = {"type": "string"}
_TICKET = f"A token of the namespace's ServiceAccount for history, with the audience {history.AUDIENCE}."
_PARAMETERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("namespace", "Nothing else than the namespace of the ticket.", _TEXT),
    ("client", "Only tasks of this client.", _TEXT),
    ("phase", "Only tasks that ended so.", {**_TEXT, "enum": sorted(phase.value for phase in phases.TERMINAL)}),
    ("name", "Only tasks of this name; there may have been several, one after the other.", _TEXT),
    (
        "limit",
        "Maximum number of tasks.",
        {"type": "integer", "minimum": 1, "maximum": query.MOST, "default": query.USUAL},
    ),
    ("since", "Only tasks that ended at this RFC 3339 time or later.", _TEXT),
    ("before", "Only tasks that ended before this RFC 3339 time; or `next` of the page before.", _TEXT),
)
_QUEUE_CODES = ("400", "401", "403", "429", "503")
_FAILURES = {
    "400": "A parameter is wrong; the error names it and the remedy.",
    "401": "No ticket, or one that is not valid (any more).",
    "403": "The ticket is for another namespace.",
    "404": "Nothing is known of a task of that uid in this namespace.",
    "429": "The namespace asks too often; ask again after Retry-After seconds, or follow the events.",
    "503": "MongoDB is away, the operator starts, or too many listen; ask again after Retry-After seconds.",
}
_REPLIES = (wire.Page, wire.Whole, wire.Result, wire.Failure, waits.Queue)
_QUEUE_PARAMETERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("namespace", "Nothing else than the namespace of the ticket.", _TEXT),
    ("client", "Only tasks of this client.", _TEXT),
    (
        "limit",
        "Maximum number of waiting tasks.",
        {"type": "integer", "minimum": 1, "maximum": query.MOST, "default": query.MOST},
    ),
)


def document() -> dict[str, Any]:
    """OpenAPI 3.1."""
    references, definitions = models_json_schema(
        [(reply, "serialization") for reply in _REPLIES], by_alias=True, ref_template="#/components/schemas/{model}"
    )
    page, whole, result, failure, queue = (
        {"application/json": {"schema": references[one, "serialization"]}} for one in _REPLIES
    )
    listed, narrowed = (
        [
            {"name": name, "in": "query", "required": False, "description": text, "schema": schema}
            for name, text, schema in parameters
        ]
        for parameters in (_PARAMETERS, _QUEUE_PARAMETERS)
    )
    stream = {"text/event-stream": {"schema": _TEXT}}
    changes = "The same as server-sent events: `event: queue` with the document as `data` whenever it changes"
    key = {"name": "uid", "in": "path", "required": True, "schema": {**_TEXT, "format": "uuid"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jervis history and queue", "version": VERSION},
        "paths": {
            "/api/v1/history": {
                "get": _operation("Finished tasks, the latest first", listed, page, failure, "400", "401", "403", "503")
            },
            "/api/v1/history/{uid}": {
                "get": _operation("Everything about one of them", [key], whole, failure, "400", "401", "404", "503")
            },
            "/api/v1/results/{uid}": {
                "get": _operation(
                    "What the last run of a task stored; of one that lives as well",
                    [key],
                    result,
                    failure,
                    *("400", "401", "404", "503"),
                )
            },
            "/api/v1/queue": {
                "get": _operation("What waits, for what, and since when", narrowed, queue, failure, *_QUEUE_CODES)
            },
            "/api/v1/queue/events": {"get": _operation(changes, narrowed, stream, failure, *_QUEUE_CODES)},
        },
        "components": {
            "schemas": definitions["$defs"],
            "securitySchemes": {
                "ticket": {"type": "apiKey", "in": "header", "name": history.TICKET_HEADER, "description": _TICKET},
                "bearer": {"type": "http", "scheme": "bearer", "description": _TICKET},
            },
        },
        "security": [{"ticket": []}, {"bearer": []}],
    }


def _operation(
    text: str, parameters: list[dict[str, Any]], reply: dict[str, Any], failure: dict[str, Any], *codes: str
) -> dict[str, Any]:
    failures: dict[str, Any] = {code: {"description": _FAILURES[code], "content": failure} for code in codes}
    for code in failures.keys() & {"429", "503"}:
        failures[code]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    responses = {"200": {"description": text, "content": reply}, **failures}
    return {"summary": text, "parameters": parameters, "responses": responses}
