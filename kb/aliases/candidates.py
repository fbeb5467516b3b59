"""Nodes that may be the same thing: candidates for a merge, never a merge. Pure.

Likeness is of the names' letters and words. Two rules keep out what spelling cannot tell (kb page, trap 6): short
acronyms must be equal, and numbers must agree - TASK-12 is not TASK-13.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"\d+")
_SHORTEST = 5
LEAST = 0.75


def likeness(one: str, other: str) -> float:
    """0 to 1 for two keys of one type; 0 for different types and for what spelling cannot tell."""
    kind, _, left = one.partition(":")
    other_kind, _, right = other.partition(":")
    if kind != other_kind or left == right or _NUMBER.findall(left) != _NUMBER.findall(right):
        return 0.0
    words, others = _words(left), _words(right)
    if not words or not others:
        return 0.0
    if words == others:
        return 1.0  # john.doe and doe, john
    contained = words < others or others < words
    if contained:
        # John and John Doe: as sure as the share of the words that both have.
        return 0.75 + 0.25 * min(len(words), len(others)) / max(len(words), len(others))
    if min(len(left), len(right)) < _SHORTEST:
        return 0.0
    return difflib.SequenceMatcher(None, left, right, autojunk=False).ratio()


def rank(key: str, others: Iterable[str], *, limit: int) -> list[tuple[str, float]]:
    """Those of `others` that are like `key`, the likest first."""
    scored = [(other, likeness(key, other)) for other in others]
    found = [(other, score) for other, score in scored if score >= LEAST]
    return sorted(found, key=lambda pair: (-pair[1], pair[0]))[:limit]


def starts(key: str) -> list[str]:
    """Pieces of a key by which nodes that may be like it are looked for: how its words begin."""
    name = key.partition(":")[2].partition("@")[0]
    return sorted({word[:3] for word in _WORD.findall(name.replace("_", " ")) if len(word) >= 3})[:5] or [name]


def _words(name: str) -> frozenset[str]:
    # A mail address says who in front of the @.
    return frozenset(_WORD.findall(name.partition("@")[0].replace("_", " ").replace(".", " ")))
