"""JSON Schema without references and combinations, which neither grammars nor tools can have. Pure.

The schema may be another server's: nothing in it is taken to be of the type that it should be, and however it refers to
itself, what comes out is a tree of at most as many parts as are asked for, `_DEPTH` deep. What is not known any more is
open: `{}`.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_DEPTH = 8
PARTS = (500, 100, 20, 1)
"""Ten properties at each of eight levels are a hundred million parts; a prompt has room for hundreds, or for fewer
where each of them is long. The first ones are whole, of the others their names are left."""
_TOGETHER = ("anyOf", "oneOf")
_SPOKEN = ("type", "enum", "anyOf", "properties")


class Resolver:
    """Puts definitions in the place of references within one schema."""

    def __init__(self, listed: Mapping[str, Any], parts: int = PARTS[0]) -> None:
        self._listed = listed
        self._left = parts

    def part(self, schema: object, above: tuple[str, ...] = (), depth: int = 0) -> dict[str, Any]:
        """A part of the schema with `type`, `enum`, `anyOf`, `properties`, `items` and whatever else stands there."""
        self._left -= 1
        if not isinstance(schema, Mapping) or depth > _DEPTH or self._left < 0:
            return {}
        if isinstance(name := schema.get("$ref"), str):
            if name in above:
                return {}
            beside = {key: value for key, value in schema.items() if key != "$ref"}
            # What stands beside a reference holds as well (JSON Schema 2020-12, 8.2.3).
            return {**self.part(self._at(name), (*above, name), depth + 1), **self.part(beside, above, depth)}
        made = {key: value for key, value in schema.items() if key not in ("$defs", "definitions", "title")}
        if isinstance(properties := made.get("properties"), Mapping):
            # Nothing may stand where `false` does.
            made["properties"] = {
                str(name): self.part(part, above, depth + 1) for name, part in properties.items() if part is not False
            }
        else:
            made.pop("properties", None)
        for several in _TOGETHER:
            parts = _listed(made.pop(several, None))
            made |= joined([self.part(part, above, depth + 1) for part in parts])
        for part in _listed(made.pop("allOf", None)):
            made = _merged(made, self.part(part, above, depth + 1))
        if "const" in made:
            made["enum"] = [made.pop("const")]
        if "properties" in made and "anyOf" in made:
            base = {key: value for key, value in made.items() if key != "anyOf"}
            # Each alternative gets all of them, which at each level multiplies what came out below. Where there is no
            # room for that, all that an alternative adds may be there.
            copied = len(made["anyOf"]) * _size(base["properties"], self._left)
            if copied > self._left:
                for part in made.pop("anyOf"):
                    made["properties"] = {**part.get("properties", {}), **made["properties"]}
            else:
                self._left -= copied
                made["anyOf"] = [_merged(base, part) for part in made["anyOf"]]
        return self._with_items(made, above, depth)

    def _with_items(self, made: dict[str, Any], above: tuple[str, ...], depth: int) -> dict[str, Any]:
        """A list whose places differ is one of which each item may be what any place takes."""
        if "items" not in made and "prefixItems" not in made:
            return made
        items, places = made.pop("items", None), _listed(made.pop("prefixItems", None))
        if isinstance(items, list):
            # So it was written before 2020-12.
            places, items = items, made.pop("additionalItems", None)
        parts = [*places, *([items] if isinstance(items, Mapping) or not places else [])]
        only = [self.part(part, above, depth + 1) for part in parts]
        return {**made, "items": only[0] if len(only) == 1 else joined(only)}

    def _at(self, reference: str) -> object:
        """What a reference within the schema names; of any other nothing is known."""
        place: object = self._listed
        pointer = urllib.parse.unquote(reference)
        for step in pointer.removeprefix("#").split("/")[1:] if pointer.startswith("#") else ["", ""]:
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(place, Mapping):
                place = place.get(name)
            elif isinstance(place, list) and name.isdecimal() and int(name) < len(place):
                place = place[int(name)]
            else:
                place = None
        return place


def joined(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The alternatives, each once; one that takes anything makes all of them open."""
    if not parts or any(is_open(part) for part in parts):
        return {}
    unique = list({json.dumps(part, sort_keys=True, default=str): part for part in parts}.values())
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def is_open(part: Mapping[str, Any]) -> bool:
    """Whether a part takes any value."""
    return not any(key in part for key in _SPOKEN)


def flat(made: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a tool that are a choice between objects, as one object with the properties of all, required
    where each of them requires it: Ollama reads no choice there."""
    objects = [part for part in made.get("anyOf", ()) if "properties" in part]
    if not objects:
        return dict(made)
    properties: dict[str, Any] = {}
    for part in objects:
        for name, value in part["properties"].items():
            properties[name] = joined([properties[name], value]) if name in properties else value
    required = [name for name in properties if all(name in texts(part.get("required")) for part in objects)]
    described = {key: value for key, value in made.items() if key == "description"}
    return {**described, "type": "object", "properties": properties, "required": required}


def texts(value: object) -> list[str]:
    """The texts of a list; none of what is no list (`required: true` was written once)."""
    return [text for text in _listed(value) if isinstance(text, str)]


def _size(part: object, most: int) -> int:
    """How many objects a tree has; it is not counted beyond `most`."""
    size, left = 0, [part]
    while left and size <= most:
        value = left.pop()
        if isinstance(value, Mapping):
            size += 1
            left.extend(value.values())
        elif isinstance(value, list):
            left.extend(value)
    return size


def _listed(value: object) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    made = {**one, **other}
    if "properties" in one and "properties" in other:
        made["properties"] = {**one["properties"], **other["properties"]}
    if both := _unique([*texts(one.get("required")), *texts(other.get("required"))]):
        made["required"] = both
    return made


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
