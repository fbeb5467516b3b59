"""Sentences, and what they name: rules of the measurement's own, so that they do not agree with those measured. Pure.

Of scripts that put blanks between words."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Sequence

_STEM = 3
"""The fewest letters that two forms of a word have in common, which are as well most of the longer one's."""
_SHARE = 0.6


def sentences(text: str) -> list[str]:
    """The sentences of a text; each line ends one."""
    return [each for each in re.split(r"\n+|(?<=[.!?])\s+", text) if words(each)]


def words(text: str) -> list[str]:
    """The words of a text in small letters, without what stands between them."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).casefold())


def within(part: str, text: str) -> bool:
    """Whether the words of `part` stand in `text` as they are, one after the other."""
    return f" {' '.join(words(part))} " in f" {' '.join(words(text))} "


def names(text: str, name: str) -> bool:
    """Whether `text` names something: all words of its name one after the other, each in any of its forms."""
    wanted, said = words(name), words(text)
    return bool(wanted) and any(_alike(wanted, said[at : at + len(wanted)]) for at in range(len(said)))


def _alike(wanted: Sequence[str], said: Sequence[str]) -> bool:
    return len(wanted) == len(said) and all(map(_forms, wanted, said))


def _forms(one: str, other: str) -> bool:
    common = len(list(itertools.takewhile(lambda letters: letters[0] == letters[1], zip(one, other, strict=False))))
    return one == other or common >= max(_STEM, _SHARE * max(len(one), len(other)))
