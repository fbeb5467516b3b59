"""What a model says about a chunk, and how it is held against the chunk's own words.

Every relationship needs the verbatim sentence that states it (seed 001 "Evidence-based Relationships"). A model's quote
is believed only when the chunk contains it; otherwise a sentence that names both ends is taken; otherwise the
relationship is dropped and counted.
"""

from __future__ import annotations

import re
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
    words = r"\s+".join(re.escape(word) for word in name.split())
    pattern = re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
    return [candidate for candidate in sentences if pattern.search(candidate.text)]


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


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().strip(" \"'.")
