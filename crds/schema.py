"""From a pydantic model to the structural OpenAPI schema that a CRD wants.

JSON Schema as pydantic writes it differs in four ways: definitions are referenced instead of spelled out, optional
fields are `anyOf` with null, everything has a title, and defaults may be null. A structural schema allows none of it.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

# Keywords whose values are not schemas and must be copied as they are.
_OPAQUE = ("default", "enum", "required", "pattern")


def structural(model: type[BaseModel]) -> Schema:
    """The schema of `model` by its wire names, without references."""
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
    """Spell a reference out; what stands beside it (a field's description and rules) wins over the definition."""
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
