"""Make a rule's answer fit the schema that was asked for, whatever that schema is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.ollama.rules import generic

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "boolean": (bool,), "null": (type(None),),
    "integer": (int,), "number": (int, float),
}  # fmt: skip
_SHARES = {"very high": 0.95, "high": 0.9, "medium": 0.6, "low": 0.3, "very low": 0.1}


def fit(schema: dict[str, Any], document: dict[str, Any], known: generic.Facts) -> dict[str, Any]:
    """`document` with what the schema has more filled in from the text, and what it cannot take replaced or left
    out.
    """
    filler = generic.Filler(schema, known)
    schema = _branch(filler, filler.resolve(schema), document)
    fields = filler.resolve(schema).get("properties")
    if not isinstance(fields, dict):
        return document
    fitted = {}
    for name, inner in fields.items():
        given = _worded(filler, inner, document.get(name))
        if name in document and accepts(filler, inner, given):
            fitted[name] = given
        else:
            fitted[name] = filler.value(inner, name, 1)
    return fitted


def _branch(filler: generic.Filler, schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Of a choice between objects the one that takes most of what the document has, and refuses least."""
    choices = list(_leaves(filler, schema))
    if choices == [schema] or "properties" in schema:
        return schema

    def taken(choice: dict[str, Any]) -> int:
        fields = choice.get("properties", {})
        given = {name: _worded(filler, fields[name], document[name]) for name in fields if name in document}
        return sum(1 if accepts(filler, fields[name], value) else -1 for name, value in given.items())

    return max(choices, key=taken)


def _leaves(filler: generic.Filler, schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects of a choice, of those within it as well."""
    choices = schema.get("anyOf") or schema.get("oneOf")
    if not choices:
        yield schema
    for choice in choices or ():
        yield from _leaves(filler, filler.resolve(choice))


def _worded(filler: generic.Filler, schema: Any, value: Any) -> Any:
    """A share as the nearest word where words are asked for."""
    words = filler.resolve(schema).get("enum") if isinstance(schema, dict) else None
    if not isinstance(value, float | int) or isinstance(value, bool) or words != list(_SHARES):
        return value
    return min(_SHARES, key=lambda word: abs(_SHARES[word] - value))


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
