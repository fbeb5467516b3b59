"""How much two texts say the same in the same words. Pure.

Compared are the words in their order (runs of four) of what each text says anew: without a mail's headers, its quotes
and the lines that introduce what it forwards. Texts with different numbers are not alike: they are two invoices, two
builds, two dates. The measured examples are in `docs/decisions/0104`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kb.extract import quote
from text import words

LEAST = 0.8
"""Of all runs of words, the share that both texts have; 1.0: the same words throughout."""
_RUN = 4
_LEAST_WORDS = 12
_MOST_CHARS = 4000
_QUERY_WORDS = 40
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Print:
    """Of one text: its words, and its words with digits."""

    words: tuple[str, ...]

    @property
    def numbers(self) -> frozenset[str]:
        return frozenset(one for one in self.words if any(letter.isdigit() for letter in one))

    @property
    def runs(self) -> frozenset[tuple[str, ...]]:
        return frozenset(self.words[at : at + _RUN] for at in range(len(self.words) - _RUN + 1))

    def query(self) -> str:
        """Words by which a search finds texts like it: the longest say most about it."""
        distinct = sorted(dict.fromkeys(self.words), key=len, reverse=True)
        return " ".join(distinct[:_QUERY_WORDS])


def of(text: str) -> Print | None:
    """None for a text that says too little to be known by it."""
    # Of a long text the beginning: reading all of it takes longer than it says more.
    said = quote.introduced(quote.new(text[: 8 * _MOST_CHARS])[: 2 * _MOST_CHARS])
    found = tuple(_WORD.findall(words.plain(said[:_MOST_CHARS])))
    return Print(found) if len(found) >= _LEAST_WORDS else None


def alike(one: Print, other: Print) -> float:
    """The share of runs that both have; 0.0 where their numbers differ."""
    if one.numbers != other.numbers:
        return 0.0
    every = one.runs | other.runs
    return len(one.runs & other.runs) / len(every) if every else 0.0


def best(own: Print, texts: Sequence[str]) -> tuple[int, float] | None:
    """Which of the texts is most like it, and how much; None where none is as like as `LEAST`."""
    found = [(alike(own, seen), -number) for number, text in enumerate(texts) if (seen := of(text)) is not None]
    score, number = max(found, default=(0.0, 0))
    return (-number, score) if score >= LEAST else None
