"""Which values of `format` Ollama takes, and the words in which it refuses the others. Pure.

Source: `Completion` in Ollama's `llm/server.go`, and `json-schema-to-grammar.cpp` of its llama.cpp.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

_TYPES = {"boolean", "number", "integer", "string", "null", "object", "array"}
_MAPS = ("properties", "$defs", "definitions")


def problem(value: Any) -> str:
    """Why Ollama refuses this `format`; empty for one that it takes."""
    if value in (None, "", "json") and not isinstance(value, bool):
        return ""
    if not isinstance(value, dict):
        written = json.dumps(json.dumps(value, separators=(",", ":")))
        return f'invalid format: {written}; expected "json" or a valid JSON Schema object'
    return "" if all(_compiles(part, value) for part in _parts(value)) else "invalid JSON schema in format"


def _compiles(part: dict[str, Any], root: dict[str, Any]) -> bool:
    if "$ref" in part:
        return _refers(part["$ref"], root)
    pattern = part.get("pattern")
    if isinstance(pattern, str) and not (pattern.startswith("^") and pattern.endswith("$")):
        return False
    types = part.get("type", "object")
    return all(isinstance(each, str) and each in _TYPES for each in (types if isinstance(types, list) else [types]))


def _refers(reference: Any, root: Any) -> bool:
    """Whether a reference names a part of the document, as only those do that begin with `#/`."""
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return False
    for name in reference.removeprefix("#/").split("/"):
        if not isinstance(root, dict) or name not in root:
            return False
        root = root[name]
    return True


def _parts(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The schema and those in it."""
    yield schema
    inner = [each for name in _MAPS if isinstance(schema.get(name), dict) for each in schema[name].values()]
    inner += [each for name in ("anyOf", "oneOf", "allOf", "prefixItems") for each in schema.get(name) or ()]
    inner += [schema.get("items"), schema.get("additionalProperties")]
    for each in inner:
        if isinstance(each, dict):
            yield from _parts(each)
