"""Converts a pydantic model to the structural OpenAPI schema that a CRD requires.

A structural schema allows no references, no `anyOf` with null for optional fields, no titles and no null as a default;
pydantic's JSON Schema has all four.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

# Keywords whose values are not schemas and are copied unchanged.
_OPAQUE = ("default", "enum", "required", "pattern")


def structural(model: type[BaseModel]) -> Schema:
    """The schema of `model` with its wire names, without references."""
    raw = model.model_json_schema(by_alias=True, mode="validation")
    return _flatten(raw, raw.get("$defs", {}))


def _flatten(node: Schema, definitions: dict[str, Schema]) -> Schema:
    node = _without_null(_resolve(node, definitions))
    node = _resolve(node, definitions)
    result: Schema = {}
    for key, value in node.items():
        if key in ("title", "$defs") or (key == "default" and value is None):
            continue
        if key == "const":
            result["enum"] = [value]
        elif key == "properties":
            result[key] = {name: _flatten(child, definitions) for name, child in value.items()}
        elif key not in _OPAQUE and isinstance(value, dict):
            result[key] = _flatten(value, definitions)
        else:
            result[key] = value
    return result


def _resolve(node: Schema, definitions: dict[str, Schema]) -> Schema:
    """Replace a reference by its definition; the field's own description and rules override those of the definition."""
    if "$ref" not in node:
        return node
    target = definitions[node["$ref"].rsplit("/", 1)[-1]]
    beside = {key: value for key, value in node.items() if key != "$ref"}
    both = "x-kubernetes-validations"
    if both in target and both in beside:
        beside[both] = [*target[both], *beside[both]]
    return _resolve({**target, **beside}, definitions)


def _without_null(node: Schema) -> Schema:
    if "anyOf" not in node:
        return node
    choices = [choice for choice in node["anyOf"] if choice.get("type") != "null"]
    if len(choices) != 1:
        raise ValueError(f"a structural schema has no unions: {node}")
    return {**choices[0], **{key: value for key, value in node.items() if key != "anyOf"}}
