"""Quotations in a text that a model wrote, and where the evidence has them letter by letter. Pure.

A quotation is what stands between quotation marks, of four words and more: fewer are a name. A mark such as [2] behind
it, or else elsewhere in its sentence, says which piece of evidence it is from.

    Supported       the evidence of its mark has it; without a mark, any evidence
    Misattributed   only evidence that its mark does not name has it
    Stitched        the evidence has its parts, and not as one text
    Absent          the evidence does not have it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

LEAST_WORDS = 4
_LEAST_PART = 3
"""Words of each part of a stitched quotation."""
_MOST_PARTS = 6
OPENING, CLOSING = '"“„«»‚‘「『', '"”“»«’‘」』'  # noqa: RUF001
_BETWEEN = '"“”„«»‚‘’「」『』'  # noqa: RUF001
_QUOTED = re.compile(rf"[{OPENING}]([^{_BETWEEN}\n]{{10,2000}})[{CLOSING}]")
_WORD = re.compile(r"[^\W_]+")
MARK = re.compile(r"\[(\d{1,4}(?:\s*,\s*\d{1,4})*)\]")
_MOST_CHARS = 4000
_OMISSION = re.compile(r"\s*(?:\[\s*(?:\.{3}|…)\s*\]|\.{3,}|…)\s*")


class Verdict(StrEnum):
    """What the evidence says to a quotation."""

    SUPPORTED = "Supported"
    MISATTRIBUTED = "Misattributed"
    STITCHED = "Stitched"
    ABSENT = "Absent"


@dataclass(frozen=True, slots=True)
class Quotation:
    """`marks` are the numbers that it is attributed to; () where it has none."""

    text: str
    marks: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Judged:
    """`found` is the evidence that has it, the one that its mark names first; None where none has all of it."""

    quotation: Quotation
    verdict: Verdict
    found: int | None = None


def quoted(text: str) -> list[str]:
    """The texts in quotation marks that are long enough for a quotation."""
    return [found for found in _QUOTED.findall(text) if _long(found)]


def find(sentence: str) -> list[Quotation]:
    """The quotations of one sentence, each with the marks between it and the next one, or else with all of them."""
    matches = [one for one in _QUOTED.finditer(sentence) if _long(one[1])]
    everywhere = marks(sentence)
    found: list[Quotation] = []
    for number, one in enumerate(matches):
        end = matches[number + 1].start() if number + 1 < len(matches) else len(sentence)
        found.append(Quotation(one[1], marks(sentence[one.end() : end]) or everywhere))
    return found


def marks(text: str) -> tuple[int, ...]:
    """The numbers in marks, each once, in their order."""
    numbers = (int(number) for one in MARK.findall(text) for number in one.split(","))
    return tuple(dict.fromkeys(numbers))


def plain(text: str) -> str:
    """A text as quotations are compared: one blank between words, no case."""
    return " ".join(text.split()).casefold()


def within(quotation: str, sources: Iterable[str]) -> bool:
    """Whether one of the sources, each as `plain` gives it, has the quotation."""
    wanted = _bare(quotation)
    return any(wanted in source for source in sources)


def judge(one: Quotation, evidence: Mapping[int, Collection[str]]) -> Judged:
    """The verdict on a quotation. `evidence`: the texts under each number, each as `plain` gives it."""
    holders = [number for number, texts in evidence.items() if within(one.text, texts)]
    named = [number for number in one.marks if number in holders]
    if named or (holders and not one.marks):
        return Judged(one, Verdict.SUPPORTED, (named or holders)[0])
    if holders:
        return Judged(one, Verdict.MISATTRIBUTED, holders[0])
    sources = [text for texts in evidence.values() for text in texts]
    return Judged(one, Verdict.STITCHED if _stitched(one.text, sources) else Verdict.ABSENT)


def _bare(quotation: str) -> str:
    return plain(quotation).strip(" .,…")


def _long(text: str) -> bool:
    # Scripts without blanks between words have one "word" of many letters.
    words = _WORD.findall(text)
    return len(words) >= LEAST_WORDS or any(not word.isascii() and len(word) >= 4 * LEAST_WORDS for word in words)


def _stitched(text: str, sources: Collection[str]) -> bool:
    parts = 0
    for piece in _OMISSION.split(text):
        words = _bare(piece).split()
        while words:
            length = max((_longest(words, source) for source in sources), default=0)
            if length < min(_LEAST_PART, len(words)) or parts == _MOST_PARTS:
                return False
            parts += 1
            words = words[length:]
    return parts > 1


def _longest(words: list[str], source: str) -> int:
    """How many of the words the source has in one text, from the first on."""
    fits, over = 0, len(words) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if " ".join(words[:middle]) in source:
            fits = middle
        else:
            over = middle
    return fits


def sentences(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the parts of a text that stand or fall together, without a rest that may go on.

    A part ends behind a full stop, its quotation marks and its marks, or at the end of a line, and never between
    quotation marks; a line's end closes them, and so do 4,000 characters.
    """
    start = 0
    for found in _STOP.finditer(text):
        length = found.end() - start
        if found[0] != "\n" and length <= _MOST_CHARS and not _closed(text[start : found.end()]):
            continue
        yield start, found.end()
        start = found.end()


_STOP = re.compile(rf"\n|[.!?。！？]+[{CLOSING}]?(?:\s*{MARK.pattern})*(?:[ \t]+(?=[^\s\[])|(?=\n))")  # noqa: RUF001


def _closed(text: str) -> bool:
    if text.count('"') % 2 or text.count("«") != text.count("»") or text.count("「") != text.count("」"):
        return False
    # The sign that ends a German quotation begins an English one.
    low, high, end = text.count("„"), text.count("“"), text.count("”")
    return low <= high + end and high - low <= end
