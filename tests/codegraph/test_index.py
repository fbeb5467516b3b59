"""Questions about code: what a name means, callers, impact over overriding methods and subclasses, ways, the map."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from codegraph.answer import repo_map
from codegraph.answer.index import Index, UnknownError, is_test
from codegraph.resolve.calls.edges import Edge
from codegraph.resolve.project import Target
from tests.codegraph import projects

SOURCES = {
    "app/__init__.py": "",
    "app/shape.py": """
        class Shape:
            def area(self) -> float:
                return 0.0

        def total(shapes: list[Shape]) -> float:
            return sum(one.area() for one in shapes)
        """,
    "app/square.py": """
        from app.shape import Shape, total

        class Square(Shape):
            def area(self) -> float:
                return side() * side()

        def side() -> float:
            return 1.0

        def report() -> float:
            return total([Square()])
        """,
    "tests/test_square.py": """
        from app.square import report

        def test_report() -> None:
            assert report() == 1.0
        """,
}


@pytest.fixture(scope="module")
def index() -> Index:
    return projects.index(SOURCES)


def at(path: str, qname: str) -> Target:
    return Target(path, qname)


@pytest.mark.parametrize(
    ("name", "path", "qname"),
    [
        ("total", "app/shape.py", "total"),
        ("Square.area", "app/square.py", "Square.area"),
        ("app.square.Square.area", "app/square.py", "Square.area"),
        ("app/square.py:side", "app/square.py", "side"),
        ("Square.area()", "app/square.py", "Square.area"),
        ("Square", "app/square.py", "Square"),
        ("app/square.py", "app/square.py", ""),
    ],
)
def test_a_name_means_the_declaration_whose_qualified_name_ends_so(
    index: Index, name: str, path: str, qname: str
) -> None:
    assert index.find(name) == Target(path, qname)


def test_several_declarations_are_named(index: Index) -> None:
    with pytest.raises(UnknownError) as refused:
        index.find("area")
    assert refused.value.several
    assert refused.value.candidates == ["app/shape.py:Shape.area", "app/square.py:Square.area"]


def test_of_an_unknown_name_the_nearest_are_named(index: Index) -> None:
    with pytest.raises(UnknownError) as refused:
        index.find("tot")
    assert not refused.value.several
    assert refused.value.candidates == ["app/shape.py:total"]


def test_a_change_reaches_callers_and_their_callers(index: Index) -> None:
    steps = index.impact(index.find("side"), 10)
    found = {(one.target.qname, one.distance, one.by) for one in steps}
    assert {
        ("Square.area", 1, "calls"),
        ("total", 2, "calls"),
        ("report", 3, "calls"),
        ("test_report", 4, "calls"),
    } <= found
    assert index.tests(one.target for one in steps) == ["tests/test_square.py"]
    assert [one.target.qname for one in index.impact(index.find("side"), 1)] == ["Square.area"]


def test_a_change_of_a_class_reaches_what_extends_it(index: Index) -> None:
    found = {(one.target.qname, one.by) for one in index.impact(index.find("Shape"), 1)}
    assert ("Square", "extends") in found


def test_a_way_by_calls_is_the_shortest(index: Index) -> None:
    way = index.path(index.find("test_report"), index.find("total"))
    assert [(one.caller, one.callee) for one in way] == [("test_report", "report"), ("report", "total")]
    assert index.path(index.find("side"), index.find("report")) == []


def test_the_map_shows_what_is_used_most_within_its_tokens(index: Index) -> None:
    whole, files = repo_map.draw(index, 1000)
    assert files == 4
    assert whole.index("app/shape.py") < whole.index("app/square.py") < whole.index("tests/test_square.py")
    for tokens in (64, 30, 12, 3):
        text, _ = repo_map.draw(index, tokens)
        assert len(text) <= 4 * tokens
    near, _ = repo_map.draw(index, 64, {"app/square.py"})
    assert near.startswith("app/square.py")


@pytest.mark.parametrize(
    "path",
    ["tests/test_a.py", "a/test_b.py", "conftest.py", "pkg/a_test.go", "src/test/java/FooTest.java", "x/a.spec.ts"],
)
def test_tests_are_known_by_the_customs_of_their_language(path: str) -> None:
    assert is_test(path)
    assert not is_test("src/contest.py")


def test_the_callers_of_a_method_are_walked_once_however_many_classes_override_it() -> None:
    walks = 0

    class Counted(list[Edge]):
        def __iter__(self) -> Iterator[Edge]:
            nonlocal walks
            walks += 1
            return super().__iter__()

    classes = "\n".join(f"class Sub{number}(Base):\n    def run(self): pass" for number in range(50))
    index = projects.index({"a.py": f"class Base:\n    def run(self): pass\n{classes}\n", "b.py": CALLER})
    base = at("a.py", "Base.run")
    assert len(index.callers[base]) == 1
    index.callers[base] = Counted(index.callers[base])
    assert len(index.impact(base, 3)) == 51
    assert walks == 1


CALLER = """
    from a import Base

    def use(one: Base) -> None:
        one.run()
"""
