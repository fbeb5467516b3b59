"""Forty notes of a software company in five languages, and forty questions with inflected names, fifteen over two hops.

The notes (`tests/kb/languages`) are parallel: a language that is found worse than English is treated worse. This is the
quality gate of retrieval: the whole of it must not be worse than the better of its parts, in any language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from crds.priority import Priority
from kb import api
from kb.extract import answers as kept
from kb.extract import draft, extraction, prompt
from kb.retrieve import search
from tests.kb import scopes, world

_FOLDER = Path(__file__).parent.parent / "languages"
# One question of forty, found second instead of first, is 1.25 points of the mean reciprocal rank.
_ONE_QUESTION = 1.25
_WANTED = {"en": (95, 93), "de": (91, 91), "cs": (92, 93), "ru": (92, 92), "ja": (95, 95)}
"""Mean reciprocal rank and recall at 2, in percent."""


@dataclass(frozen=True)
class Figures:
    """Of one way to search: mean reciprocal rank and recall at 2, in percent."""

    rank: float
    recall: float


def rows(language: str, what: str) -> list[list[str]]:
    text = (_FOLDER / f"{language}.{what}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


async def ingest(kb: world.ObservedState, language: str) -> None:
    """The notes, with the names that are listed beside each as what the model found in it."""
    for number, title, text, names in rows(language, "notes"):
        document = api.IngestRequest(
            scope=scopes.SHOP, source_urn=f"note:{number}", kind="note", title=title, content=text
        )
        found = extraction.Extraction(
            entities=[extraction.Entity(name=name, type="thing") for name in names.split(";")], relationships=[]
        )
        [piece] = draft.make(document, text, size=4000, overlap=200).pieces
        asked = prompt.extract(piece.chunk.text, title=title, kind="note")
        place = kept.key("qwen2.5:7b", asked, extraction.Extraction)
        await kb.ledger.keep_answer(place, asked.name, found.model_dump_json(by_alias=True), scopes.SHOP)
        await kb.ingest(document)


def figures(found: Sequence[tuple[set[str], list[str]]]) -> Figures:
    """Of the wanted notes and the found ones, best first, of each question."""
    ranks = [next((1 / place for place, one in enumerate(order, 1) if one in gold), 0.0) for gold, order in found]
    recalls = [len(gold.intersection(order[:2])) / len(gold) for gold, order in found]
    return Figures(100 * sum(ranks) / len(ranks), 100 * sum(recalls) / len(recalls))


@pytest.mark.parametrize("language", _WANTED)
async def test_a_language_is_found_as_well_as_english(kb: world.ObservedState, language: str) -> None:
    await ingest(kb, language)
    finder = kb.finder(search.Breadth())
    urns = {
        item.provenance.chunk_id: item.provenance.source_urn.removeprefix("note:")
        for item in (await kb.ask("a", max_results=50)).items
    }
    parts: dict[str, list[tuple[set[str], list[str]]]] = {"vector": [], "keyword": [], "whole": []}
    for _, question, gold in rows(language, "questions"):
        vector = await finder.embed(question, Priority.P0)
        hits = {
            "vector": await kb.vectors.dense(scopes.SHOP, vector, limit=50),
            "keyword": await kb.vectors.lexical(scopes.SHOP, question, limit=50),
        }
        for name, order in hits.items():
            parts[name].append((set(gold.split(",")), [urns[hit.chunk_id] for hit in order]))
        reply = await kb.ask(question, max_results=20)
        best = [item.provenance.source_urn.removeprefix("note:") for item in reply.items]
        parts["whole"].append((set(gold.split(",")), best))
    by_vector, by_word, whole = (figures(parts[name]) for name in ("vector", "keyword", "whole"))
    rank, recall = _WANTED[language]
    assert whole.rank >= rank
    assert whole.recall >= recall
    assert whole.rank >= max(by_vector.rank, by_word.rank) - _ONE_QUESTION
    assert whole.recall >= max(by_vector.recall, by_word.recall)
