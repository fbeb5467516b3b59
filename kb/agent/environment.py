"""What tools have given, by tool and name, numbered for citations. Pure.

Every object that stands for a passage (`chunkId`), or has a `key`, gets a number at its first appearance; the same
passage found twice has one number. What is known of a number stays when a summary takes the place of the objects, so
that a quotation can still be compared.

Source: seed 004 "Environment (Result Storage)", "Result Objects".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kb import paging, prompt_escape
from kb.agent import page_numbers
from text import quotations

_PLACEHOLDER = re.compile(r"{(\w+)}")
_TOKEN_BYTES = 4
_MESSAGE_CHARS = 1000
_VALUE_CHARS = 200
_CUT = " [...]"
_HEADED = ("title", "sourceUrn", "page", "observedAt", "retiredAt", "supersededBy", "note")
"""Fields that stand before a passage's text."""
_LOOK = ("pageId", "image", "place", "rectangles", "patches")


@dataclass
class Result:
    """What a tool gives. `name` is the key in the environment, `payload_type` says how a page draws it.

    `llm_message` is what the decision agent reads: {num_objects}, {name} and the keys of `metadata` are filled in.
    """

    objects: list[dict[str, Any]]
    metadata: dict[str, Any] = field(default_factory=dict)
    name: str = "result"
    payload_type: str = "result"
    llm_message: str = ""

    @property
    def message(self) -> str:
        """The message with its placeholders filled; one that nothing fills stays as it is."""
        known: Mapping[str, Any] = {**self.metadata, "num_objects": len(self.objects), "name": self.name}

        def fill(found: re.Match[str]) -> str:
            return str(known[found[1]])[:_VALUE_CHARS] if found[1] in known else found[0]

        return _PLACEHOLDER.sub(fill, self.llm_message)[:_MESSAGE_CHARS]


@dataclass(frozen=True)
class Error:
    """A failure, which the model reads. One that is not `recoverable` takes the tool away for the rest of the run;
    `suggestion` says what to try next. `passing`: what failed is away, and may be back for a later question, which
    may then be answered."""

    message: str
    recoverable: bool = True
    suggestion: str = ""
    passing: bool = False

    @property
    def sentence(self) -> str:
        """Both in one line."""
        return f"{self.message} {self.suggestion}".strip()


@dataclass
class Evidence:
    """A numbered passage: where it is from, and its texts as `text.quotations.plain` gives them. `look`: of a page as
    it is seen, where on it the evidence is; `interpreted`: a vision model said it. `page` is the page that the search
    meant; `paged`: those of the texts whose pages are known, as they were given, with where in them pages begin."""

    number: int
    source_urn: str = ""
    title: str = ""
    chunk_id: str = ""
    page: int | None = None
    texts: set[str] = field(default_factory=set)
    look: dict[str, Any] = field(default_factory=dict)
    interpreted: bool = False
    paged: dict[str, paging.Starts] = field(default_factory=dict)

    def page_of(self, quoted: Sequence[str]) -> int | None:
        """The page on which the first of the quotations begins that stands on one; without quotations that of the
        search. None where there is none."""
        if not quoted:
            return self.page
        found = (page_numbers.of_quotation(text, starts, one) for one in quoted for text, starts in self.paged.items())
        return next((one for one in found if one is not None), None)

    @property
    def page_id(self) -> str:
        """Of a page as it is seen; "" of other passages."""
        return str(self.look.get("pageId", ""))


class Environment:
    """`environment[tool_name][result_name]` is a list of `{"objects", "metadata", "message"}`, the latest last.

    `hidden_environment` is state that no model sees. `given[tool_name]` has the numbers of what a tool has given, by
    their keys, also of what a summary has taken the place of.
    """

    def __init__(self) -> None:
        self.environment: dict[str, dict[str, list[dict[str, Any]]]] = {}
        self.hidden_environment: dict[str, Any] = {}
        self.evidence: dict[int, Evidence] = {}
        self.given: dict[str, dict[str, int]] = {}
        self._numbers: dict[str, int] = {}
        self._seen: set[str] = set()

    def add(self, tool_name: str, result: Result) -> int:
        """Keep a result; its objects get their numbers (`ref`). How many of them are new."""
        new = 0
        for one in result.objects:
            key = str(one.get("chunkId") or one.get("key") or "")
            if key:
                one["ref"] = self._number(key, one)
                self.given.setdefault(tool_name, {})[key] = one["ref"]
            written = json.dumps(one, sort_keys=True, ensure_ascii=False, default=str)
            if written not in self._seen:
                self._seen.add(written)
                new += 1
        entry = {"objects": result.objects, "metadata": result.metadata, "message": result.message}
        self.environment.setdefault(tool_name, {}).setdefault(result.name, []).append(entry)
        return new

    def find(self, tool_name: str, name: str | None = None) -> Any:
        """The results of a tool by their names, or the list of those of one name; None where there are none."""
        found = self.environment.get(tool_name)
        if found is None or name is None:
            return found
        return found.get(name)

    def is_empty(self) -> bool:
        """Whether no tool has given an object."""
        return not any(entry["objects"] for _, _, entry in self._entries())

    def texts(self) -> list[str]:
        """The texts of all objects, each once."""
        return list(dict.fromkeys(_text(one) for _, _, entry in self._entries() for one in entry["objects"]))

    def estimate_tokens(self) -> int:
        """About as many tokens as all objects have."""
        return sum(tokens(text) for text in self.texts())

    def to_llm_context(self, max_tokens: int = 10_000) -> str:
        """The objects as text for a model, within about `max_tokens`.

        Where not all have room, the first of each result come before the second, later results before earlier ones;
        one that has no room alone is cut.
        """
        return next(self.pieces(max_tokens, once=True), "")

    def pieces(self, max_tokens: int, *, once: bool = False) -> Iterator[str]:
        """The same in several pieces, until each object has been in one; with `once` the first alone."""
        entries = list(self._entries())
        waiting = [
            (rank, -at, one)
            for at, (_, _, entry) in enumerate(entries)
            for rank, one in enumerate(_unique(entry["objects"]))
        ]
        waiting.sort(key=lambda item: item[:2])
        shown: set[str] = set()
        while True:
            left = max_tokens * _TOKEN_BYTES
            taken: dict[int, list[str]] = {}
            rest: list[tuple[int, int, dict[str, Any]]] = []
            for rank, at, one in waiting:
                text = _shown(one)
                key = _same(one)
                if key in shown:
                    continue
                size = len(text.encode(errors="replace"))
                if size > left and taken:
                    rest.append((rank, at, one))
                    continue
                if size > left:
                    text = _shown(one, most=max(left, 0))
                shown.add(key)
                left -= size
                taken.setdefault(-at, []).append(text)
            if not taken:
                return
            heads = {
                at: f"## {tool} / {name}: {prompt_escape.line(entry['message'])}"
                for at, (tool, name, entry) in enumerate(entries)
            }
            yield "\n".join("\n".join([heads[at], *taken[at]]) for at in sorted(taken))
            if once or not rest:
                return
            waiting = rest

    def quotable(self) -> dict[int, set[str]]:
        """The texts of each number, as `text.quotations.judge` takes them."""
        return {number: one.texts for number, one in self.evidence.items()}

    def _entries(self) -> Iterator[tuple[str, str, dict[str, Any]]]:
        for tool, named in self.environment.items():
            for name, entries in named.items():
                for entry in entries:
                    yield tool, name, entry

    def _number(self, key: str, one: Mapping[str, Any]) -> int:
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        known = self.evidence.setdefault(number, Evidence(number))
        known.source_urn = known.source_urn or str(one.get("sourceUrn", ""))
        known.title = known.title or str(one.get("title", ""))
        known.chunk_id = known.chunk_id or str(one.get("chunkId", ""))
        page = one.get("page")
        known.page = page if isinstance(page, int) else known.page
        if starts := paging.of(one.get("pageStarts") or ([(0, page)] if isinstance(page, int) else ())):
            known.paged[_text(one)] = starts
        known.look |= {name: one[name] for name in _LOOK if one.get(name)}
        known.interpreted = known.interpreted or "interpretation" in one
        known.texts.add(quotations.plain(_text(one)))
        return number


def tokens(text: str) -> int:
    """About as many tokens as the text has."""
    return -(-len(text.encode(errors="replace")) // _TOKEN_BYTES)


def _unique(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for one in objects:
        found.setdefault(_same(one), one)
    return list(found.values())


def _same(one: Mapping[str, Any]) -> str:
    """What is shown once: a passage with its text, and what a relationship says of it."""
    return f"{one.get('ref', '')} {one.get('note', '')} {_text(one)}"


def _text(one: Mapping[str, Any]) -> str:
    for name in ("text", "summary", "interpretation"):
        # A page without text of its own has "".
        if one.get(name) is not None:
            return str(one[name])
    return json.dumps(dict(one), ensure_ascii=False, default=str)


def _head(one: Mapping[str, Any], name: str) -> str:
    """A field that stands before a passage; of one that stands on several pages the first and the last of them."""
    numbers = [number for _, number in one.get("pageStarts") or () if number] if name == "page" else []
    return f"{min(numbers)}-{max(numbers)}" if len(set(numbers)) > 1 else str(one[name])


def _shown(one: Mapping[str, Any], most: int | None = None) -> str:
    """An object as a model reads it: its number, where it is from, and its text as data."""
    head = [f"[{one['ref']}]"] if "ref" in one else []
    head += [prompt_escape.line(_head(one, name)) for name in _HEADED if one.get(name)]
    text = _text(one)
    if most is not None:
        text = text.encode(errors="replace")[:most].decode(errors="ignore") + _CUT
    return "\n".join([" | ".join(head), prompt_escape.document(text)] if head else [prompt_escape.document(text)])
