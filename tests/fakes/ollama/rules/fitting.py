"""Make a rule's answer fit the schema that was asked for, whatever that schema is."""

from __future__ import annotations

from typing import Any

from tests.fakes.ollama.rules import generic

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "integer": (int,), "number": (int, float),
}  # fmt: skip


def fit(schema: dict[str, Any], document: dict[str, Any], known: generic.Facts) -> dict[str, Any]:
    """`document` with what the schema has more filled in from the text, and what it cannot take replaced or left
    out.
    """
    filler = generic.Filler(schema, known)
    fields = filler.resolve(schema).get("properties")
    if not isinstance(fields, dict):
        return document
    fitted = {}
    for name, inner in fields.items():
        if name in document and accepts(filler, inner, document[name]):
            fitted[name] = document[name]
        else:
            fitted[name] = filler.value(inner, name, 1)
    return fitted


def accepts(filler: generic.Filler, schema: Any, value: Any) -> bool:
    """Whether the value is of the schema's type and, if it lists values, one of them. Looks into arrays and objects."""
    if not isinstance(schema, dict):
        return True
    schema = filler.resolve(schema)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return any(accepts(filler, choice, value) for choice in schema[union])
    if "enum" in schema and value not in schema["enum"]:
        return False
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if kinds and not any(_is(kind, value) for kind in kinds):
        return False
    if isinstance(value, list):
        return all(accepts(filler, schema.get("items", {}), item) for item in value)
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        if not set(schema.get("required", [])) <= set(value):
            return False
        return all(accepts(filler, fields.get(name, {}), item) for name, item in value.items())
    return True


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))
