"""What a model says about a chunk, and how it is held against the chunk's own words.

Every relationship needs the verbatim sentence that states it (seed 001 "Evidence-based Relationships"). A model's quote
is believed only when the chunk contains it; otherwise a sentence that names both ends is taken; otherwise the
relationship is dropped and counted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import ClassVar

from pydantic import ConfigDict, Field

from kb.extract import sentence, shape
from text import words

_SHORTEST_INFLECTED = 4


class Entity(shape.Shape):
    """Something the chunk names. The type stays open: clients have their own."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    name: str = Field(min_length=1, max_length=300)
    description: str = Field(default="", max_length=2000)
    type: str = Field(min_length=1, max_length=60)


class Relationship(shape.Shape):
    """Something the chunk states about two entities, which are given by name. The sentence comes before what it says:
    a model that has copied it invents less."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    evidence: str = Field(default="", max_length=4000)
    source: str = Field(min_length=1, max_length=300)
    target: str = Field(min_length=1, max_length=300)
    type: str = Field(min_length=1, max_length=120)


class Extraction(shape.Shape):
    """The answer to `kb.extract/v1`."""

    tokens: ClassVar[int] = shape.LONGEST
    # One list is as good without the other: the evidence of what is in it is checked against the chunk all the same.
    cautious: ClassVar[shape.Cautious] = {"entities": [], "relationships": []}

    entities: list[Entity] = Field(max_length=200)
    relationships: list[Relationship] = Field(max_length=400)


def naming(sentences: Sequence[sentence.Sentence], name: str) -> list[sentence.Sentence]:
    """The sentences that contain `name` as a word, whatever its case; if none does, those that inflect it."""
    wanted = _plain(name)
    exact = [candidate for candidate in sentences if _stands_in(wanted, _plain(candidate.text))]
    return exact or [candidate for candidate in sentences if _inflected(name, candidate.text)]


def prove(sentences: Sequence[sentence.Sentence], stated: Relationship, title: str = "") -> sentence.Sentence | None:
    """The sentence of the chunk that states a relationship, or None: the one that is quoted, else one that names both
    ends. What neither chunk nor title names is invented.

    A quoted one may name one end alone, as a pronoun may stand for the other: for what the title names, or the sentence
    before. (Of 545 triples that OpenIE found in passages of Wikipedia, a sentence names both ends of 343, one end of
    170 whose other one is in the title, and one end of 16 behind a sentence with the other.)"""
    ends = (stated.source, stated.target)
    head = [sentence.Sentence(title, 0, len(title))]
    quote = _bare(stated.evidence)
    for at, candidate in enumerate(sentences if quote else ()):
        if not _quotes(quote, _bare(candidate.text)) or not any(naming([candidate], end) for end in ends):
            continue
        if all(naming([*head, *sentences[max(at - 1, 0) : at + 1]], end) for end in ends):
            return candidate
    named = [{candidate.start for candidate in naming(sentences, end)} for end in ends]
    both = [candidate for candidate in sentences if all(candidate.start in starts for starts in named)]
    return both[0] if both else None


def _quotes(quote: str, text: str) -> bool:
    return quote in text or (len(text) >= 20 and text in quote)


# A document asks the same sentences for each of its names; a compiled pattern per name took most of an ingest's time.
@functools.lru_cache(maxsize=4096)
def _plain(text: str) -> str:
    return words.plain(text)


def _stands_in(name: str, text: str) -> bool:
    """Whether `text` contains `name` with no letter, digit or underscore beside it, where its script has spaces."""
    at = text.find(name) if name else -1
    while at >= 0:
        end = at + len(name)
        if not _joined(text[at - 1 : at], name[:1]) and not _joined(name[-1:], text[end : end + 1]):
            return True
        at = text.find(name, at + 1)
    return False


def _joined(one: str, other: str) -> bool:
    """Whether two neighbours are of one word."""
    if words.unspaced(one) or words.unspaced(other):
        return False
    return _in_word(one) and _in_word(other)


def _in_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _inflected(name: str, text: str) -> bool:
    """Whether `text` has words with the stems of the name's, in order. A short name has no stem to know it by."""
    wanted, said = words.stems(name), words.stems(text)
    if len("".join(wanted)) < _SHORTEST_INFLECTED:
        return False
    return any(said[at : at + len(wanted)] == wanted for at in range(len(said) - len(wanted) + 1))


def _bare(text: str) -> str:
    return _plain(text).strip(" \"'.")
