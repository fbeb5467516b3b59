"""Schemas as servers of the Model Context Protocol list them for their tools: valid ones that no grammar takes, and
such as are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BOUND: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "maxLength": 2001}},
    "required": ["text"],
    "additionalProperties": False,
}
"""A schema of a single text whose bound kills the runner of Ollama 0.17.4."""
MANY: dict[str, Any] = {
    "type": "object",
    "properties": {"rows": {"type": "array", "maxItems": 20_000, "items": {"type": "string", "maxLength": 20_000}}},
    "required": ["rows"],
}


def _wide(levels: int, width: int) -> dict[str, Any]:
    """References to the next level from each of `width` properties: `width ** levels` parts."""
    last = {f"level{levels}": {"type": "string"}}
    parts = {
        f"level{level}": {
            "type": "object",
            "properties": {f"part{number}": {"$ref": f"#/$defs/level{level + 1}"} for number in range(width)},
        }
        for level in range(levels)
    }
    return {"$ref": "#/$defs/level0", "$defs": parts | last}


def _deep(levels: int) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "integer"}
    for level in range(levels):
        part = {"type": "object", "properties": {f"in{level}": part}, "required": [f"in{level}"]}
    return part


LISTED: Mapping[str, Any] = {
    "empty": {},
    "nothing": {"type": "object", "properties": {}, "additionalProperties": False},
    "reference": {
        "type": "object",
        "properties": {"from": {"$ref": "#/$defs/place"}, "to": {"$ref": "#/definitions/old%20place"}},
        "required": ["from"],
        "$defs": {"place": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]}},
        "definitions": {"old place": {"type": "string", "format": "iri-reference"}},
    },
    "recursive": {
        "$defs": {
            "folder": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "parent": {"$ref": "#/$defs/folder"},
                    "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
                },
                "required": ["name"],
            },
            "file": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/folder"}]},
        },
        "type": "object",
        "properties": {"root": {"$ref": "#/$defs/folder"}},
        "required": ["root"],
    },
    "itself": {"type": "object", "properties": {"next": {"$ref": "#"}, "value": {"type": "integer"}}},
    "wide": _wide(levels=5, width=12),
    "deep": _deep(30),
    "one of two": {
        "oneOf": [
            {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
            {"type": "object", "properties": {"name": {"type": "string"}, "id": {"type": "null"}}},
        ]
    },
    "one of two beside properties": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
    },
    "all of": {
        "allOf": [
            {"type": "object", "properties": {"since": {"type": "string", "format": "date"}}, "required": ["since"]},
            {"properties": {"until": {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$"}}},
        ]
    },
    "pattern": {
        "type": "object",
        "properties": {
            "key": {"type": "string", "pattern": r"^(?!x)(a|aa)+$"},
            "n": {"type": "string", "minLength": 9},
        },
        "patternProperties": {"^x-": {"type": "string"}},
        "required": ["key"],
    },
    "long": BOUND,
    "many": MANY,
    "type list": {
        "type": ["object", "null"],
        "properties": {"at": {"type": ["integer", "string", "null"]}, "on": {"type": ["object", "boolean"]}},
    },
    "constant": {
        "type": "object",
        "properties": {"version": {"const": 2}, "how": {"const": {"a": [1]}}, "off": {"const": None}},
        "required": ["version", "how"],
    },
    "tuple": {
        "type": "object",
        "properties": {
            "point": {"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": False},
            "range": {"type": "array", "items": [{"type": "integer"}, {"type": "integer"}], "minItems": 2},
        },
        "required": ["point"],
    },
    "true and false": {
        "type": "object",
        "properties": {"any": True, "never": False, "also": {"type": "array", "items": True}},
        "required": ["any"],
        "additionalProperties": True,
    },
    "names": {
        "type": "object",
        "properties": {
            "příliš žluťoučký": {"type": "string"},
            "名前": {"type": "integer"},
            'a "quoted" name\\': {"type": "boolean"},
            "$ref": {"type": "string"},
            "a.b*[c]": {"type": "string"},
            "a b": {"type": "string"},
            "a-b": {"type": "number"},
            "": {"type": "string"},
            "half \ud800": {"type": "string"},
        },
        "required": ["名前", "$ref"],
    },
    "nullable": {
        "type": "object",
        "properties": {
            "due": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]},
            "who": {"type": "string", "nullable": True},
        },
    },
    "values": {
        "type": "object",
        "properties": {
            "mixed": {"enum": ["on", 1, 2.5, None, True]},
            "wrong": {"type": "integer", "enum": ["1", "2"]},
            "part": {"type": ["string", "null"], "enum": ["a", None, 3]},
            "odd": {"type": "string", "enum": ['say "hi"', "back\\slash", "line\nbreak", "[1+1=2?]", "ž 🐎"]},
            "nested": {"enum": [{"a": 1}, [2]]},
            "many": {"type": "string", "enum": [f"value {number}" for number in range(3000)]},
            "none": {"type": "string", "enum": []},
        },
        "required": ["mixed"],
    },
    "bounds against each other": {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "string"}, "minItems": 5, "maxItems": 2},
            "number": {"type": "integer", "minimum": 10, "maximum": 3},
        },
        "required": ["list"],
    },
    "conditions": {
        "type": "object",
        "properties": {"kind": {"type": "string"}, "size": {"not": {"type": "string"}}},
        "if": {"properties": {"kind": {"const": "big"}}},
        "then": {"required": ["size"]},
        "dependentRequired": {"size": ["kind"]},
        "unevaluatedProperties": False,
    },
    "maps": {
        "type": "object",
        "properties": {
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "closed": {"type": "object", "additionalProperties": False},
            "free": {"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "maxProperties": 3},
        },
        "required": ["labels"],
    },
    "many properties": {"type": "object", "properties": {f"field{number}": {"type": "string"} for number in range(40)}},
    "wrong": {
        "type": "object",
        "required": True,
        "properties": {
            "a": {"type": {"of": "string"}},
            "b": {"type": "text", "required": True},
            "c": {"type": [["string"]], "enum": "abc"},
            "d": {"anyOf": {}},
            "e": "string",
            "f": {"type": "object", "properties": ["a"]},
            "g": {"type": "array", "items": "string", "maxItems": "many", "prefixItems": 3},
            "h": {"$ref": "#/nowhere/0/at all"},
            "i": {"allOf": "x", "description": 7},
        },
        "description": ["no", "text"],
    },
    "no object": {"type": "string"},
}
"""Name: what a server gives as `inputSchema`."""
