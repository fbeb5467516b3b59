"""What a model says about a chunk, and how it is held against the chunk's own words.

Every relationship needs the verbatim sentence that states it (seed 001 "Evidence-based Relationships"). A model's quote
is believed only when the chunk contains it; otherwise a sentence that names both ends is taken; otherwise the
relationship is dropped and counted.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field

from kb.ingest import sentence


class Entity(BaseModel):
    """Something the chunk names."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    name: str = Field(min_length=1, max_length=300)
    type: str = Field(min_length=1, max_length=60)
    description: str = Field(default="", max_length=2000)


class Relationship(BaseModel):
    """Something the chunk states about two entities, which are given by name."""

    model_config = ConfigDict(extra="ignore", str_strip_whitespace=True)

    source: str = Field(min_length=1, max_length=300)
    target: str = Field(min_length=1, max_length=300)
    type: str = Field(min_length=1, max_length=120)
    evidence: str = Field(default="", max_length=4000)


class Extraction(BaseModel):
    """The answer to `kb.extract/v1`."""

    model_config = ConfigDict(extra="ignore")

    entities: list[Entity] = Field(max_length=200)
    relationships: list[Relationship] = Field(max_length=400)


def naming(sentences: Sequence[sentence.Sentence], name: str) -> list[sentence.Sentence]:
    """The sentences that contain `name` as a word, whatever its case."""
    wanted = _folded(name)
    return [candidate for candidate in sentences if _stands_in(wanted, _folded(candidate.text))]


def prove(sentences: Sequence[sentence.Sentence], stated: Relationship) -> sentence.Sentence | None:
    """The sentence of the chunk that states a relationship, or None."""
    quote = _plain(stated.evidence)
    if quote:
        for candidate in sentences:
            plain = _plain(candidate.text)
            if quote in plain or (len(plain) >= 20 and plain in quote):
                return candidate
    targets = {candidate.start for candidate in naming(sentences, stated.target)}
    both = [candidate for candidate in naming(sentences, stated.source) if candidate.start in targets]
    return both[0] if both else None


# A document asks the same sentences for each of its names; a compiled pattern per name took most of an ingest's time.
@functools.lru_cache(maxsize=4096)
def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _stands_in(name: str, text: str) -> bool:
    """Whether `text` contains `name` with no letter, digit or underscore at either side."""
    at = text.find(name) if name else -1
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(name) : at + len(name) + 1]
        if not _continues(before) and not _continues(after):
            return True
        at = text.find(name, at + 1)
    return False


def _continues(character: str) -> bool:
    return character.isalnum() or character == "_"


def _plain(text: str) -> str:
    return _folded(text).strip(" \"'.")
