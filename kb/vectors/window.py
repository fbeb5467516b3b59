"""How many tokens an embedding model makes of a text, and a text cut into pieces that fit its window. Pure.

No tokenizer is there: each model has its own. The count goes by the form of the words, and errs on the high side for
WordPiece (all-MiniLM) and SentencePiece (multilingual-e5), by 5 to 25 % in European languages (decision 0172). What it
takes for too short all the same is refused by a server that says so, and halved by `kb.vectors.embedding`.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

from kb.vectors import model

UNKNOWN = 512
"""Tokens of a window that neither a setting nor the server names: what small embedding models have."""
LEAST = 64
"""Tokens of the smallest window that is used."""
# The two tokens that encoders put around a text.
_AROUND = 2
# A run of letters and digits, in parts of at most so many characters, or one other character that is not blank.
_PART = re.compile(r"[^\W_]{1,16}|[^\w\s]|_")
# Where to cut, best first, as in `kb.extract.chunk`: between paragraphs, lines, sentences, words.
_BREAKS = (
    re.compile(r"\n[ \t]*\n\s*"),
    re.compile(r"\n\s*"),
    re.compile(r"(?<=[.!?;\u0964])\s+|(?<=[\u3002\uff01\uff1f\uff1b])\s*"),
    re.compile(r"\s+"),
)
_SHORT = 4
_ORDINARY = 8
# The most tokens that one character becomes: a Hangul syllable or an emoji.
_MOST = 2


def tokens(text: str) -> int:
    """An estimate that is rarely too small; two for the marks around the text are in it."""
    return _AROUND + sum(_cost(match[0]) for match in _PART.finditer(text))


def pieces(text: str, limit: int) -> list[str]:
    """The text itself where it has at most `limit` tokens, otherwise pieces of about equal length that have.

    All that is not blank is in one piece. `limit` is at least `LEAST`.
    """
    if limit < LEAST:
        raise ValueError(f"a window has at least {LEAST} tokens, not {limit}")
    if len(text) * _MOST + _AROUND <= limit:
        return [text]
    parts = list(_PART.finditer(text))
    # Tokens before each part, and at the end.
    before = [0, *itertools.accumulate(_cost(part[0]) for part in parts)]
    starts = [part.start() for part in parts]
    limit -= _AROUND
    if before[-1] <= limit:
        return [text]
    made: list[str] = []
    first = 0
    while before[-1] - before[first] > limit:
        left = before[-1] - before[first]
        aim = left / math.ceil(left / limit)
        # Any part from `low` to `high` may begin the next piece. At least one part is taken: none has so many tokens.
        high = bisect_right(before, before[first] + limit) - 1
        low = min(max(bisect_left(before, before[first] + aim * 0.75), first + 1), high)
        cut = _cut(text, starts[low], starts[high], starts[bisect_left(before, before[first] + aim, low, high)])
        made.append(text[starts[first] : cut].rstrip())
        first = bisect_left(starts, cut)
    made.append(text[starts[first] :].rstrip())
    return made


def halves(text: str) -> list[str]:
    """The text in two, cut at the best place of its middle third. It has two characters or more, the outer ones not
    blank."""
    middle = len(text) // 2
    cut = _cut(text, max(len(text) // 3, 1), max(2 * len(text) // 3, middle), middle)
    return [text[:cut].rstrip(), text[cut:].lstrip()]


def mean(vectors: Iterable[model.Vector]) -> model.Vector:
    """The direction between vectors, of unit length: what stands for a text of whose pieces they are."""
    units = [_unit(vector) for vector in vectors]
    return _unit([math.fsum(column) for column in zip(*units, strict=True)])


def _unit(vector: Sequence[float]) -> model.Vector:
    length = math.hypot(*vector) or 1.0
    return [number / length for number in vector]


def _cut(text: str, low: int, high: int, aim: int) -> int:
    """Where the next piece begins: the best break from `low` to `high`, of equal ones that nearest to `aim`."""
    for pattern in _BREAKS:
        ends = [match.end() for match in pattern.finditer(text, max(low - 1, 0), high) if low <= match.end() <= high]
        if ends:
            return min(ends, key=lambda end: abs(end - aim))
    return aim


def _cost(part: str) -> int:
    """Tokens of a run of letters and digits, or of one other character."""
    size = len(part)
    if part.isascii():
        if part.isdigit():
            return (size + 1) // 2
        if part.isalpha() and (part.islower() or part.istitle()):
            return 1 if size <= _SHORT else math.ceil(size / (4 if size <= _ORDINARY else 3))
        # Identifiers, and hashes or encoded data: few of their pieces are in a vocabulary.
        return math.ceil(size * (0.6 if part.isalpha() else 0.75))
    last = ord(max(part))
    if last < 0x250:  # Latin letters with marks, which some models take apart
        return (size + 1) // 2
    return size * (_MOST if 0xAC00 <= last <= 0xD7A3 or last > 0xFFFF else 1)  # Hangul, emoji
