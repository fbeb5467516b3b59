"""Which declarations a commit or the notes of a release are about, as the benchmark of `where` counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.codegraph import history, releases
from bench.codegraph.where import Hits
from codegraph.resolve.project import Target
from tests.codegraph import projects

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


NOTES = """.. currentmodule:: shop

Version 1.2.1
-------------

Released 2024-01-01

-   Fix the ``total`` of :class:`~shop.Price`. :issue:`12` https://example.org/12

    -   It is in cents.
-   Carts are emptied (#13)


Version 1.2.0
-------------

-   Older
"""
BEFORE = {
    "shop/a.py": "class Price:\n    def total(self):\n        return 1\n\n    def cents(self):\n        return 2\n",
    "shop/b.py": "__version__ = '1.2.0'\n",
    "shop/c.py": "def send():\n    return 3\n",
    "tests/test_a.py": "1\n",
    "docs/c.py": "1\n",
}
AFTER = {
    "shop/a.py": "class Price:\n    def total(self):\n        return 100\n\n    def cents(self):\n        return 20\n",
    "shop/b.py": "__version__ = '1.2.1'\n",
    "shop/c.py": "def send():\n    return empty_cart()\n",
    "tests/test_a.py": "2\n",
    "docs/c.py": "2\n",
    "d.py": "1\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def hunks(tmp_path: Path) -> list[releases.Hunk]:
    return releases.changed(write(tmp_path / "before", BEFORE), write(tmp_path / "after", AFTER))


def test_the_notes_of_one_version_are_plain_text_with_its_entries(tmp_path: Path) -> None:
    library = releases.Library("pypi", "shop", ("1.2.0", "1.2.1"), "CHANGES.rst")
    folder = write(tmp_path, {"CHANGES.rst": NOTES})
    said = releases.notes(folder, library, "1.2.1")
    assert [line.rstrip() for line in said.split("\n")] == [
        "-   Fix the `total` of `shop.Price`.",
        "    -   It is in cents.",
        "-   Carts are emptied",
    ]
    assert releases.entries(said) == [
        "Fix the `total` of `shop.Price`.   -   It is in cents.",
        "Carts are emptied",
    ]
    assert releases.notes(folder, library, "1.2") == ""
    assert releases.notes(folder, library, "1.2.0") == "-   Older"


def test_links_of_markdown_go_without_the_line_below(tmp_path: Path) -> None:
    library = releases.Library("go", "shop", ("v1.0.0",), "CHANGELOG.md")
    text = "## v1.0.0 - 2024\n\n* Bump the text [#1](https://x.org/1)\n* Fix the random string [#2](https://x.org/2)\n"
    said = releases.notes(write(tmp_path, {"CHANGELOG.md": text}), library, "v1.0.0")
    assert releases.entries(said) == ["Bump the text", "Fix the random string"]


def test_hunks_are_those_of_sources_and_not_of_versions(hunks: list[releases.Hunk]) -> None:
    assert [(one.path, one.span) for one in hunks] == [
        ("shop/a.py", (3, 3)), ("shop/a.py", (6, 6)), ("shop/c.py", (2, 2)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "functions"),
    [
        ("Fix the `total` of `shop.Price`.", [("shop/a.py", "Price.total")]),  # declarations around a hunk
        ("Mails use empty_cart", [("shop/c.py", "send")]),  # only the new lines have it
        ("Totals are right", []),
        ("Fix `Refund.total_of`", []),
    ],
)
def test_an_entry_is_about_the_hunks_with_most_of_its_names(
    hunks: list[releases.Hunk], text: str, functions: list[tuple[str, str]]
) -> None:
    files = projects.index({path: one for path, one in BEFORE.items() if path.startswith("shop")}).project.files
    case = releases.case("shop 1.2.1", text, releases.matched(text, hunks, files), files)
    assert case.functions == {Target(*one) for one in functions}
    assert case.files == {path for path, _ in functions}


def test_names_in_very_many_files_say_nothing() -> None:
    hunks = [releases.Hunk(f"{number}.py", (1, 1), frozenset({"total"})) for number in range(4)]
    files = projects.index({one.path: "A = 1\n" for one in hunks}).project.files
    assert releases.matched("`total`", hunks, files) == []
    assert releases.matched("`total`", hunks[:3], files) == hunks[:3]
