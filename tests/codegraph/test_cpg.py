"""What Joern exported is put beside what is known of a project, and takes nothing from it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from codegraph import api
from codegraph.answer.index import Index
from codegraph.branch import cpg
from codegraph.extract import packed_facts
from codegraph.resolve.calls.edges import SURE
from codegraph.resolve.project import Project, Target
from tests.codegraph import projects
from tests.joern import tree

MONEY, SQUARE = "src/main/java/shop/Money.java", "src/main/java/shop/Square.java"


def blobs(files: Mapping[str, str]) -> dict[str, str]:
    return {path: hashlib.sha1(text.encode()).hexdigest() for path, text in files.items()}


def project(files: Mapping[str, str]) -> Project:
    return packed_facts.read(projects.packed(files))[0]


def merged(files: Mapping[str, str], export: api.CpgExport) -> tuple[Project, Mapping[str, int]]:
    """The files with an export of `tree.FILES`."""
    return cpg.merge(project(files), cpg.pack(export, blobs(tree.FILES)), blobs(files))


def calls(one: Project, rule: str = cpg.RULE) -> set[tuple[str, str]]:
    return {(edge.caller, edge.callee) for edge in one.calls.edges if edge.rule == rule}


def test_a_real_export_adds_calls_bases_uses_of_types_and_signatures() -> None:
    whole, counts = merged(tree.FILES, tree.export())
    assert {("shape_area", "squared"), ("shape_area", "checked"), ("main", "shape_area")} <= calls(whole)
    shape, point = Target("native/shape.h", "shape"), Target("native/shape.h", "point")
    assert whole.uses_type[shape] == (point,)
    assert whole.uses_type[Target("src/main/java/shop/Shape.java", "Shape")] == (Target(MONEY, "Money"),)
    assert whole.signatures[Target(SQUARE, "Square.row")] == "java.util.List<shop.Square>(int,shop.Money)"
    assert whole.signatures[Target("native/shape.c", "shape_area")] == "int(shape*)"
    box, base = Target("native/box.cpp", "shop.Box"), Target("native/box.cpp", "shop.Base")
    assert base in whole.extends[box]
    assert counts["signatures"] == len(whole.signatures)
    assert counts["calls"] == len(calls(whole)) > 3


def test_what_is_known_without_it_stays_as_it_is() -> None:
    before = project(tree.FILES)
    after, _ = merged(tree.FILES, tree.export())
    assert set(before.calls.edges) <= set(after.calls.edges)
    assert before.calls.unresolved == after.calls.unresolved
    ours, theirs = (
        {(one.caller_file, one.caller, one.callee_file, one.callee) for one in edges if one.confidence >= SURE}
        for edges in (before.calls.edges, set(after.calls.edges) - set(before.calls.edges))
    )
    assert theirs
    assert not ours & theirs, "no edge of ours has a second one beside it"
    for target, bases in before.extends.items():
        assert after.extends[target][: len(bases)] == bases
        assert all((target, base) not in after.analysed for base in bases)
    for path, file in before.files.items():
        signatures = [one.signature for one in file.symbols]
        assert [one.signature for one in after.files[path].symbols] == signatures, "each of these has one of its own"


def test_calls_of_python_stay_with_our_resolver() -> None:
    whole, _ = merged(tree.FILES, tree.export())
    assert not [one for one in whole.calls.edges if one.rule == cpg.RULE and one.caller_file.endswith(".py")]


def test_it_counts_for_the_files_that_are_still_the_same() -> None:
    changed = tree.FILES | {"native/check.c": tree.FILES["native/check.c"] + "\nint more(void)\n{\n    return 1;\n}\n"}
    whole, _ = merged(changed, tree.export())
    assert calls(whole) >= {("shape_area", "squared")}
    assert not calls(whole) & {("shape_area", "checked"), ("main", "shape_area")}
    assert not [one for one in whole.signatures if one.path == "native/check.c"]
    gone = {path: text for path, text in tree.FILES.items() if path != "native/shape.c"}
    assert "shape_area" not in {name for call in calls(merged(gone, tree.export())[0]) for name in call}


def test_what_breaks_follows_the_uses_of_a_type() -> None:
    whole, _ = merged(tree.FILES, tree.export())
    index = Index(whole, "main", "shop")
    found = {(step.target.qname, step.by) for step in index.impact(index.find("Money"), 1)}
    assert {("Shape", "uses_type"), ("Square", "uses_type")} <= found
    assert ("shape", "uses_type") in {(one.target.qname, one.by) for one in index.impact(index.find("point"), 1)}


@pytest.mark.parametrize(
    "lines", [{"name": "nowhere"}, {"file": "absent.c"}, {"line": 9_000}, {"file": "../../etc/passwd"}]
)
def test_what_is_no_declaration_is_counted_and_left(lines: Mapping[str, object]) -> None:
    one = {"name": "squared", "file": "native/shape.c", "line": 3, "signature": "int(int)", **lines}
    export = api.CpgExport.model_validate({"version": 1, "methods": [one], "calls": [[0, 0, 1]]})
    whole, counts = merged(tree.FILES, export)
    assert (counts["unmatched"], counts["calls"], counts["signatures"]) == (1, 0, 0)
    assert whole.calls == project(tree.FILES).calls


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"version": 2}, "version"),
        ({"version": 1, "calls": [[0, 1, 1]]}, "calls"),
        ({"version": 1, "types": [{"name": "A", "file": "a.c", "line": 1}], "extends": [[0, 1]]}, "extends"),
        ({"version": 1, "usesType": [[0, -1]]}, "usesType"),
        ({"version": 1, "methods": [{"name": "x" * 1001, "file": "a.c", "line": 1}]}, "methods"),
    ],
)
def test_an_export_that_is_none_is_refused_by_its_field(said: Mapping[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=field):
        api.CpgExport.model_validate(said)
