"""Which declarations a commit changed, as the benchmark of `where` counts them."""

from __future__ import annotations

import pytest

from bench.codegraph import history
from bench.codegraph.where import Hits
from kb.code.project import Target
from tests.kb.code import projects

SOURCES = {
    "a.py": """
        import os

        class Shape:
            SIDES = 4

            def area(self) -> int:
                def inner() -> int:
                    return 1

                return inner()

        def total() -> int:
            return 2
        """,
}


@pytest.mark.parametrize(
    ("lines", "functions"),
    [
        (((2, 2),), set()),
        (((5, 5),), set()),
        (((7, 7),), {"Shape.area"}),
        (((9, 9),), {"Shape.area.inner"}),
        (((11, 14),), {"Shape.area", "total"}),
        (((5, 5), (14, 14)), {"total"}),
    ],
)
def test_the_innermost_functions_of_changed_lines_are_gold(
    lines: tuple[tuple[int, int], ...], functions: set[str]
) -> None:
    files = projects.index(SOURCES).project.files
    case = history.case(history.Commit("1", "text", {"a.py": lines, "absent.py": ((1, 1),)}), files)
    assert case.files == {"a.py"}
    assert {one.qname for one in case.functions} == functions


def test_one_of_the_first_is_a_hit_and_commits_without_functions_count_for_files_alone() -> None:
    hits = Hits()
    target = Target("a.py", "total")
    hits.add(history.Case("1", "text", frozenset({"a.py"}), frozenset({target})), (["b.py", "a.py"], [target]))
    hits.add(history.Case("2", "text", frozenset({"a.py"}), frozenset()), (["b.py"] * 5 + ["a.py"], []))
    assert hits.document() == {
        "texts": 2,
        "file_at_5": 0.5,
        "texts_with_functions": 1,
        "function_at_10": 1.0,
    }
