"""Word error rate: substitutions, deletions and insertions per word of the reference (Levenshtein over words)."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBERS = dict(enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")))


def words(text: str) -> list[str]:
    """Without case and punctuation; numbers up to ten as English words, a hyphen joins."""
    plain = re.findall(r"[\w']+", text.casefold().replace("-", "").replace("\u2019", "'"))
    return [_NUMBERS[int(word)] if word.isdecimal() and int(word) in _NUMBERS else word for word in plain]


def errors(reference: Sequence[str], heard: Sequence[str]) -> int:
    """Words that would have to be replaced, left out or put in."""
    before = list(range(len(heard) + 1))
    for count, expected in enumerate(reference, start=1):
        row = [count]
        for number, word in enumerate(heard, start=1):
            row.append(min(before[number] + 1, row[-1] + 1, before[number - 1] + (word != expected)))
        before = row
    return before[-1]


def rate(reference: str, heard: str) -> float:
    """Errors per word of the reference."""
    expected = words(reference)
    return errors(expected, words(heard)) / len(expected)
