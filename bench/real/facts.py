"""What the knowledge base stored of a document, held against the document's own words by `naming`'s rules alone."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from bench.real import corpus, naming


@dataclass(frozen=True)
class Stored:
    """A relationship of the graph: the names of its two ends, and the sentences that prove it."""

    source: str
    type: str
    target: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """Of one document. `planted`: facts that it is known to state, of which `recalled` were stored.

    Of those that are `stored`, `invented` ones have no evidence that states them, `unnamed` ones evidence that names
    one end alone (where the document is plain they are invented as well), `unplanted` ones no evidence that states a
    planted fact.
    """

    planted: int
    recalled: int
    stored: int
    invented: int
    unnamed: int
    unplanted: int


class _Proof(enum.Enum):
    BOTH = enum.auto()
    """A sentence of the document that is evidence names both ends."""
    ONE = enum.auto()
    """Such a sentence names one end, and the document the other one elsewhere: a pronoun may stand for it."""
    NONE = enum.auto()


def count(document: corpus.Document, stored: Sequence[Stored]) -> Counted:
    """Held against its title and content."""
    text = f"{document.title}\n{document.content}"
    proofs = Counter(_proof(text, one) for one in stored)
    return Counted(
        planted=len(document.facts),
        recalled=sum(any(_same(fact, one) for one in stored) for fact in document.facts),
        stored=len(stored),
        invented=proofs[_Proof.NONE] + (proofs[_Proof.ONE] if document.plain else 0),
        unnamed=proofs[_Proof.ONE],
        unplanted=sum(not any(_proves(fact.sentence, one) for fact in document.facts) for one in stored),
    )


def of_itself(document: corpus.Document, stored: Stored) -> bool:
    """Whether an end is the document, which the graph knows by its title."""
    return naming.words(document.title) in (naming.words(stored.source), naming.words(stored.target))


def _same(fact: corpus.Fact, stored: Stored) -> bool:
    """Whether both are about the same two names, in any direction: what a model calls the relation is its own."""
    ends = sorted(map(naming.words, (stored.source, stored.target)))
    return ends == sorted(map(naming.words, (fact.source, fact.target)))


def _proof(text: str, stored: Stored) -> _Proof:
    ends = (stored.source, stored.target)
    named = [[naming.names(each, end) for end in ends] for each in naming.sentences(text) if _proves(each, stored)]
    if any(map(all, named)):
        return _Proof.BOTH
    elsewhere = all(naming.names(text, end) for end in ends)
    return _Proof.ONE if elsewhere and any(map(any, named)) else _Proof.NONE


def _proves(sentence: str, stored: Stored) -> bool:
    """Whether the sentence, or a part of it, is evidence."""
    return any(naming.within(one, sentence) or naming.within(sentence, one) for one in stored.evidence)
