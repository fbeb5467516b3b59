"""Long texts within the room of a prompt: beginning and end stay, and a line says what is left out. Pure.

Sizes are bytes of UTF-8, as tokens are counted from them, unless a function is given another measure.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Measure = Callable[[str], int]

_LEAST = 100
"""A text of which less would be shown is left out."""
_WORTH = 1500
"""What a text may have of the room, whatever else there is to show."""
_NEAR = 5
"""A cut moves to the end of a line within this part of the text."""
_PIECE = 800
"""Characters of a passage."""
_WORD = re.compile(r"[^\W_]{4,}")
_STEM = 5
"""Letters by which two forms of a word count as one."""
_GONE_SIZE = 60


def size(text: str) -> int:
    """Bytes of UTF-8."""
    return len(text.encode(errors="replace"))


def _left_out(count: int) -> str:
    return f"[{count} characters are left out here.]"


@dataclass(frozen=True, slots=True)
class Cut:
    """`text` is what is shown; `left_out` how many characters of the whole are not, the first of them at `start`."""

    text: str
    left_out: int = 0
    start: int = 0


def cut(text: str, most: int, measure: Measure = size) -> Cut:
    """The text within `most`: whole, or the same of its beginning and its end, with a line between them that says how
    many characters are left out. Cut at the ends of lines, where those are near."""
    if len(text) <= most and measure(text) <= most:
        return Cut(text)
    room = most - measure(_left_out(len(text))) - 2
    if room < 2:
        shown = first(text, max(0, most), measure)
        return Cut(shown, len(text) - len(shown), len(shown))
    head = first(text, room - room // 2, measure)
    tail = first(text[::-1], room // 2, measure)[::-1]
    line = head.rfind("\n") + 1
    if line > len(head) - len(head) // _NEAR:
        head = head[:line]
    line = tail.find("\n") + 1
    if line and line < len(tail) // _NEAR:
        tail = tail[line:]
    gone = len(text) - len(head) - len(tail)
    return Cut(f"{head.rstrip()}\n{_left_out(gone)}\n{tail.lstrip()}", gone, len(head))


def ends(text: str, most: int, measure: Measure = size) -> str:
    """What `cut` shows."""
    return cut(text, most, measure).text


def edges(text: str, most: int) -> str:
    """Beginning and end of a text without a word about the rest, at most `most` characters: for what looks for words
    in it and shows it to no one."""
    half = max(0, most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}\n{text[len(text) - half :]}"


def first(text: str, most: int, measure: Measure = size) -> str:
    """The most of the beginning that measures at most `most`. No text measures less than it has characters."""
    clipped = text[:most]
    if measure(clipped) <= most:
        return clipped
    low, high = 0, len(clipped)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(clipped[:middle]) <= most else (low, middle - 1)
    return clipped[:low]


def shares(sizes: Sequence[int], room: int) -> list[int]:
    """What each of several texts has of `room`, the most important one first: all that it needs where that leaves half
    of the room to the others, or what they need. 0: it is left out."""
    given: list[int] = []
    others = sum(sizes)
    for each in sizes:
        others -= each
        taken = min(each, max(room - min(others, room // 2), min(room, _WORTH)))
        if taken < min(each, _LEAST):
            taken = 0
        given.append(taken)
        room -= taken
    return given


def passages(text: str, about: str, most: int, measure: Measure = size) -> Cut:
    """Those parts of a text that share the most words with `about`, rare words first, in the order of the text and
    within `most`; lines between them say how many characters are left out."""
    if len(text) <= most and measure(text) <= most:
        return Cut(text)
    pieces = _pieces(text)
    words = [frozenset(_stems(piece)) for piece in pieces]
    seen = Counter(word for each in words for word in each)
    wanted = frozenset(_stems(about)) & seen.keys()
    scores = [sum(math.log1p(len(pieces) / seen[word]) for word in each & wanted) for each in words]
    note = measure(_left_out(len(text))) + 2
    room, taken = most - note, set[int]()
    for place in sorted(range(len(pieces)), key=lambda place: (-scores[place], place)):
        needed = measure(pieces[place]) + note
        if needed <= room:
            taken.add(place)
            room -= needed
    shown: list[str] = []
    gone = total = 0
    for place, piece in enumerate(pieces):
        if place not in taken:
            gone += len(piece)
            continue
        if gone:
            shown.append(f"{_left_out(gone)}\n")
        # A piece of a long line has no end of a line.
        shown.append(piece if piece.endswith("\n") or place + 1 in taken else f"{piece}\n")
        total, gone = total + gone, 0
    if gone:
        shown.append(_left_out(gone))
    return Cut("".join(shown).strip("\n") if taken else "", total + gone)


def _pieces(text: str) -> list[str]:
    """The text in pieces of whole lines; a longer line is divided."""
    pieces, size_of_last = list[list[str]](), _PIECE
    for line in text.splitlines(keepends=True):
        for start in range(0, len(line), _PIECE):
            part = line[start : start + _PIECE]
            if size_of_last + len(part) > _PIECE:
                pieces.append([])
                size_of_last = 0
            pieces[-1].append(part)
            size_of_last += len(part)
    return ["".join(parts) for parts in pieces]


def _stems(text: str) -> list[str]:
    return [word[:_STEM].casefold() for word in _WORD.findall(text)]


@dataclass(frozen=True, slots=True)
class Parts:
    """A question in the parts that are shortened each by itself: `main` is what the task is, `added` what the user has
    written since, oldest first."""

    main: str
    added: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join([self.main, *self.added])

    def each(self, change: Callable[[str], str]) -> Parts:
        """With every part changed."""
        return Parts(change(self.main), tuple(map(change, self.added)))

    def within(self, most: int) -> str:
        """The text within `most` bytes: `main` has at least half of them, then the latest addition comes first. Each is
        shown whole or by its beginning and its end, and a line says what is left out."""
        return self.cut(most)[0]

    def cut(self, most: int) -> tuple[str, Cut]:
        """The text of `within`, and how `main` is shown in it."""
        sizes = [size(one) + 1 for one in self.added]
        if size(self.main) + sum(sizes) <= most:
            return self.text, Cut(self.main)
        main = cut(self.main, min(size(self.main), max(most // 2, most - sum(sizes))))
        given = shares(sizes[::-1], most - size(main.text) - _GONE_SIZE)[::-1]
        kept = [ends(one, share - 1) for one, share in zip(self.added, given, strict=True) if share]
        dropped = len(given) - len(kept)
        gone = [f"[{dropped} additions of the user are left out here.]"] if dropped else []
        return "\n".join([main.text, *gone, *kept]), main


def within(question: Parts | str, most: int, change: Callable[[str], str] = str) -> str:
    """`Parts.within` of a question whose parts are changed before; a text is one part."""
    parts = question if isinstance(question, Parts) else Parts(question)
    return parts.each(change).within(most)


def beside(room: int) -> int:
    """The most that a question has of `room`: a quarter is kept for what is shown with it."""
    return max(0, room - room // 4)
