"""The marks around a hidden part, which only this program writes: what looks like one in a text gets a blank. Pure.

A text that is marked before it is decoded (a page) is marked with a seal, which its author cannot know, and
`unsealed` once it is text: entities and tags that become a mark on the way are none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import unescape
from typing import Literal, cast, get_args

Kind = Literal["NotDisplayed", "SameColour", "TextLayer", "Comment", "Note", "AltText", "ZeroWidth", "TagCharacters"]
LISTED, QUOTE_CHARS = 20, 200
"""How many are listed of a document, and of how many characters each."""
CERTAIN = frozenset({"NotDisplayed", "Comment", "Note", "ZeroWidth", "TagCharacters"})
"""Kinds that the reader certainly does not see in the text."""
_END = "[end of hidden text]"
_KINDS = "|".join(get_args(Kind))
_BEGIN = re.compile(rf"\[hidden text: ({_KINDS})\]")
_FORGED = re.compile(rf"\[(?=hidden\s+text:\s+(?:{_KINDS})\]|end\s+of\s+hidden\s+text\])")
_MARKUP = re.compile(r"<[^<>]*>")


@dataclass(frozen=True)
class Part:
    """A hidden part: its kind, and the beginning of what it says."""

    kind: Kind
    quote: str


def begin(kind: Kind, seal: str = "") -> str:
    """The mark before a part."""
    return f"[hidden text{seal}: {kind}]"


def end(seal: str = "") -> str:
    """The mark behind a part."""
    return f"[end of hidden text{seal}]"


def around(kind: Kind, said: str) -> str:
    """A part with its marks."""
    return f"{begin(kind)}{plain(said)}{_END}"


def plain(text: str) -> str:
    """A text of others without marks: a reader still sees the words."""
    return _FORGED.sub("[ ", text) if "hidden" in text else text


def unsealed(text: str, seal: str) -> str:
    """The text with the marks of this seal and no others."""
    return plain(text).replace(f"[hidden text{seal}: ", "[hidden text: ").replace(end(seal), _END)


def found(text: str) -> Iterator[tuple[Kind, int, int]]:
    """Each part with its marks, in order."""
    at = 0
    while (begun := _BEGIN.search(text, at)) is not None and (ended := text.find(_END, begun.end())) >= 0:
        at = ended + len(_END)
        yield cast(Kind, begun[1]), begun.start(), at


def without_certain(text: str) -> str:
    """The text without the parts that its reader certainly does not see."""
    pieces, at = [], 0
    for kind, start, stop in found(text):
        if kind in CERTAIN:
            pieces.append(text[at:start])
            at = stop
    return "".join([*pieces, text[at:]])


def listed(text: str) -> list[Part]:
    """The hidden parts of a marked text, in their order, each once."""
    parts: dict[Part, None] = {}
    for kind, start, stop in found(text):
        part = Part(kind, quoted(text[start + len(begin(kind)) : stop - len(_END)]))
        if part.quote:
            parts.setdefault(part)
        if len(parts) == LISTED:
            break
    return list(parts)


def quoted(text: str) -> str:
    """The words of a part, as it is shown to a person."""
    said = words(text)
    return said if len(said) <= QUOTE_CHARS else said[: QUOTE_CHARS - 1] + "\u2026"


def words(text: str) -> str:
    """Those of a part of a page, without its tags."""
    return " ".join(unescape(_MARKUP.sub(" ", text)).split())
