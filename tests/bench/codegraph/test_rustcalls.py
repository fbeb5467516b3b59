"""Calls of Rust: what is read of rustc's typed tree, which functions it means, and the score beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.codegraph import rustcalls, thir
from kb.code import calls

_SOURCES = {
    "Cargo.toml": '[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n[features]\nlarge = []\n',
    "src/lib.rs": """pub mod price;
use price::{Area, Round, Square};
pub fn total(values: &[f64]) -> f64 {
    price::round(values.iter().sum())
}
pub fn area(shape: &Square) -> f64 { shape.area() }
pub fn any<T: Area>(shape: &T) -> f64 { shape.area() }
pub fn doubled(shape: &Square) -> f64 {
    let twice = |value: f64| price::round(value) * 2.0;
    assert!(price::round(shape.side) > 0.0);
    for _ in 0..2 {}
    twice(shape.half())
}
pub fn rounded(shape: &dyn Round) -> f64 { shape.rounded() }
#[cfg(feature = "large")]
pub fn large() -> f64 {
    total(&[1.0])
}
""",
    "src/price.rs": """pub trait Area {
    fn area(&self) -> f64;
    fn half(&self) -> f64 { self.area() / 2.0 }
}
pub trait Round { fn rounded(&self) -> f64; }
pub struct Square { pub side: f64 }
impl Area for Square {
    fn area(&self) -> f64 { self.side * self.side }
}
pub fn round(value: f64) -> f64 { (value * 100.0).round() / 100.0 }
""",
}
_FILES = ["src/lib.rs", "src/price.rs"]
_TREE = """DefId(0:4 ~ shop[3b6d]::area):
params: [
]
body:
    Expr {
        ty: f64
        span: src/lib.rs:6:37: 6:51 (#0)
        kind:
            Call {
                ty: FnDef(DefId(0:5 ~ shop[3b6d]::price::Area::area), [price::Square])
                from_hir_call: true
                fn_span: src/lib.rs:6:44: 6:50 (#0)
                fun:
                    Expr {
                        ty: FnDef(DefId(0:9 ~ shop[3b6d]::price::other), [])
                        span: src/lib.rs:6:44: 6:48 (#0)
                    }
            }
            Call {
                ty: FnDef(DefId(0:6 ~ shop[3b6d]::made_by_a_macro), [])
                from_hir_call: true
                fn_span: src/lib.rs:6:44: 6:50 (#7)
            }
            Call {
                ty: FnDef(DefId(2:7 ~ core[c1f1]::iter::IntoIterator::into_iter), [std::ops::Range<i32>])
                from_hir_call: false
                fn_span: src/lib.rs:6:44: 6:50 (#0)
            }
            Call {
                ty: fn(f64) -> f64
                from_hir_call: true
                fn_span: src/lib.rs:6:44: 6:50 (#0)
            }
    }
"""


@pytest.fixture
def crate(tmp_path: Path) -> Path:
    for path, text in _SOURCES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    return tmp_path


def test_calls_of_macros_desugarings_and_pointers_are_no_sites() -> None:
    found = thir.parse(_TREE.splitlines(keepends=True))
    assert found.bodies == [thir.Body("area", "src/lib.rs", 6, 6)]
    assert found.sites == [thir.Site("src/lib.rs", 6, True, "price::Area::area", "price::Square")]


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        ("[price::Square]", "price::Square"),
        ("[&'{erased} mut price::Square]", "price::Square"),
        ("[std::vec::Vec<price::Square>, f64]", "std::vec::Vec"),
        ("[T/#0]", ""),
        ("[dyn price::Area]", ""),
        ("[&(dyn price::Area)]", "*"),
        ("[(f64, f64)]", "*"),
        ("[]", "*"),
    ],
)
def test_the_type_that_a_method_is_called_on(arguments: str, subject: str) -> None:
    [site] = thir.parse(_TREE.replace("[price::Square]", arguments).splitlines(keepends=True)).sites
    assert site.subject == subject


def test_names_of_traits_impls_types_and_of_what_may_not_be_compiled(crate: Path) -> None:
    found = thir.names(crate, _FILES)
    assert found.traits == {
        ("Area", "area"): [("src/price.rs", "Area.area", False)],
        ("Area", "half"): [("src/price.rs", "Area.half", True)],
        ("Round", "rounded"): [("src/price.rs", "Round.rounded", False)],
    }
    assert found.impls == {("Area", "Square", "area"): {("src/price.rs", "Square.area")}}
    assert found.types == {name: {"src/price.rs"} for name in ("Area", "Round", "Square")}
    assert sorted(found.optional["src/lib.rs"]) == [(10, 10), (15, 18)]
    assert (found.at("src/price.rs", 3), found.at("src/price.rs", 3, "Area"), found.at("src/lib.rs", 1)) == (
        "Area.half", "Area", "",
    )  # fmt: skip


def _known(crate: Path, *sites: thir.Site, bodies: list[thir.Body] | None = None) -> rustcalls.Truth:
    return rustcalls.known(thir.Typed(bodies or [], list(sites)), thir.names(crate, _FILES))


@pytest.mark.parametrize(
    ("path", "subject", "callee"),
    [
        ("price::Area::area", "price::Square", "Square.area"),
        ("price::Area::half", "price::Square", "Area.half"),
        ("price::Area::area", "", "Area.area"),
        ("price::round", "*", "round"),
    ],
)
def test_the_function_that_a_site_means(crate: Path, path: str, subject: str, callee: str) -> None:
    bodies = [thir.Body("price::round", "src/price.rs", 10, 10)]
    found = _known(crate, thir.Site("src/lib.rs", 6, True, path, subject), bodies=bodies)
    assert (found.sites, found.open) == ({("src/lib.rs", "area", 6, "src/price.rs", callee)}, set())


@pytest.mark.parametrize(
    ("path", "subject"),
    [
        ("price::Area::area", "price::Circle"),  # a type of a macro
        ("price::Area::area", "std::vec::Vec"),  # an `impl` for what is of no file
        ("price::hidden", "*"),
    ],
)
def test_a_site_whose_function_has_no_place_is_open(crate: Path, path: str, subject: str) -> None:
    found = _known(crate, thir.Site("src/lib.rs", 6, True, path, subject))
    assert (found.sites, found.open) == (set(), {("src/lib.rs", "area", 6)})


def test_calls_of_libraries_are_no_sites(crate: Path) -> None:
    found = _known(crate, thir.Site("src/lib.rs", 4, False, "iter::Iterator::sum", "std::slice::Iter"))
    assert (found.sites, found.open) == (set(), set())


def test_lines_of_macros_and_features_without_any_call_are_silent(crate: Path) -> None:
    in_macro = thir.Site("src/lib.rs", 10, True, "price::round", "*")
    features = {("src/lib.rs", line) for line in range(15, 19)}
    assert _known(crate).silent == {*features, ("src/lib.rs", 10)}
    assert _known(crate, in_macro).silent == features


def test_the_score_counts_bodies_that_were_compiled_and_leaves_out_what_is_open_or_silent() -> None:
    def edge(line: int, callee: str = "g", file: str = "a.rs") -> calls.Edge:
        return calls.Edge(file, "f", "b.rs", callee, line, "local", 1.0)

    truth = rustcalls.Truth(
        sites={("a.rs", "f", line, "b.rs", "g") for line in (1, 2, 3, 4)},
        open={("a.rs", "f", 5)},
        bodies={"a.rs": [(1, 7)]},
        silent={("a.rs", 6)},
    )
    right, wrong = [edge(1), edge(2), edge(3)], [edge(4, "other")]
    left_out, not_compiled = [edge(5), edge(6)], [edge(8), edge(1, file="c.rs")]
    assert rustcalls.score(truth, [*right, *wrong, *left_out, *not_compiled]) == {
        "calls": 4, "precision": 0.75, "recall": 0.75, "left_out": 2,
    }  # fmt: skip
    nothing = rustcalls.Truth(set(), set(), {}, set())
    assert rustcalls.score(nothing, []) == {"calls": 0, "precision": 1.0, "recall": 1.0, "left_out": 0}


@pytest.mark.skipif(shutil.which("cargo") is None, reason="needs cargo and rustc")
def test_rustc_resolves_what_is_resolved(crate: Path) -> None:
    found = rustcalls.known(thir.read(crate, (), crate / "target"), thir.names(crate, _FILES))
    assert {(caller, line, callee) for _, caller, line, _, callee in found.sites} == {
        ("total", 4, "round"),
        ("area", 6, "Square.area"),
        ("any", 7, "Area.area"),
        ("doubled", 9, "round"),
        ("doubled", 10, "round"),
        ("doubled", 12, "Area.half"),
        ("rounded", 14, "Round.rounded"),
        ("Area.half", 3, "Area.area"),
    }
    assert found.open == set()
    assert found.silent == {("src/lib.rs", line) for line in range(15, 19)}
    assert rustcalls.score(found, rustcalls.resolved(crate, _FILES)) == {
        "calls": 8, "precision": 1.0, "recall": 1.0, "left_out": 0,
    }  # fmt: skip
    with_feature = rustcalls.known(thir.read(crate, ("large",), crate / "target"), thir.names(crate, _FILES))
    assert with_feature.sites - found.sites == {("src/lib.rs", "large", 17, "src/lib.rs", "total")}
