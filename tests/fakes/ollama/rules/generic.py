"""A valid instance of any JSON schema, filled with what the text says, so that no schema is ever answered with bad
JSON.

Covers what structured-output schemas use: type, properties, required, items, enum, const, anyOf/oneOf/allOf, $ref into
$defs, minimum/maximum, minItems/maxItems, minLength/maxLength, format date and date-time, nullable by type list.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date
from typing import Any

from tests.fakes.ollama.rules import dates, text

_DEPTH = 12
_ITEMS = 3
_SENTENCE = 240
_YES = re.compile(r"\b(?:yes|true|must|required|need|please|urgent|should)\b", re.IGNORECASE)


@dataclass
class Facts:
    """What is known about a text before any schema is looked at."""

    sentences: list[str]
    words: list[str]
    numbers: list[float]
    dates: list[str]
    whole: str


def facts(document: str, today: date | None) -> Facts:
    """Read the text once."""
    return Facts(
        sentences=text.key_sentences(document, 6) or [text.shorten(document, _SENTENCE)],
        words=text.words(document),
        numbers=[float(number) for number in re.findall(r"(?<![\w.\-])-?\d{1,9}(?:\.\d{1,6})?(?![\w\-])", document)],
        dates=[found.day.isoformat() for found in dates.find(document, today)],
        whole=document,
    )


def instance(schema: dict[str, Any], known: Facts) -> Any:
    """A value that fits `schema`."""
    return Filler(schema, known).value(schema, "", 0)


def free_json(known: Facts) -> dict[str, Any]:
    """For `format: "json"` without a schema."""
    return {"summary": text.shorten(" ".join(known.sentences[:2]), 2 * _SENTENCE), "dates": known.dates[:_ITEMS]}


class Filler:
    """Builds values for parts of one schema (`root`, where references point)."""

    def __init__(self, root: dict[str, Any], known: Facts) -> None:
        self._root = root
        self._known = known
        self._next_sentence = 0

    def value(self, schema: Any, name: str, depth: int) -> Any:
        """A value for the field `name`; `depth` ends endless references."""
        if not isinstance(schema, dict) or depth > _DEPTH:
            return None
        schema = self.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._best(schema["enum"])
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(self._preferred(schema[union]), name, depth + 1)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((one for one in kind if one != "null"), "null")
        if kind is None:
            kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
        return self._of(kind, schema, name, depth)

    def _of(self, kind: str, schema: dict[str, Any], name: str, depth: int) -> Any:
        match kind:
            case "object":
                fields = schema.get("properties", {})
                return {field: self.value(inner, field, depth + 1) for field, inner in fields.items()}
            case "array":
                return self._array(schema, name, depth)
            case "integer" | "number":
                return self._number(schema, kind == "integer")
            case "boolean":
                return bool(_YES.search(self._known.whole))
            case "null":
                return None
            case _:
                return self._string(schema, name)

    def resolve(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Without $ref and allOf."""
        for _ in range(_DEPTH):
            if isinstance(schema.get("allOf"), list):
                merged = {key: inner for key, inner in schema.items() if key != "allOf"}
                for part in schema["allOf"]:
                    merged = {**self.resolve(part), **merged}
                schema = merged
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            target: Any = self._root
            for step in reference[1:].strip("/").split("/"):
                target = target.get(step, {}) if isinstance(target, dict) and step else target
            schema = {**target, **{key: inner for key, inner in schema.items() if key != "$ref"}}
        return schema

    def _preferred(self, choices: list[Any]) -> Any:
        real = [choice for choice in choices if not (isinstance(choice, dict) and choice.get("type") == "null")]
        return real[0] if real else {"type": "null"}

    def _best(self, choices: list[Any]) -> Any:
        """The choice whose words occur most in the text; the first one if none does."""
        present = set(self._known.words)

        def overlap(choice: Any) -> int:
            parts = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", str(choice)).lower())
            return sum(part in present for part in parts)

        return max(choices, key=overlap) if choices else None

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        least = int(schema.get("minItems", 0))
        most = int(schema.get("maxItems", max(_ITEMS, least)))
        wanted = max(least, min(_ITEMS, most))
        items = schema.get("items", {"type": "string"})
        found: list[Any] = []
        for _ in range(wanted):
            found.append(self.value(items, name, depth + 1))
        distinct = {json.dumps(one, sort_keys=True): one for one in found}
        return list(distinct.values()) if len(distinct) >= least else found

    def _number(self, schema: dict[str, Any], whole: bool) -> float | int:
        low = schema.get("minimum", schema.get("exclusiveMinimum"))
        high = schema.get("maximum", schema.get("exclusiveMaximum"))
        fitting = [
            number
            for number in self._known.numbers
            if (low is None or number > low or ("minimum" in schema and number == low))
            and (high is None or number < high or ("maximum" in schema and number == high))
            and (not whole or number == int(number))
        ]
        number = fitting[0] if fitting else _between(low, high, whole)
        return int(number) if whole else number

    def _string(self, schema: dict[str, Any], name: str) -> str:
        form = schema.get("format")
        if form == "date-time" or (form is None and "date" in name.lower() and self._known.dates):
            day = self._known.dates[0] if self._known.dates else "1970-01-01"
            return f"{day}T00:00:00Z" if form == "date-time" else day
        if form == "date":
            return self._known.dates[0] if self._known.dates else "1970-01-01"
        sentence = self._known.sentences[self._next_sentence % len(self._known.sentences)]
        self._next_sentence += 1
        limit = int(schema.get("maxLength", _SENTENCE))
        said = sentence[:limit] if limit < 2 else text.shorten(sentence, limit)
        return said.ljust(int(schema.get("minLength", 0)), ".")


def _between(low: float | None, high: float | None, whole: bool) -> float:
    if low is not None and high is not None:
        middle = (low + high) / 2
        return int(middle) if whole else middle
    if low is not None:
        return low + 1
    return high - 1 if high is not None else 0
