"""OpenAPI 3.1 documents made from wire models: a document cannot say anything else than what is validated.

The knowledge base, the router and the history describe their operations with these types; the texts are their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pydantic
from pydantic.json_schema import JsonSchemaMode, models_json_schema

Content = Mapping[str, type[pydantic.BaseModel] | Mapping[str, Any]]
"""Media type -> what travels: a wire model, or a JSON schema."""
TEXT: Mapping[str, Any] = {"type": "string"}


def json(shape: type[pydantic.BaseModel] | Mapping[str, Any]) -> Content:
    """A JSON document of that shape."""
    return {"application/json": shape}


@dataclass(frozen=True)
class Answer:
    """What a status says, the content and the headers that it comes with."""

    text: str
    content: Content = field(default_factory=dict)
    headers: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """One method of one path; `body` must be sent when there is one."""

    method: str
    path: str
    summary: str
    answers: Mapping[int, Answer]
    parameters: Sequence[Mapping[str, Any]] = ()
    body: Content | None = None


def parameter(
    name: str, *, place: str = "query", required: bool = False, text: str = "", schema: Mapping[str, Any] = TEXT
) -> Mapping[str, Any]:
    """`place` is query, path or header."""
    said = {"description": text} if text else {}
    return {"name": name, "in": place, "required": required, **said, "schema": schema}


def document(
    title: str, version: str, operations: Sequence[Operation], *, about: str = "", mode: JsonSchemaMode = "validation"
) -> dict[str, Any]:
    """The document; models are written as they are validated or serialized, after `mode`. `about` describes it all."""
    contents = [one.body or {} for one in operations]
    contents += [answer.content for one in operations for answer in one.answers.values()]
    models = {shape for content in contents for shape in content.values() if isinstance(shape, type)}
    references, definitions = models_json_schema(
        [(model, mode) for model in sorted(models, key=lambda model: model.__name__)],
        by_alias=True,
        ref_template="#/components/schemas/{model}",
    )

    def written(content: Content) -> dict[str, Any]:
        return {
            media: {"schema": references[shape, mode] if isinstance(shape, type) else shape}
            for media, shape in content.items()
        }

    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        answers: dict[str, dict[str, Any]] = {}
        for status, answer in one.answers.items():
            given = {"content": written(answer.content), "headers": answer.headers}
            answers[str(status)] = {"description": answer.text, **{name: said for name, said in given.items() if said}}
        operation: dict[str, Any] = {"summary": one.summary, "responses": answers}
        if one.parameters:
            operation["parameters"] = list(one.parameters)
        if one.body:
            operation["requestBody"] = {"required": True, "content": written(one.body)}
        paths.setdefault(one.path, {})[one.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version, **({"description": about} if about else {})},
        "paths": paths,
        "components": {"schemas": definitions["$defs"]},
    }
