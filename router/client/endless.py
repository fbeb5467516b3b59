"""Text that only repeats itself: blanks, or the same few words, until somebody stops it. Pure.

A grammar lets a model write blanks between two fields for as long as it likes, and small models fall into loops.
Neither is of any use, and a GPU is held up by it.
"""

from __future__ import annotations

import re

BLANKS = 400
"""As many blanks in a row are in no JSON and no text."""
PERIOD = 512
"""The longest part that is looked for, in characters: some objects of a list."""
WINDOW = 8192
"""So many characters that repeat one part are a loop: some two thousand tokens. Tables have equal rows, forms have
rules of underscores, and logs have the same line again and again; what is asked for has fewer of them."""
LOOP = 1536
"""As many at the end of an answer that was ended at its bound are a loop, too."""
OBJECTS = 768, LOOP
"""As many are one anywhere in an answer of a shape, if they are three or more equal objects of a list without a bound:
no shape asks for the same object twice."""
_STEP = 128
# A quotation mark within a text is escaped, so this is none of a text that shows JSON.
_OBJECT = re.compile(r"\{\s*+\"")


class Watch:
    """Looks at one answer while it comes. `lists`: it was asked for as JSON with lists that no grammar ends."""

    def __init__(self, *, lists: bool = False) -> None:
        self._lists = lists
        self._tail = ""
        self._blanks = 0
        self._seen = 0

    def repeats(self, piece: str) -> bool:
        """Whether the answer, with this piece, does nothing but repeat itself."""
        bare = piece.rstrip()
        self._blanks = len(piece) - len(bare) + (0 if bare else self._blanks)
        if self._blanks > BLANKS:
            return True
        self._tail = (self._tail + piece)[-WINDOW:]
        self._seen += len(piece)
        if len(self._tail) < (OBJECTS[0] if self._lists else WINDOW) or self._seen < _STEP:
            return False
        self._seen = 0
        if self._lists and any(_repeats_objects(self._tail[-chars:], chars // 3) for chars in OBJECTS):
            return True
        return len(self._tail) == WINDOW and _repeats(self._tail)

    @property
    def loops(self) -> bool:
        """Whether the answer so far ends in a loop that is shorter than what ends it."""
        return len(self._tail) >= LOOP and _repeats(self._tail[-LOOP:])


def _repeats_objects(text: str, longest: int) -> bool:
    # Small models indent the same object in another way now and then.
    return _OBJECT.search(text) is not None and _repeats("".join(text.split()), longest)


def _repeats(text: str, longest: int = PERIOD) -> bool:
    """Whether a text repeats one part of at most `longest` characters."""
    # The part of its end is that of the whole, if it has one.
    end = text[-4 * longest :]
    part = next((length for length in range(1, longest + 1) if end.startswith(end[length:])), 0)
    return part > 0 and text.startswith(text[part:])
