"""The benchmarks' own promises that need no measurement."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.operator import ablation

ROOT = Path(__file__).resolve().parents[2]
EDITS = [(name, edit) for name, one in ablation.MECHANISMS.items() for edit in one.edits]


@pytest.mark.parametrize(("name", "edit"), EDITS, ids=lambda one: one if isinstance(one, str) else one[0])
def test_each_mechanism_can_be_switched_off(name: str, edit: ablation.Edit) -> None:
    file, before, after = edit
    assert (ROOT / file).read_text().count(before) == 1, f"bench.operator.ablation, {name}: bring the edit up to date"
    assert before != after
