"""A corpus several times over, each copy about things of its own: as much text as a test of size needs. Pure.

Every name's words end with the copy's letter, of a script that no corpus is written in. Names differ then from copy to
copy, and so do nodes, edges and rare words; sentences stay as long and as connected as they were.
"""

from __future__ import annotations

import re

from bench.kb import names

_FIRST = 0x1200
_LETTERS = 256
_NAME = re.compile(r"\b[A-Z\u00c0-\u00d6\u00d8-\u00de]\w+")
_MARK = re.compile("[\u1200-\u12ff]")


def mark(text: str, copy: int) -> str:
    """The text as copy number `copy` has it (1 to 255); copy 0 is the original."""
    if not 0 <= copy < _LETTERS:
        raise ValueError(f"copies are numbered 0 to {_LETTERS - 1}, not {copy}")
    if copy == 0:
        return text
    letter = chr(_FIRST + copy)
    return _NAME.sub(lambda found: _marked(found.group(), letter), text)


def _marked(word: str, letter: str) -> str:
    return word if word.casefold() in names.OPENING else word + letter


def original(text: str) -> str:
    """The text that was copied."""
    return _MARK.sub("", text)
