"""Random edits end in what a rebuild gives, and the comparison sees what does not."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from bench.codegraph import edits, mutations
from codegraph.parse import extraction, grammars

pytestmark = pytest.mark.services


async def test_edits_end_in_what_a_rebuild_gives() -> None:
    tally, failed = await edits.trials(os.environ["JERVIS_TEST_MONGODB_URI"], [3, 4], 25, kills=0.2, compares=0.2)
    assert failed == {}
    assert (tally.nodes, tally.edges, tally.litter) == (0, 0, 0)
    assert tally.edits.total() == 50
    assert tally.comparisons >= 2
    assert tally.rows > 200


def test_a_seed_gives_the_same_edits_and_sources_that_are_understood() -> None:
    def made(seed: int) -> list[tuple[str, dict[str, str]]]:
        chance, tree, former = random.Random(seed), mutations.tree(random.Random(seed)), list[mutations.Tree]()
        found = []
        for _ in range(30):
            kind, tree = mutations.edited(tree, former, chance)
            former.append(tree)
            found.append((kind, {path: file.text for path, file in tree.items()}))
        return found

    assert made(1) == made(1) != made(2)
    chance = random.Random(1)
    for kind in mutations.KINDS:
        one = mutations.unit(kind, "core", chance)
        language = grammars.language_of(f"a.{kind}") or ""
        assert not extraction.extract("a", mutations.text(one).encode(), language).has_error, mutations.text(one)


def test_rows_that_differ_are_counted() -> None:
    rows: dict[str, set[tuple[Any, ...]]] = {
        table: set() for table in ("documents", "chunks", "sentences", "nodes", "mentions", "evidence")
    }
    other = {**rows, "nodes": {(1, "a")}, "mentions": {(1, 0.5)}, "evidence": {(1, "calls", 2), (2, "calls", 1)}}
    found = edits.compared(rows, other)
    assert (found.nodes, found.edges, len(found.examples)) == (2, 2, 4)
    assert edits.compared(other, other) == edits.Difference(0, 0, ())
