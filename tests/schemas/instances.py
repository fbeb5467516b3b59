"""Answers to a schema as it is sent: one that fits, and pairs that differ in one place, of which one fits."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema

_LEAF: Mapping[str, Any] = {
    "string": 'a "word"',
    "integer": 7,
    "number": 1.5,
    "boolean": True,
    "null": None,
    "object": {},
}


def fitting(schema: Mapping[str, Any], *, every: bool = False) -> Any:
    """A value with what is required, or with all properties."""
    if "anyOf" in schema:
        return fitting(schema["anyOf"][0], every=every)
    if "enum" in schema:
        return schema["enum"][-1]
    if schema["type"] == "array":
        count = max(schema.get("minItems", 0), min(2, schema.get("maxItems", 2)) if every else 0)
        return [fitting(schema["items"], every=every)] * count if "items" in schema else []
    if "properties" in schema:
        required = schema.get("required", ())
        return {
            name: fitting(part, every=every) for name, part in schema["properties"].items() if every or name in required
        }
    return _LEAF[schema["type"]]


def pairs(schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Of each part, in each branch and at each depth: a value of the schema, and the same with something wrong in that
    place alone. An engine that takes the first refuses the second for what is wrong."""
    validator = jsonschema.Draft202012Validator(schema)
    # What one branch refuses, another one may take.
    yield from ((right, wrong) for right, wrong in _pairs(schema) if not validator.is_valid(wrong))


def _pairs(schema: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    if "anyOf" in schema:
        for part in schema["anyOf"]:
            yield from _pairs(part)
        return
    right = fitting(schema)
    yield right, "text" if isinstance(right, list | dict) else [right]
    if "enum" in schema:
        yield right, not right if isinstance(right, bool) else f"{right} too" if isinstance(right, str) else 1_000_003
    if "items" in schema:
        count = max(schema.get("minItems", 0), 1)
        for item, wrong in _pairs(schema["items"]):
            yield [item] * count, [*[item] * (count - 1), wrong]
    if "properties" in schema:
        required = schema.get("required", ())
        yield right, {**right, "zz": 1}
        yield from ((right, {key: value for key, value in right.items() if key != name}) for name in required)
        for name, part in schema["properties"].items():
            # In the order of the properties, which engines demand.
            beside = {key: fitting(each) for key, each in schema["properties"].items() if key in {*required, name}}
            yield from ((beside | {name: value}, beside | {name: wrong}) for value, wrong in _pairs(part))


def ordered(part: Any) -> Any:
    """The schema with the properties in the order of llama.cpp's grammar: what is required before what may be left
    out."""
    if isinstance(part, list):
        return [ordered(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    made = {key: ordered(value) for key, value in part.items()}
    if "properties" in part:
        required = part.get("required", ())
        made["properties"] = dict(sorted(made["properties"].items(), key=lambda named: named[0] not in required))
    return made


def written(value: Any) -> bytes:
    """As models write it, and as both engines take it by default."""
    return json.dumps(value, ensure_ascii=False).encode()
