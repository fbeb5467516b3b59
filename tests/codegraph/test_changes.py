"""Which declarations differ between two contents of a file, whatever moved around them."""

from __future__ import annotations

import pytest

from codegraph.parse import changes, extraction

BEFORE = """class Shape:
    # The area.
    def area(self):
        return 0

    def name(self):
        return "shape"


def side():
    return 1
"""


def side(text: str, path: str = "a.py", language: str = "python") -> changes.Side:
    return changes.Side(extraction.extract(path, text.encode(), language), text)


def found(before: str | None, after: str | None, **more: str) -> dict[str, str]:
    sides = [None if text is None else side(text, **more) for text in (before, after)]
    return {one.name: one.what for one in changes.between(*sides)}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (BEFORE, {}),
        ("import os\n\n\n" + BEFORE, {}),
        (BEFORE.replace("return 0", "return 2"), {"Shape.area": "changed", "Shape": "member"}),
        (BEFORE.replace("# The area.", "# The size."), {"Shape.area": "changed", "Shape": "member"}),
        (BEFORE.replace("    # The", "    @cached\n    # The"), {"Shape.area": "changed", "Shape": "member"}),
        (BEFORE.replace("class Shape:", "class Shape(Base):"), {"Shape": "changed"}),
        (BEFORE.replace("def side", "def edge"), {"side": "removed", "edge": "added"}),
        (BEFORE[BEFORE.index("def side") :] + "\n\n" + BEFORE[: BEFORE.index("\n\ndef side")], {}),
        ("", {"Shape": "removed", "Shape.area": "removed", "Shape.name": "removed", "side": "removed"}),
    ],
)
def test_what_a_commit_changed(after: str, expected: dict[str, str]) -> None:
    assert found(BEFORE, after) == expected
    back = {"added": "removed", "removed": "added"}
    assert found(after, BEFORE) == {name: back.get(what, what) for name, what in expected.items()}


def test_a_file_that_was_not_there_and_one_that_is_not_any_more() -> None:
    names = ["Shape", "Shape.area", "Shape.name", "side"]
    assert found(None, BEFORE) == dict.fromkeys(names, "added")
    assert found(BEFORE, None) == dict.fromkeys(names, "removed")
    assert {one.kind for one in changes.between(None, side(BEFORE))} == {"class", "method", "function"}


def test_overloads_are_one_declaration() -> None:
    java = "class A {\n  int f() { return 1; }\n  int f(int x) { return x; }\n}\n"
    changed = java.replace("return x;", "return -x;")
    assert found(java, changed, path="A.java", language="java") == {"A.f": "changed", "A": "member"}
