"""What a model answered, as far as it is usable. Pure.

Grammars do not hold everything, and some engines ignore them: an answer may have thoughts and fences around it, keys
in another case, a share of 95, a list that is too long. What can be used is used, and each problem is named by its
field, so that it can be counted. An answer is refused as a whole where nothing of it can be used, or where a field
without which it says nothing is not there. Of several objects that differ none is the answer: one of them may be what
the model thought, or what it quotes from a text that others wrote. Arguments of tools that act are never read by this
module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import pydantic

from crds import errors
from router.client import schema as schemas
from text import surrogates

S = TypeVar("S", bound=schemas.Shape)

MOST_CHARS = 1 << 18
"""Characters of an answer that is read."""
_TRY = 256
"""As many characters, and those that it reads, are counted for a place at which an object only seems to begin."""
_ROUNDS = 8
"""How often what cannot be used is taken out of one answer."""
_SHOWN = 5
_MOST_PROBLEMS = 50
_LOSSES = frozenset({"value", "many", "long"})
_TAGS = "think(?:ing)?|thought|reasoning"
_THOUGHTS = re.compile(
    # Some templates open the tag in the prompt. One between backticks is what a text is about.
    r"\A(?:(?:(?!<think).)*?(?<!`)</think(?:ing)?>)?"
    rf"(?:\s*<({_TAGS})>.*?</\1>)*(?:\s*<(?:{_TAGS})>.*)?",
    re.DOTALL | re.IGNORECASE,
)
"""What a model thinks before it answers: some servers leave it in the text. Without an end they are all of it."""
_TAG_CHARS = len("</reasoning>")
_CLOSED = re.compile(r"(?<!`)</think(?:ing)?>", re.IGNORECASE)
_BEGUN_TAG = re.compile(r"(?:`|`?<[^<>`]*)\Z")
_TAG = re.compile(rf"<(/?)(?:{_TAGS})>", re.IGNORECASE)
_OPENING = re.compile(r"\{(?=\s*[\"}])")
# A text without an end is one token: to look for its end again from each quotation mark in it would take for ever.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?P<closed>"?)|[][{}:,]|[^\s"][^\s"\][{}:,]*', re.DOTALL)
_ENDED = re.compile(r"(?:[-+.\deE]*|t|tr|tru|f|fa|fal|fals|n|nu|nul|u[\da-fA-F]{0,3})\s*\Z")
"""What is left of a text at the place where it stops being JSON, if it only ends there."""
_CLOSED_BY = {"{": "}", "[": "]"}
_NAMES = frozenset({"true", "false", "null"})
_WHOLE_NUMBER = re.compile(r"[#\[(]?\s*(-?\d{1,18})(?:\.0+)?\s*[\])]?")
_CHOSEN_NUMBER = re.compile(r"\[?(\d{1,18})\]?")
NOTHING = frozenset({"", "null", "none", "n/a", "undefined", "keine", "žádné"})
"""How models write that there is nothing, in the languages of the prompts."""
_YES_NO = pydantic.TypeAdapter(bool)
_WORDS_OF_YES_NO = {"ja": True, "nein": False, "ano": True, "ne": False}
"""In the languages of the prompts besides English, whose words pydantic reads."""


class Unusable(errors.Permanent):
    """Nothing of the answer can be used; the text says what to correct, for the model."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What was repaired or left out: the field's path without numbers, and a word for what was wrong. Repaired: `case`,
    `key`, `type`. Lost: `value`, `long`, `many`. Not there: `blank`, `missing`. `text`: text around the JSON. `cut`:
    the answer has no end, and this is the field at which it breaks off. `malformed`: it goes on there, as no JSON."""

    field: str
    what: str


@dataclass(frozen=True, slots=True)
class Reading(Generic[S]):
    """`value` is valid. Without `problems` the text was valid as it was sent."""

    value: S
    problems: tuple[Problem, ...] = ()

    @property
    def unfinished(self) -> str:
        """Why it is not the whole answer, for the model; "" where it is."""
        return _unfinished(self.problems)


def read(text: str, *shapes: type[S], choices: schemas.Choices | None = None) -> Reading[S]:
    """The answer as the first of the shapes that it fits, those first that share most fields with it. Raises Unusable.

    `choices` are those that were sent (`schema.wire`).
    """
    if len(text) > MOST_CHARS:
        raise Unusable(f"it has {len(text)} characters, which is more than it may have")
    candidate, around = _answer(text, {_folded(name) for shape in shapes for name in _names(shape)})
    complaint = ""
    for shape in sorted(shapes, key=lambda shape: -_shared(candidate, shape)):
        try:
            return _as(shape, candidate, around, choices or {})
        except Unusable as error:
            complaint = complaint or error.message
    raise Unusable(_malformed(around) or complaint)


def plain(text: str) -> str:
    """An answer in words without the thoughts that a model left in it."""
    return _THOUGHTS.sub("", text, count=1).strip()


class Thoughts:
    """Keeps the thoughts out of an answer in words that comes piece by piece."""

    def __init__(self) -> None:
        self._held = ""
        self._tag = ""
        self._begun = False
        self.before = False
        """Whether all that was given before the last piece were thoughts: their beginning stood in the prompt."""

    def feed(self, piece: str) -> str:
        """What of the answer is certain with this piece."""
        self._held += piece
        self.before = False
        while True:
            if self._tag:
                found = re.search(f"</{self._tag}>", self._held, re.IGNORECASE)
                if found is None:
                    return ""
                self._held, self._tag = self._held[found.end() :], ""
            elif not self._begun:
                bare = self._held.lstrip()
                opened = re.match(f"<({_TAGS})>", bare, re.IGNORECASE)
                if opened is not None:
                    self._held, self._tag = bare[opened.end() :], opened[1]
                elif not bare or (bare[0] == "<" and len(bare) < _TAG_CHARS and ">" not in bare):
                    return ""
                else:
                    self._begun = True
            else:
                closed = _CLOSED.search(self._held)
                if closed is not None:
                    self.before, self._begun = True, False
                    self._held = self._held[closed.end() :]
                    continue
                # What may be the beginning of a tag waits.
                ends = _BEGUN_TAG.search(self._held, max(0, len(self._held) - _TAG_CHARS))
                start = ends.start() if ends is not None else len(self._held)
                given, self._held = self._held[:start], self._held[start:]
                return given

    def end(self) -> str:
        """The rest; thoughts without an end are no answer."""
        given, self._held = ("" if self._tag else self._held), ""
        return given


def loaded(text: str) -> Any:
    """The JSON of a text as it was written. Raises ValueError, also for an object that says one thing twice."""
    try:
        return json.loads(text, object_pairs_hook=unambiguous)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def complaint(error: pydantic.ValidationError) -> str:
    """The first problems in words, short enough to be shown to a model and to a person."""
    listed = error.errors(include_url=False, include_input=False)[:_SHOWN]
    problems = [f"{'.'.join(map(str, each['loc'])) or 'the answer'}: {each['msg']}" for each in listed]
    return "; ".join(problems)[:1000]


def encodable(value: Any) -> bool:
    """Whether every store takes a value of JSON as it is."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True


def _unfinished(problems: Sequence[Problem]) -> str:
    return _malformed(problems) or ("it has no end" if any(each.what == "cut" for each in problems) else "")


def _malformed(problems: Sequence[Problem]) -> str:
    name = next((each.field for each in problems if each.what == "malformed"), None)
    return "" if name is None else f'{name or "it"}: is no JSON; within a text write \\" and \\\\'


def _names(shape: type[schemas.Shape]) -> list[str]:
    return list(schemas.whole(shape).get("properties", {}))


def _shared(candidate: Mapping[str, Any], shape: type[schemas.Shape]) -> int:
    """How many fields of the shape the object has; one that has all that the shape demands comes before others."""
    keys = {_folded(key) for key in candidate}
    required = {_folded(name) for name in schemas.whole(shape).get("required", ())}
    return len(keys & {_folded(name) for name in _names(shape)}) + (100 if required <= keys else 0)


def _blank(value: object) -> bool:
    # What is no number in JSON is no value.
    if isinstance(value, float):
        return not math.isfinite(value)
    return value is None or (isinstance(value, str) and value.strip().casefold() in NOTHING)


def _folded(key: str) -> str:
    return "".join(letter for letter in key.casefold() if letter.isalnum())


# --- the object in a text -------------------------------------------------------------------------------------------


class _AmbiguousError(ValueError):
    """An object says one thing twice."""


def unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; raises ValueError for one that says one thing twice."""
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made and made[key] != value:
            raise _AmbiguousError(f"{key[:100]}: stands in it twice")
        made[key] = value
    return made


def _encodable(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The same without halves of characters, which no store takes."""
    return unambiguous([(_clean(key), _clean(value)) for key, value in pairs])


def _clean(value: Any) -> Any:
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return surrogates.clean(value) if isinstance(value, str) else value


_DECODER = json.JSONDecoder(strict=False, object_pairs_hook=_encodable)


def _answer(text: str, wanted: set[str]) -> tuple[dict[str, Any], list[Problem]]:
    """The one object of the text that has a field of the shape, with what was wrong around it: the text as a whole, or
    one in it, or in one of those. Raises Unusable, also where there are several that differ."""

    def fits(value: object) -> bool:
        return isinstance(value, dict) and any(_folded(key) in wanted for key in value)

    bare = text.strip()
    value = _decoded(bare)
    if fits(value):
        return value, []
    bare = plain(text)
    found = _within(bare, wanted)
    candidates = [each for each in found if fits(each[1]) or each[2] is not None]
    # An object that is wrapped in another one comes after those that are not.
    candidates = candidates or [
        (start, inner, None) for start, outer, _ in found for inner in outer.values() if fits(inner)
    ]
    if not candidates:
        raise Unusable("the answer has no JSON object of the shape that was asked for")
    start, value, broken_at = candidates[0]
    if any(other[1:] != (value, broken_at) for other in candidates):
        raise Unusable("there are several answers in it that differ; give one")
    tags = _TAG.findall(bare, 0, start)
    if tags and not tags[-1]:
        raise Unusable("it has thoughts without an end; answer behind them")
    return value, [Problem("", "text") if broken_at is None else broken_at]


def _decoded(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except _AmbiguousError as error:
        raise Unusable(str(error)) from error
    except (ValueError, RecursionError):
        return None


def _within(text: str, wanted: set[str]) -> list[tuple[int, dict[str, Any], Problem | None]]:
    """JSON objects that stand in a text, in their order: where one begins, what there is of it, and for one that breaks
    off where and how it does; of the latter those that have a key of `wanted`."""
    found: list[tuple[int, dict[str, Any], Problem | None]] = []
    end, tried = 0, 0
    for start in (match.start() for match in _OPENING.finditer(text)):
        if start < end:
            continue
        try:
            value, end = _DECODER.raw_decode(text, start)
            found.append((start, value, None))
        except json.JSONDecodeError as error:
            tried += _TRY + error.pos - start
            ended = error.msg.startswith("Unterminated") or _ENDED.match(text, error.pos) is not None
            value, key, keys = _begun(text[start : error.pos], ended=ended)
            if any(_folded(each) in wanted for each in keys):
                found.append((start, value, Problem(key, "cut" if ended else "malformed")))
                end = error.pos
        except _AmbiguousError as error:
            raise Unusable(str(error)) from error
        except (ValueError, RecursionError) as error:
            raise Unusable("it is nested too deeply, or has a number that is too long") from error
        if tried > MOST_CHARS:
            raise Unusable("the answer has no JSON object of the shape that was asked for, but many that are none")
    return found


def _begun(text: str, *, ended: bool) -> tuple[dict[str, Any], str, list[str]]:
    """What there is of an object that breaks off at the end of the text: its whole values, the key at which it breaks
    off, and all its keys. A number at the end may go on, and a list that is empty there may not be. Where it has not
    `ended` there, it went on after a quotation mark: a text before that may have been the beginning of a longer one."""
    closing, keys = "", list[str]()
    whole, before, quoted = [(0, "")], "", False
    for match in _TOKEN.finditer(text):
        part, is_value = match[0], False
        if part in _CLOSED_BY:
            closing = _CLOSED_BY[part] + closing
        elif part in ("]", "}"):
            closing, is_value = closing[1:], True
        elif part == ":":
            keys += [before[1:-1]] if len(closing) == 1 else []
            quoted = False
        elif part != ",":
            in_place = before == ":" or closing[:1] == "]"
            closed = match["closed"] if part[0] == '"' else part in _NAMES or match.end() < len(text)
            is_value = in_place and bool(closed)
        if is_value:
            quoted = part[0] == '"'
            whole = [whole[-1], (match.end(), closing)]
        before = part
    end, closed = whole[0] if quoted and not ended else whole[-1]
    value = _decoded(text[:end] + closed)
    return value if isinstance(value, dict) else {}, keys[-1] if keys else "", keys


# --- its fields -----------------------------------------------------------------------------------------------------


def _as(
    shape: type[S], candidate: Mapping[str, Any], around: Sequence[Problem], choices: schemas.Choices
) -> Reading[S]:
    full = schemas.chosen(schemas.whole(shape), choices)
    named = {_folded(name): name for name in full.get("properties", {})}
    fitting = _Fitting([Problem(named.get(_folded(problem.field), ""), problem.what) for problem in around])
    fitting.lost |= {problem.field for problem in fitting.problems if problem.what in ("cut", "malformed")}
    value = fitting.fit(candidate, full, "")
    value = {} if value is _ABSENT else value
    for path in sorted(fitting.lost):
        name = path.partition(".")[0]
        if name in shape.numbered or (name in shape.telling and not value.get(name)):
            raise Unusable(f"{path}: too many, too long, or not all of it is of the shape that was asked for")
    if not _tells(value, full, fitting.lost):
        raise Unusable(_said(shape, candidate) or "nothing of it can be used")
    for _ in range(_ROUNDS):
        for name, cautious in shape.cautious.items():
            if name not in value:
                if not any(problem.field == name for problem in fitting.problems):
                    fitting.note(name, "missing")
                value[name] = cautious
        try:
            made = shape.model_validate(value)
        except pydantic.ValidationError as error:
            if not _taken_out(value, error, fitting, shape.numbered):
                raise Unusable(_said(shape, candidate) or complaint(error)) from error
        else:
            return Reading(made, tuple(fitting.problems[:_MOST_PROBLEMS]))
    raise Unusable("too much of the answer cannot be used")


def _tells(value: Mapping[str, Any], schema: Mapping[str, Any], lost: set[str]) -> bool:
    """Whether a field says something: one that may not be left out says it by its emptiness too."""
    required = set(schema.get("required", ())) - lost
    return any(name in required or inner for name, inner in value.items())


def _said(shape: type[schemas.Shape], candidate: Mapping[str, Any]) -> str:
    """What is wrong with the answer as it came: more use to the model than what is wrong with what was left of it."""
    try:
        shape.model_validate(candidate)
    except pydantic.ValidationError as error:
        return complaint(error)
    return ""


def _taken_out(
    value: dict[str, Any], error: pydantic.ValidationError, fitting: _Fitting, numbered: frozenset[str]
) -> bool:
    """Take out what is wrong: the item of a list, or the field; False where it was missing already, or may not be."""
    gone: set[tuple[Any, ...]] = set()
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        path = each["loc"]
        if path and path[0] in numbered:
            return False
        numbers = [place for place, step in enumerate(path) if isinstance(step, int)]
        if numbers:
            gone.add(path[: numbers[-1] + 1])
        elif path and path[0] in value and each["type"] != "missing":
            gone.add(path[:1])
    # From the end, so that the numbers of the others stay right.
    for path in sorted(
        gone, key=lambda path: [(isinstance(step, int), str(step).zfill(9)) for step in path], reverse=True
    ):
        holder: Any = value
        try:
            for step in path[:-1]:
                holder = holder[step]
            del holder[path[-1]]
        except (KeyError, IndexError, TypeError):
            return False
        fitting.note(".".join(str(step) for step in path if not isinstance(step, int)), "value")
    return bool(gone)


class _Absent:
    """What a field has that says nothing usable."""


_ABSENT: Any = _Absent()


@dataclass
class _Fitting:
    """Brings values to the types of a schema, and notes what that took. `lost` are the paths at which something that
    was said is not there any more."""

    problems: list[Problem] = field(default_factory=list)
    lost: set[str] = field(default_factory=set)
    _choices: dict[int, dict[str, Any]] = field(default_factory=dict)

    def note(self, path: str, what: str) -> None:
        if what in _LOSSES:
            self.lost.add(path)
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(Problem(path, what))

    def fit(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        """The value, or `_ABSENT`."""
        if schema.get(schemas.SHARE):
            return self._share(value, path)
        if "anyOf" in schema:
            return self._several(value, schema["anyOf"], path)
        if "enum" in schema:
            return self._enum(value, schema["enum"], path)
        kind = schema.get("type")
        read = {
            "object": self._object,
            "array": self._list,
            "string": self._text,
            "boolean": self._yes,
            "integer": self._whole,
            "number": self._number,
        }.get(kind if isinstance(kind, str) else "")
        return value if read is None else read(value, schema, path)

    def _several(self, value: Any, parts: Sequence[Mapping[str, Any]], path: str) -> Any:
        nullable = any(part.get("type") == "null" for part in parts)
        if value is None or (nullable and _blank(value)):
            return None if nullable else _ABSENT
        others = [part for part in parts if part.get("type") != "null"]
        for part in others:
            trial = _Fitting()
            fitted = trial.fit(value, part, path)
            if fitted is not _ABSENT and (part is others[-1] or not trial.problems):
                self.lost |= trial.lost
                for problem in trial.problems:
                    self.note(problem.field, problem.what)
                return fitted
        self.note(path, "value")
        return None if nullable else _ABSENT

    def _share(self, value: Any, path: str) -> Any:
        number = schemas.share(value)
        if number is None:
            self.note(path, "value")
            return _ABSENT
        if value != number and not (isinstance(value, str) and value in schemas.WORDS):
            self.note(path, "type")
        return number

    def _enum(self, value: Any, values: Sequence[Any], path: str) -> Any:
        if isinstance(value, str | int | float) and not isinstance(value, bool) and value in values:
            return value
        if isinstance(value, str):
            # Folded once for all items of a list.
            if (choices := self._choices.get(id(values))) is None:
                choices = self._choices[id(values)] = {_folded(str(each)): each for each in reversed(values)}
            number = _CHOSEN_NUMBER.fullmatch(value.strip())
            found = choices.get(number[1] if number else _folded(value))
            if found is not None and (number or isinstance(found, str)):
                self.note(path, "case")
                return found
        self.note(path, "blank" if _blank(value) else "value")
        return _ABSENT

    def _object(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        if isinstance(value, str):
            self.note(path, "type")
            value = _decoded(value)
        if not isinstance(value, Mapping):
            self.note(path, "blank" if _blank(value) else "value")
            return _ABSENT
        properties = schema.get("properties")
        if not properties:
            return dict(value)
        named = {_folded(name): name for name in properties}
        made: dict[str, Any] = {}
        seen: dict[str, Any] = {}
        for key, inner in value.items():
            name = key if key in properties else named.get(_folded(str(key)))
            if name is None:
                continue
            if seen.setdefault(name, inner) is not inner and seen[name] != inner:
                raise Unusable(f"{name}: stands in it twice")
            if name != key:
                self.note(name, "key")
            below = f"{path}.{name}" if path else name
            fitted = self.fit(inner, properties[name], below)
            if fitted is not _ABSENT:
                made[name] = fitted
        return made

    def _list(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        if _blank(value):
            self.note(path, "blank")
            return []
        if not isinstance(value, list | tuple):
            self.note(path, "type")
            value = [value]
        items = schema.get("items", {})
        made = []
        for item in value:
            if isinstance(item, str) and _blank(item):
                self.note(path, "blank")
                continue
            fitted = self.fit(item, items, path)
            if fitted is not _ABSENT:
                made.append(fitted)
            elif item is None or not _blank(item):
                self.lost.add(path)
        if "enum" in items:
            unique = list(dict.fromkeys(made))
            if len(unique) < len(made):
                self.note(path, "many")
            made = unique
        most = schema.get("maxItems")
        if isinstance(most, int) and len(made) > most:
            self.note(path, "many")
            made = made[:most]
        return made

    def _text(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        if isinstance(value, bool | int | float) and not _blank(value):
            self.note(path, "type")
            value = json.dumps(value)
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            self.note(path, "type")
            value = "\n".join(value)
        if not isinstance(value, str):
            self.note(path, "blank" if _blank(value) else "value")
            return _ABSENT
        if schema.get("minLength", 0) > 0 and not value.strip():
            self.note(path, "blank")
            return _ABSENT
        most = schema.get("maxLength")
        if isinstance(most, int) and len(value) > most:
            self.note(path, "long")
            value = value[:most]
        return value

    def _yes(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        if isinstance(value, bool):
            return value
        word = value.strip().casefold() if isinstance(value, str) else value
        try:
            read = _YES_NO.validate_python(_WORDS_OF_YES_NO.get(word, word) if isinstance(word, str) else word)
        except pydantic.ValidationError:
            self.note(path, "blank" if value is None else "value")
            return _ABSENT
        self.note(path, "type")
        return read

    def _whole(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        match = _WHOLE_NUMBER.fullmatch(str(value).strip()) if isinstance(value, str | float) else None
        if match is None:
            self.note(path, "blank" if _blank(value) else "value")
            return _ABSENT
        self.note(path, "type")
        return int(match[1])

    def _number(self, value: Any, schema: Mapping[str, Any], path: str) -> Any:
        try:
            read = float(value.strip().replace(",", ".") if isinstance(value, str) else value)
        except (ValueError, TypeError, OverflowError):
            read = math.nan
        if not math.isfinite(read) or isinstance(value, bool):
            self.note(path, "blank" if _blank(value) else "value")
            return _ABSENT
        if isinstance(value, str):
            self.note(path, "type")
        return read
