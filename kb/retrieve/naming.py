"""The names in a question: runs of its words that a node could be called by. Pure.

"Who wrote Gateway.kt?" names `file:gateway.kt` whatever its letters' case; of names within names the longest counts.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from kb.ingest import reference

_WORD = re.compile(r"\S+")
_POSSESSIVE = re.compile(r"['\u2019]s?[?,.!;:]*$")
_LONGEST = 12
# A question of more words than this is a document; only its beginning is looked through.
_WORDS = 120
_SHORTEST = 3


@dataclass(frozen=True)
class Span:
    """Words `start` to `end` (exclusive) of the question, as the name of a node is written."""

    start: int
    end: int
    name: str


def spans(question: str) -> list[Span]:
    """Every run of at most twelve words, in both readings where it ends with a possessive."""
    words = [(match.start(), match.end()) for match in _WORD.finditer(question)][:_WORDS]
    found: list[Span] = []
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + _LONGEST) + 1):
            text = question[words[start][0] : words[end - 1][1]]
            names = {reference.fold(text), reference.fold(_POSSESSIVE.sub("", text))}
            found += [Span(start, end, name) for name in sorted(names) if len(name) >= _SHORTEST]
    return found


def longest(candidates: Collection[Span], known: Collection[str]) -> list[str]:
    """The `known` names among the candidates that are not part of a longer known one, in order of the question."""
    hits = sorted((one for one in candidates if one.name in known), key=lambda one: (one.start - one.end, one.start))
    kept: list[Span] = []
    for one in hits:
        if not any(other.start <= one.start and one.end <= other.end and other.name != one.name for other in kept):
            kept.append(one)
    return list(dict.fromkeys(one.name for one in sorted(kept, key=lambda one: one.start)))
