"""Which relationships a newer fact took the place of, and how well one is proven."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from crds import scope
from kb.graph import model, temporal
from kb.graph import store as graph

# What one independent source is worth: a model may misread a sentence, a given relationship is a field's value.
_READ, _GIVEN = 0.6, 0.9


async def retired(
    store: graph.Store,
    viewer: scope.Scope,
    edges: Iterable[model.Edge],
    *,
    as_of: datetime | None = None,
    history: bool = False,
) -> Mapping[model.Edge, temporal.Retired]:
    """When and by what each of the edges was retired, for those that were (`kb.graph.temporal`).

    One question to the store for all of them, none where no edge can be retired.
    """
    functional = [edge for edge in edges if edge.type in temporal.FUNCTIONAL]
    if not functional:
        return {}
    sources, types = {edge.source for edge in functional}, {edge.type for edge in functional}
    return temporal.retired(await store.observed(viewer, sources, types, as_of=as_of, history=history))


def confidence(proofs: Iterable[model.Statement]) -> float:
    """How sure it is that a relationship holds, 0 to 1: 1 less the chance that each independent proof is wrong.

    Seed 001 "Evidence-based Relationships": more evidence, higher confidence. Independent are proofs of other documents
    in other words: a sentence that five mails quote, or that one document says five times, is one proof.
    """
    documents: set[str] = set()
    sentences: set[str] = set()
    wrong = 1.0
    # The strongest first, then in one order, so that the same proofs give the same number.
    for one in sorted(proofs, key=lambda one: (not one.places, one.document.id, one.sentence_id)):
        # What callers give is worded by this program alone, so equal words say nothing of it.
        words = "" if one.places else " ".join(one.sentence.split()).casefold()
        if one.document.id in documents or words in sentences:
            continue
        documents.add(one.document.id)
        if words:
            sentences.add(words)
        wrong *= 1.0 - (_GIVEN if one.places else _READ)
    return round(1.0 - wrong, 4)
