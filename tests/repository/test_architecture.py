"""ARCHITECTURE.md's table of decisions names files and names that are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
_SECTION = _PAGE.split("\n## Where it is decided\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| ([^|]+?) +\| `([\w/]+\.py)` +\| `(\w+)` +\|", _SECTION, re.MULTILINE)


def test_each_row_with_a_file_is_read() -> None:
    rows = [line for line in _SECTION.splitlines() if line.startswith("|") and ".py` " in line.split("|")[2]]
    assert len(ROWS) == len(rows) > 20


@pytest.mark.parametrize(("question", "file", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_the_name_is_defined_in_the_file(question: str, file: str, name: str) -> None:
    defined: set[str] = set()
    for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined.update(target.id for target in targets if isinstance(target, ast.Name))
    assert name in defined, question
