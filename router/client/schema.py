"""What a model is asked to answer with, as JSON Schema: the one place that makes it, for answers and for tools. Pure.

A `Shape` is what the program reads, with all its bounds; `wire` is what is sent of it. Engines turn a schema into a
grammar, and grammars have limits: Ollama's runner dies of a text of 2,001 characters or a list of 400 objects
(decision 0177). So no bound is sent but those of short lists and of one text, no pattern, no reference and nothing
recursive; what is bounded is cut when the answer is read (`router.client.reading`), and `num_predict` bounds the whole.
What a grammar can hold is in it: values of an enum, the numbers of the evidence, the names of tools and agents, words
for shares.

Source: llama.cpp's json-schema-to-grammar, Ollama's `ToolProperty` (of a tool's parameters it keeps type, items, enum,
anyOf, properties and description alone: a `$ref` becomes nothing there).
"""

from __future__ import annotations

import enum
import functools
import itertools
import json
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, NewType

import pydantic

from router.client import resolving
from text import surrogates

Choices = Mapping[str, Sequence[str | int]]
"""Name of a property, as it is sent -> the values that it, or each item of it, may have."""
Wire = NewType("Wire", dict[str, Any])
"""A schema that was made here."""
Parameters = NewType("Parameters", dict[str, Any])
"""The same for the parameters of a tool."""

LONGEST_LIST = 16
"""The longest list whose bound is sent: each item is a rule of its own in a grammar."""
MOST_CHOICES = 100
"""More values than these are no enum: they are checked when the answer is read."""
MOST_PARAMETERS = 20_000
"""Characters of the parameters of one tool: as many as the schema of another server's tool may have. Where definitions
take the place of references there are more of them."""
SHARE = "x-share"
"""Marks a share in a schema of `whole`."""
WORDS: Mapping[str, float] = {"very high": 0.95, "high": 0.9, "medium": 0.6, "low": 0.3, "very low": 0.1}
"""What a model says of a share, which it cannot count: the first has no doubt left."""

UNROLLED = 200
"""The most values that a list with a bound may have: engines that make automata have the states of an item as often."""
MOST_CALL, MOST_CALLS = 400, 200
"""The largest grammar of the arguments of one tool, and of those of several that one answer can call, as `_weight`
has it: outlines-core takes two seconds for the second with a vocabulary of 30,000 tokens, and soon minutes for more."""

_OBJECT_WEIGHT = 110
"""Of an object of which nothing is known: it is any JSON, down to a level."""
_ANY = tuple({"type": kind} for kind in ("string", "number", "boolean", "null", "object", "array"))
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
# The quantifiers `*+` are possessive: a number before a million blanks is scanned once.
_COMMENT = r"[ \t]*+(?:[(\[,;].*|(?<=[ \t])[-\u2013\u2014][ \t]\D.*|\.(?!\d).*)?"
"""What a model writes behind a share, apart from it."""
_NUMBER = re.compile(
    r"(-?\d{0,9}[.,]\d{1,20}(?:e[+-]?\d{1,3})?|-?\d{1,9}(?:e[+-]?\d{1,3})?)"
    rf"(?:[ \t]*+(%|per ?cent|(?:/|out of|of|in)[ \t]*+(\d{{1,3}})))?{_COMMENT}",
    re.DOTALL,
)
_WORD = re.compile(rf"([a-z]+(?: [a-z]+)?){_COMMENT}", re.DOTALL)
_ALL_WORDS = {**WORDS, "moderate": WORDS["medium"], "certain": WORDS["very high"]}


def share(value: object) -> float | None:
    """The share from 0 to 1 in a model's answer: 0.85, "0,85", "85 %", 85, "8/10", "8 of 10", "high"; None for what is
    none, and for words around it that may turn it."""
    if not isinstance(value, str):
        return _counted(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    # With compatibility forms: a Chinese or Japanese text has wide digits and a wide percent sign.
    bare = unicodedata.normalize("NFKC", value).strip().strip("*_`\"'[]|").strip().lower()
    match = _NUMBER.fullmatch(bare)
    if match is None:
        word = _WORD.fullmatch(bare)
        return None if word is None else _ALL_WORDS.get(word[1])
    number = float(match[1].replace(",", "."))
    if match[2] is None:
        return _counted(number)
    most = int(match[3] or 100)
    return _counted(number / most) if 0 <= number <= most > 0 else None


def _counted(number: float) -> float | None:
    if 10 < number <= 100 and number == int(number):
        number /= 100
    return number if 0 <= number <= 1 else None


def _share(value: object) -> object:
    read = share(value)
    if read is None:
        raise ValueError(f"must be one of {', '.join(WORDS)}, or a number from 0 to 1")
    return read


Share = Annotated[
    float,
    pydantic.BeforeValidator(_share),
    pydantic.WithJsonSchema({"type": "string", "enum": list(WORDS), SHARE: True}),
]
"""A share from 0 to 1: a word where a model is asked, a number everywhere else."""


class Shape(pydantic.BaseModel):
    """The answer that a model is asked for. Its fields stand in the order in which they are written: a reason before
    the verdict that it is for.

    `cautious`: what a field that has no default is where a model's answer lacks it, or has nothing usable there.
    `numbered`: lists whose items name each other by their numbers, so that nothing may be taken out of them.
    `telling`: lists that may be left out; of one that is there not everything may be lost.
    `ended`: texts that small models do not end, so that what stands after them is never written: their bound is sent.
    Each character of it is ten states of outlines-core's automaton."""

    cautious: ClassVar[Mapping[str, Any]] = {}
    numbered: ClassVar[frozenset[str]] = frozenset()
    telling: ClassVar[frozenset[str]] = frozenset()
    ended: ClassVar[frozenset[str]] = frozenset()


# Bounded: tools of others come and go, and with them the classes that are made of them.
@functools.lru_cache(maxsize=512)
def whole(shape: type[Shape]) -> Mapping[str, Any]:
    """The schema of a shape with its bounds, by the names that are sent, without references."""
    listed = shape.model_json_schema(by_alias=True)
    return resolving.Resolver(listed).part(listed)


def chosen(schema: Mapping[str, Any], choices: Choices) -> dict[str, Any]:
    """`schema` of `whole` with the values that each property of `choices` may have. A property without any value left
    is gone: a list of citations where there is no evidence."""
    made = dict(schema)
    if isinstance(properties := made.get("properties"), Mapping):
        kept = {name: part for name, part in properties.items() if choices.get(name) is None or choices[name]}
        made["properties"] = {
            name: _among(part, choices[name]) if name in choices else chosen(part, choices)
            for name, part in kept.items()
        }
        made["required"] = [name for name in made.get("required", ()) if name in kept]
    if isinstance(items := made.get("items"), Mapping):
        made["items"] = chosen(items, choices)
    if isinstance(several := made.get("anyOf"), list):
        made["anyOf"] = [chosen(part, choices) for part in several]
    return made


def _among(schema: Mapping[str, Any], values: Sequence[str | int]) -> dict[str, Any]:
    """A property, or the items of a list, of these values."""
    if schema.get("type") == "array":
        return {**schema, "items": _among(schema.get("items", {}), values)}
    kind = "integer" if all(isinstance(value, int) for value in values) else "string"
    return {"type": kind, **({"enum": list(values)} if len(values) <= MOST_CHOICES else {})}


def wire(
    *shapes: type[Shape],
    choices: Choices | None = None,
    counts: Mapping[str, int] | None = None,
    most: Mapping[str, int] | None = None,
) -> Wire:
    """What is sent as `format`: an object of one of the shapes. A choice between shapes takes the place of a flag.

    `counts` are the lengths of lists of the shape that are known, `most` those that lists can have at most."""
    values = {name: list(values) for name, values in (choices or {}).items()}
    return _sent(shapes, json.dumps([values, dict(counts or {}), dict(most or {})]))


@functools.lru_cache(maxsize=512)
def _sent(shapes: tuple[type[Shape], ...], known: str) -> Wire:
    choices, counts, most = json.loads(known)
    wholes = [chosen(whole(shape), choices) for shape in shapes]
    for name, count in most.items():
        for listed in wholes:
            if name in listed["properties"]:
                part = listed["properties"][name]
                part["maxItems"] = min(count, part.get("maxItems", count))
    parts = [_stripped(listed, _For.ANSWER) for listed in wholes]
    for shape, listed, part in zip(shapes, wholes, parts, strict=True):
        for name in shape.ended:
            part["properties"][name]["maxLength"] = listed["properties"][name]["maxLength"]
    for name, count in counts.items():
        for part in parts:
            if name in part["properties"] and count <= LONGEST_LIST:
                part["properties"][name] |= {"minItems": count, "maxItems": count}
    return Wire(parts[0] if len(parts) == 1 else {"anyOf": parts})


def ends(sent: Mapping[str, Any]) -> bool:
    """Whether every list in a schema but those of texts has a bound, so that its grammar ends it."""
    items = sent.get("items")
    if items is not None and "maxItems" not in sent and items.get("type") != "string":
        return False
    below = [*sent.get("anyOf", ()), *sent.get("properties", {}).values(), items]
    return all(ends(part) for part in below if part)


def parameters(source: type[pydantic.BaseModel] | Mapping[str, Any]) -> Parameters:
    """The parameters of a tool as models are offered them: a class of ours, or the schema of another server's tool, of
    which all that cannot be sent is left out, and of a large one what is deep in it. Always an object; a model of the
    backend checks nothing of it."""
    listed = source if isinstance(source, Mapping) else source.model_json_schema(by_alias=True)
    made: dict[str, Any] = {}
    for parts in resolving.PARTS:
        made = _stripped(resolving.flat(resolving.Resolver(listed, parts).part(listed)), _For.TOOL)
        if len(json.dumps(made, ensure_ascii=False)) <= MOST_PARAMETERS:
            break
    kept: dict[str, Any] = {
        key: made[key] for key in ("description", "required", "additionalProperties") if key in made
    }
    return Parameters({**kept, "type": "object", "properties": made.get("properties", {})})


def holding(sent: Wire, name: str, takes: Parameters | None) -> Wire:
    """One shape whose property `name` is what a tool takes; None: the tool takes nothing, and the property is gone."""
    properties = {key: part for key, part in sent["properties"].items() if key != name or takes is not None}
    if takes is not None:
        properties[name] = _arguments(takes)
    required = [key for key in sent.get("required", ()) if key in properties]
    return Wire({**sent, "properties": properties, "required": required})


def either(*sent: Wire) -> Wire:
    """An object of one of these."""
    return Wire(resolving.joined(sent))


def functions(names: Sequence[tuple[str, Parameters]]) -> Wire:
    """One call of a tool as an answer, for a model that cannot call: its name, and what it takes."""
    return Wire({"anyOf": [*calls(names, _call), _object({"answer": {"type": "string"}})]})


def calls(
    tools: Sequence[tuple[str, Parameters | None]], shape: Callable[[Sequence[str], Parameters | None], Wire]
) -> list[Wire]:
    """The shapes of a call of one of these tools, in their order; None: the tool takes nothing. `shape` makes one, of
    any of some names with these arguments. Tools for which the grammar has no room share the last, with any object."""
    arguments = {name: takes if takes is None else _arguments(takes) for name, takes in tools}
    # The smallest first: they are the most whose arguments the grammar holds.
    smallest = sorted(arguments, key=lambda name: _weight(arguments[name] or {}))
    weights = itertools.accumulate(_weight(arguments[name] or {}) for name in smallest)
    held = {name for name, weight in zip(smallest, weights, strict=True) if weight <= MOST_CALLS or name == smallest[0]}
    made = [shape([name], takes) for name, takes in arguments.items() if name in held]
    if others := [name for name in arguments if name not in held]:
        made.append(shape(others, Parameters({"type": "object"})))
    return made


def _call(names: Sequence[str], arguments: Parameters | None) -> Wire:
    return Wire(_object({"name": {"type": "string", "enum": list(names)}, "arguments": arguments}))


def _arguments(takes: Parameters) -> Parameters:
    """The arguments of a call in a grammar. Where it would be too large they are any object: what takes the call checks
    them in any case."""
    made = _stripped(takes, _For.CALL)
    return Parameters(made if _weight(made) <= MOST_CALL else {"type": "object"})


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def sketch(schema: Mapping[str, Any]) -> str:
    """A schema in a few words, for the prompt: engines that ignore `format` leave the shape to the model."""
    return " or ".join(dict.fromkeys(_sketched(part) for part in schema.get("anyOf", [schema])))


def _sketched(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        values = [json.dumps(value, ensure_ascii=False) for value in schema["enum"]]
        return " | ".join(values if len(values) <= 20 else [*values[:20], "..."])
    if "anyOf" in schema:
        return "value" if schema["anyOf"] == list(_ANY) else sketch(schema)
    if schema.get("type") == "array":
        return f"[{_sketched(schema.get('items', {}))}, ...]"
    if properties := schema.get("properties"):
        fields = [f"{json.dumps(name)}: {_sketched(part)}" for name, part in properties.items()]
        return "{" + ", ".join(fields) + "}"
    kind: str = schema.get("type", "value")
    return {"object": "{...}", "boolean": "true | false", "null": "null"}.get(kind, kind)


class _For(enum.Enum):
    """What a schema is sent for."""

    ANSWER = enum.auto()
    TOOL = enum.auto()
    """Parameters in `tools`: they are read by a model, and no grammar is made of them."""
    CALL = enum.auto()
    """The same in a grammar."""


def _stripped(schema: Mapping[str, Any], use: _For) -> dict[str, Any]:
    """What may be sent of a schema of a `Resolver`. No grammar has descriptions; parameters of a tool have them."""
    made: dict[str, Any] = {}
    if use is _For.TOOL and isinstance(schema.get("description"), str):
        made["description"] = surrogates.clean(schema["description"])
    if isinstance(several := schema.get("anyOf"), Sequence):
        parts = [_stripped(part, use) for part in several if isinstance(part, Mapping)]
        # A text of a form or null is a text or null, twice.
        return {**made, **_opened(resolving.joined(parts), use)}
    kinds, values = _kinds(schema), _values(schema)
    if fitting := [value for value in values if not kinds or _kind(value) & set(kinds)] or values:
        if use is _For.TOOL or len(fitting) <= MOST_CHOICES:
            made["enum"] = fitting
        # A list of types is a rule for each of them, and values say their types.
        own = {kind for value in fitting for kind in _kind(value)}
        return made | ({"type": kinds[0]} if len(kinds) == 1 and kinds[0] in own else _typed(fitting, made))
    if len(kinds) > 1:
        bare = {key: value for key, value in schema.items() if key != "description"}
        return {**made, "anyOf": [_stripped({**bare, "type": kind}, use) for kind in kinds]}
    if kinds:
        made["type"] = kinds[0]
    if made.get("type") == "array":
        made |= _list_of(_stripped(schema.get("items", {}), use), schema)
    elif made.get("type", "object") == "object":
        made |= _object_of(schema, use)
    return _opened(made, use)


def _list_of(items: dict[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {"items": items}
    most, least = schema.get("maxItems"), schema.get("minItems")
    for key, bound in (("maxItems", most), ("minItems", least)):
        if isinstance(bound, int) and 0 < bound <= LONGEST_LIST and bound * _fields(items) <= UNROLLED:
            made[key] = bound
    if made.get("minItems", 0) > made.get("maxItems", LONGEST_LIST):
        made.pop("maxItems")
    return made


def _object_of(schema: Mapping[str, Any], use: _For) -> dict[str, Any]:
    listed = schema.get("properties")
    properties = {name: part for name, part in (listed or {}).items() if _nameable(name, use)}
    if not properties:
        # Engines take an object without properties for an empty one, where properties are listed.
        empty = listed == {} and schema.get("additionalProperties") is False
        return {"type": "object", "properties": {}, "additionalProperties": False} if empty else {}
    required = [name for name in resolving.texts(schema.get("required")) if name in properties]
    if use is _For.ANSWER and required:
        # llama.cpp's grammar has what is required first, so that a verdict would come before the reason that it is for.
        names = list(properties)
        last = max(map(names.index, required))
        required = [name for name in names[: last + 1] if name in required or _is_text(properties[name])]
    made: dict[str, Any] = {
        "type": "object",
        "properties": {name: _stripped(part, use) for name, part in properties.items()},
    }
    made |= {"required": required} if required else {}
    # Engines differ in what they take its absence for.
    return made | ({} if use is _For.TOOL else {"additionalProperties": False})


def _nameable(name: str, use: _For) -> bool:
    """llama.cpp's converter takes a property "$ref" for a reference, and fails. outlines-core writes a name as it is,
    so that a quotation mark in it ends it."""
    plain = json.dumps(name, ensure_ascii=False) == f'"{name}"' or use is _For.TOOL
    return plain and name != "$ref" and surrogates.clean(name) == name


def _opened(made: dict[str, Any], use: _For) -> dict[str, Any]:
    """llama.cpp makes an object of an empty schema, and outlines-core refuses `true`: a grammar names all types."""
    return (
        {**made, "anyOf": [dict(part) for part in _ANY]} if use is not _For.TOOL and resolving.is_open(made) else made
    )


def _weight(schema: Mapping[str, Any]) -> float:
    """How long the regular expression of a part is that outlines-core makes of it, as a number of texts."""
    if "anyOf" in schema:
        return sum(map(_weight, schema["anyOf"]))
    if "enum" in schema:
        return 1 + len(schema["enum"]) / 4
    if schema.get("type") == "array":
        return 2 * _weight(schema["items"]) if "items" in schema else _OBJECT_WEIGHT
    if schema.get("type") == "object" and "properties" not in schema:
        return _OBJECT_WEIGHT
    properties = schema.get("properties", {})
    # Where nothing is required, each property can be the first, and has a branch of its own.
    branches = 1 if schema.get("required") else (len(properties) + 1) / 2
    return max(1, branches * sum(map(_weight, properties.values())))


def _is_text(schema: Mapping[str, Any]) -> bool:
    return "enum" not in schema and "string" in (
        *_kinds(schema),
        *(part.get("type") for part in schema.get("anyOf", ()) if "enum" not in part),
    )


def _fields(schema: Mapping[str, Any]) -> int:
    """How many values a part has, with those of lists as often as they are unrolled; an enum counts by its letters."""
    if "enum" in schema:
        return max(1, sum(len(str(value)) for value in schema["enum"]) // 20)
    if "anyOf" in schema:
        return sum(map(_fields, schema["anyOf"]))
    if "items" in schema:
        return _fields(schema["items"]) * int(schema.get("maxItems", schema.get("minItems", 1)))
    return sum(map(_fields, schema.get("properties", {}).values())) or 1


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    """The types, each once; none where nothing of what stands there is a type."""
    kinds = schema.get("type")
    return [
        kind for kind in dict.fromkeys([kinds] if isinstance(kinds, str) else resolving.texts(kinds)) if kind in _TYPES
    ]


def _values(schema: Mapping[str, Any]) -> list[Any]:
    """The values of an enum; none where one is a list, an object, or a text that no UTF-8 can have."""
    values = schema.get("enum")
    if not isinstance(values, list) or not all(map(_plain, values)):
        return []
    return list({(type(value), value): value for value in values}.values())


def _kind(value: object) -> set[str]:
    if isinstance(value, bool):
        return {"boolean"}
    if isinstance(value, str):
        return {"string"}
    if value is None:
        return {"null"}
    return {"number", "integer"} if value == int(value) else {"number"}  # type: ignore[call-overload]  # a number


def _typed(values: Sequence[Any], made: Mapping[str, Any]) -> dict[str, Any]:
    """What takes the place of an enum that is not sent."""
    if "enum" in made:
        return {}
    names = [kind for kind in ("string", "boolean", "null", "number") if any(kind in _kind(value) for value in values)]
    return resolving.joined([{"type": name} for name in names])


def _plain(value: object) -> bool:
    if isinstance(value, str):
        return surrogates.clean(value) == value
    return value is None or finite(value)


def finite(value: object) -> bool:
    """Whether JSON has the number and every reader takes it as it is: an integer has 64 bits."""
    return abs(value) < 1 << 63 if isinstance(value, int) else isinstance(value, float) and math.isfinite(value)
