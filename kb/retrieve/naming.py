"""The names in a question: runs of its words that a node could be called by. Pure.

"Who wrote Gateway.kt?" names `file:gateway.kt` whatever its letters' case; of names within names the longest counts.
Where no node is called by a run of words, its inflected form may be meant ("Janou Novákovou"): see `inflected`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from kb.extract import reference
from kb.graph import model
from text import words

_POSSESSIVE = re.compile(r"['\u2019]s?[?,.!;:]*$")
_LONGEST = 12
# A question of more words than this is a document; only its beginning is looked through.
_WORDS = 120
_SHORTEST = 3
# A name in a script that needs one character for a word.
_SHORTEST_UNSPACED = 2


@dataclass(frozen=True)
class Span:
    """Words `start` to `end` (exclusive) of the question, as the name of a node is written, and its stem."""

    start: int
    end: int
    name: str
    stem: str


def spans(question: str) -> list[Span]:
    """Every run of at most twelve words, in both readings where it ends with a possessive.

    In a script without spaces each character counts as a word.
    """
    places = words.places(question)[:_WORDS]
    found: list[Span] = []
    for start in range(len(places)):
        for end in range(start + 1, min(len(places), start + _LONGEST) + 1):
            text = question[places[start][0] : places[end - 1][1]]
            least = _SHORTEST_UNSPACED if words.unspaced(text) else _SHORTEST
            bare = _POSSESSIVE.sub("", text)
            names = {reference.fold(text)} if bare == text else {reference.fold(text), reference.fold(bare)}
            stem = model.stem_of(f":{text}") if text[:1].isupper() else ""
            found += [Span(start, end, name, stem) for name in sorted(names) if len(name) >= least]
    return found


def longest(candidates: Collection[Span], known: Collection[str]) -> list[str]:
    """The `known` names among the candidates that are not part of a longer known one, in order of the question."""
    return list(dict.fromkeys(one.name for one in _longest([one for one in candidates if one.name in known])))


def inflected(candidates: Collection[Span], known: Collection[str], stems: Collection[str]) -> list[str]:
    """The `stems` of the candidates that share no word with a `known` name, the longest ones as in `longest`.

    Only what is written as a name, with a capital letter, is one: any word has a stem that is some node's.
    """
    taken = {place for one in candidates if one.name in known for place in range(one.start, one.end)}
    free = [one for one in candidates if one.stem in stems and taken.isdisjoint(range(one.start, one.end))]
    return list(dict.fromkeys(one.stem for one in _longest(free)))


def _longest(hits: Collection[Span]) -> list[Span]:
    kept: list[Span] = []
    for one in sorted(hits, key=lambda one: (one.start - one.end, one.start)):
        if not any(other.start <= one.start and one.end <= other.end and other.name != one.name for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda one: one.start)
