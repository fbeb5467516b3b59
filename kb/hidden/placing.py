"""Hidden parts in the text that another program has read from a file, in their places. Pure.

Both readers name the same words in about the same order, with other blanks between them. So each piece is looked for
without its blanks, from where the last one was found; what is not found stands behind the text.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

from kb.hidden import marks

Piece = tuple[marks.Kind | Literal[""], str]
"""A kind of `marks.Kind`, or "" for what is seen, and what it says."""
_Span = tuple[int, int, marks.Kind]
_NEAR, _BESIDE, _SHORT = 20_000, 200, 8
"""How far on a piece is looked for; one with fewer than `_SHORT` letters, which stands everywhere, only beside."""
_PARTS, _CHARS = 200, 2000
"""Parts that stand behind the text, and of how many letters each."""
_LETTERS = 100_000_000
"""Letters that are gone over for all pieces together; hidden pieces that are left stand behind the text."""
_ELSEWHERE = 50
"""Parts that are looked for in all of the text."""


def placed(text: str, pieces: Sequence[Piece]) -> str:
    """`text`, which has no marks, with marks around the hidden ones of `pieces`, which stand in their order."""
    if not any(kind for kind, _ in pieces):
        return text
    letters, places = _bare(text)
    spans: list[_Span] = []
    behind: dict[tuple[marks.Kind, str], None] = {}
    at, looks, left = 0, _ELSEWHERE, _LETTERS
    for kind, said in pieces:
        wanted = "".join(said.split())
        if not wanted:
            continue
        known = len(wanted) >= _SHORT
        end = min(at + (_NEAR if known else _BESIDE) + len(wanted), len(letters))
        where = letters.find(wanted, at, end) if left > 0 else -1
        left -= (where if where >= 0 else end) - at
        if where < 0 and kind and known and looks:
            looks -= 1
            # The order may be another one: where it stands once it is that one.
            where = letters.find(wanted)
            if where >= 0 and letters.find(wanted, where + 1) >= 0:
                where = -1
        elif where >= 0:
            at = where + len(wanted)
        if kind and where >= 0:
            spans.append((where, where + len(wanted), kind))
        elif kind:
            behind.setdefault((kind, " ".join(said[:_CHARS].split())))
    made, done = [], 0
    for start, stop, kind in _joined(spans):
        begin, end = places[start], places[stop - 1] + 1
        made += [text[done:begin], marks.begin(kind), text[begin:end], marks.end()]
        done = end
    told = "".join(f"\n{marks.around(kind, said)}" for kind, said in list(behind)[:_PARTS])
    return "".join([*made, text[done:], told])


def _bare(text: str) -> tuple[str, array[int]]:
    places = array("I", (at for at, letter in enumerate(text) if not letter.isspace()))
    return "".join(text.split()), places


def _joined(spans: list[_Span]) -> list[_Span]:
    """In order, neighbours of a kind as one, and none within another."""
    made: list[_Span] = []
    for start, stop, kind in sorted(spans):
        if made and start <= made[-1][1] and kind == made[-1][2]:
            made[-1] = (made[-1][0], max(stop, made[-1][1]), kind)
        elif not made or start >= made[-1][1]:
            made.append((start, stop, kind))
    return made
