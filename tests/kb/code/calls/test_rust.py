"""Calls of Rust: modules, uses, impls, traits, generics, types of values."""

from __future__ import annotations

import pytest

from tests.kb.code.calls import projects

_HEAD = """\
use std::collections::HashMap;
use std::rc::Rc;
pub struct Inner { pub n: u8 }
impl Inner { pub fn ping(&self) -> u8 { self.n } pub fn new() -> Self { Inner { n: 1 } } }
pub struct Outer<T> { inner: Inner, items: Vec<T>, map: HashMap<String, Inner>, made: fn() -> Inner, boxed: Own }
type Own = Box<dyn Shape>;
impl<T> Outer<T> { pub fn first(&self) -> Option<&T> { self.items.first() } pub fn all(self) -> Vec<T> { self.items } }
pub trait Shape { fn area(&self) -> u8; fn twice(&self) -> u8 { 2 } fn make() -> Self where Self: Sized; }
pub trait Wide: Shape { type Part: Shape; fn part(&self) -> Self::Part; }
impl Shape for Inner { fn area(&self) -> u8 { 1 } fn make() -> Self { Inner { n: 2 } } }
impl Default for Inner { fn default() -> Self { Inner { n: 3 } } }
pub enum Kind { One(Inner), Two { inner: Inner } }
pub type Found = Result<Inner, String>;
pub fn find() -> Found { Err(String::new()) }
pub async fn later() -> Inner { Inner { n: 4 } }
pub fn same<T>(value: T) -> T { value }
pub fn each<T, R>(items: Vec<T>, with: impl Fn(T) -> R) -> Vec<R> { items.into_iter().map(with).collect() }
pub fn visit<F>(with: F) where F: FnOnce(&Inner) { let _ = with; }
pub struct Many(pub Inner, pub u8);
impl Iterator for Many { type Item = Inner; fn next(&mut self) -> Option<Inner> { None } }
pub struct Pointer { to: Inner }
impl std::ops::Deref for Pointer { type Target = Inner; fn deref(&self) -> &Inner { &self.to } }
pub trait Extra { fn extra(&self) -> u8; }
impl<T: Shape> Extra for T { fn extra(&self) -> u8 { 1 } }
impl Extra for str { fn extra(&self) -> u8 { 2 } }
"""
_CASES = {
    "function": ("fn f() { find(); }", "f -> find: local"),
    "associated function": ("fn f() { Inner::new(); }", "f -> Inner.new: local"),
    "Self": ("impl Inner { fn f() { Self::new(); } }", "Inner.f -> Inner.new: self"),
    "self": ("impl Inner { fn f(&self) { self.ping(); } }", "Inner.f -> Inner.ping: self"),
    "parameter": ("fn f(i: &mut Inner) { i.ping(); }", "f -> Inner.ping: annotation"),
    "let with a type": ("fn f() { let i: Inner = g(); i.ping(); }", "f -> Inner.ping: annotation"),
    "let by a literal": ("fn f() { let i = Inner { n: 1 }; i.ping(); }", "f -> Inner.ping: return-type"),
    "shadowed": ("fn f(i: Inner) { let i = 1; i.ping(); }", ""),
    "a local name is no function": ("fn f(find: fn()) { find(); }", ""),
    "field": ("fn f(o: Outer<u8>) { o.inner.ping(); }", "f -> Inner.ping: attribute-type"),
    "result": ("fn f() { Inner::new().ping(); }", "f -> Inner.new: local, f -> Inner.ping: return-type"),
    "question mark": ("fn f() -> Found { find()?.ping(); find() }", "f -> Inner.ping: return-type, f -> find: local"),
    "unwrap": ("fn f() { find().unwrap().ping(); }", "f -> Inner.ping: return-type, f -> find: local"),
    "await": ("async fn f() { later().await.ping(); }", "f -> Inner.ping: return-type, f -> later: local"),
    "smart pointers": ("fn f(i: Rc<Box<Inner>>) { i.ping(); }", "f -> Inner.ping: annotation"),
    "clone of a pointer": ("fn f(i: &Rc<Inner>) { i.clone().ping(); Rc::clone(i).ping(); }",
                           "f -> Inner.ping: return-type"),
    "Deref": ("fn f(p: Pointer) { p.ping(); }", "f -> Inner.ping: annotation"),
    "type argument": ("fn f(o: Outer<Inner>) { o.first().unwrap().ping(); }",
                      "f -> Inner.ping: return-type, f -> Outer.first: annotation"),
    "element of a loop": ("fn f(o: Outer<Inner>) { for i in o.all() { i.ping(); } }",
                          "f -> Inner.ping: return-type, f -> Outer.all: annotation"),
    "values of a map": ("fn f(o: Outer<u8>) { for (_, i) in &o.map { i.ping(); } }", "f -> Inner.ping: return-type"),
    "get of a map": ('fn f(o: Outer<u8>) { o.map.get("a").unwrap().ping(); }', "f -> Inner.ping: return-type"),
    "index": ("fn f(o: Outer<Inner>) { o.items[0].ping(); }", "f -> Inner.ping: return-type"),
    "own iterator": ("fn f(m: Many) { for i in m { i.ping(); } }", "f -> Inner.ping: return-type"),
    "adapters of an own iterator": ("fn f(m: Many) { m.map(|i| same(i)).last().unwrap().ping(); }",
                                    "f -> Inner.ping: return-type, f -> same: local"),
    "closure of the library": ("fn f(o: Outer<Inner>) { o.items.iter().filter(|i| i.ping() > 0).count(); }",
                               "f -> Inner.ping: return-type"),
    "closure of a bound": ("fn f() { visit(|i| { i.ping(); }); }", "f -> Inner.ping: return-type, f -> visit: local"),
    "result of a closure": ("fn f(o: Outer<u8>) { for i in each(o.items, |_| Inner::new()) { i.ping(); } }",
                            "f -> Inner.new: local, f -> Inner.ping: return-type, f -> each: local"),
    "function pointer": ("fn f(o: Outer<u8>) { (o.made)().ping(); }", "f -> Inner.ping: return-type"),
    "if let": ("fn f() { if let Ok(i) = find() { i.ping(); } }", "f -> Inner.ping: return-type, f -> find: local"),
    "variants": ("fn f(k: Kind) { match k { Kind::One(i) => i.ping(), Kind::Two { inner } => inner.area() }; }",
                 "f -> Inner.area: return-type, f -> Inner.ping: return-type"),
    "tuple": ("fn f() { let (_, i) = (1, Inner::new()); i.ping(); }",
              "f -> Inner.new: local, f -> Inner.ping: return-type"),
    "filled later": ("fn f(i: Inner) { let mut v = Vec::new(); v.push(i); v[0].ping(); }",
                     "f -> Inner.ping: return-type"),
    "implementation of a trait": ("fn f(i: Inner) { i.area(); }", "f -> Inner.area: annotation"),
    "default method": ("fn f(i: Inner) { i.twice(); }", "f -> Shape.twice: inherited"),
    "dyn": ("fn f(o: Outer<u8>, s: &dyn Shape) { s.area(); o.boxed.twice(); }",
            "f -> Shape.area: interface, f -> Shape.twice: interface"),
    "bound": ("fn f<S: Shape>(s: S) { s.area(); S::make(); }",
              "f -> Shape.area: interface, f -> Shape.make: interface"),
    "where": ("fn f<S>(s: S) where S: Wide { s.area(); }", "f -> Shape.area: interface"),
    "associated type": ("fn f<S: Wide>(s: S) { s.part().area(); }",
                        "f -> Shape.area: interface, f -> Wide.part: interface"),
    "path of a trait": ("fn f(i: Inner) { Shape::area(&i); <Inner as Shape>::make(); }",
                        "f -> Inner.area: local, f -> Inner.make: local"),
    "trait from outside": ("fn f() { Inner::default().ping(); }",
                           "f -> Inner.default: local, f -> Inner.ping: return-type"),
    "for all types with a bound": ("fn f(i: Inner, n: u8) { i.extra(); n.extra(); }", "f -> T.extra: annotation"),
    "for a type from outside": ('fn f() { "a".extra(); }', "f -> str.extra: return-type"),
    "arguments of a macro": ('fn f() { assert_eq!(find(), vec![same(1)]); println!("{}", later()); }',
                             "f -> find: local, f -> later: local, f -> same: local"),
    "what a macro makes is unknown": ("macro_rules! m { () => { find() } }\nfn f() { m!(); quote!(find()); }", ""),
    "nested function": ("fn f() { fn g() {} g(); }", "f -> f.g: local"),
    "constant": ("static S: u8 = same(1);", "-> same: local"),
    "a construction is no call": ("fn f() { Some(Kind::One(Inner { n: 1 })); Many(Inner::new(), 1); }",
                                  "f -> Inner.new: local"),
    "a function that is passed on is no call": ("fn f(o: Outer<u8>) { o.items.into_iter().map(same); }", ""),
    "unknown": ("fn f(x: Elsewhere) { x.ping(); ping(); x.new().area(); }", ""),
}  # fmt: skip


@pytest.mark.parametrize(("source", "wanted"), _CASES.values(), ids=_CASES)
def test_a_call_is_resolved_as_the_compiler_does(source: str, wanted: str) -> None:
    assert ", ".join(sorted(set(projects.below(_HEAD, source, "a.rs")))) == wanted


def test_modules_are_found_by_files_paths_and_uses() -> None:
    contents = {
        "Cargo.toml": '[package]\nname = "a"',
        "src/lib.rs": """\
                pub mod one;
                mod two { pub mod three { pub fn f() { super::g(); crate::one::f(); } } pub(crate) fn g() {} }
                #[path = "elsewhere/four.rs"] mod renamed;
                pub use one::f as exported;
                pub use self::two::three::*;
                fn main() { exported(); f(); renamed::f(); two::three::f(); }
            """,
        "src/one/mod.rs": """\
                pub mod deep;
                use crate::renamed::{self as r, f as four};
                pub fn f() { r::f(); four(); }
            """,
        "src/one/deep.rs": "use super::super::*;\nuse super::f as above;\nfn g() { above(); exported(); }",
        "src/elsewhere/four.rs": "pub fn f() { fn inner() {} { use crate::one::deep as d; d::h(); inner(); } }",
    }
    assert projects.edges(contents) == [
        "src/elsewhere/four.rs:f -> src/elsewhere/four.rs:f.inner: local",
        "src/lib.rs:main -> src/elsewhere/four.rs:f: import",
        "src/lib.rs:main -> src/lib.rs:two.three.f: local",
        "src/lib.rs:main -> src/one/mod.rs:f: import",
        "src/lib.rs:two.three.f -> src/lib.rs:two.g: local",
        "src/lib.rs:two.three.f -> src/one/mod.rs:f: import",
        "src/one/deep.rs:g -> src/one/mod.rs:f: import",
        "src/one/mod.rs:f -> src/elsewhere/four.rs:f: import",
    ]


def test_crates_of_a_workspace_are_known_by_the_names_of_their_dependencies() -> None:
    contents = {
        "Cargo.toml": '[workspace.dependencies]\nshared-code = { path = "crates/shared" }',
        "crates/app/Cargo.toml": """\
                [package]
                name = "app"
                [dependencies]
                shared-code.workspace = true
                other = { path = "../renamed", package = "renamed-one" }
                published = "1"
            """,
        "crates/app/src/main.rs": """\
                use shared_code::inner::f;
                fn main() { f(); other::g(); published::h(); renamed_one::g(); app::own(); }
            """,
        "crates/app/src/lib.rs": "pub fn own() {}",
        "crates/app/tests/it.rs": "fn it() { app::own(); }",
        "crates/shared/Cargo.toml": '[package]\nname = "shared-code"',
        "crates/shared/src/lib.rs": "pub mod inner;",
        "crates/shared/src/inner.rs": "pub fn f() {}",
        "crates/renamed/Cargo.toml": '[package]\nname = "renamed-one"\n[lib]\npath = "code.rs"',
        "crates/renamed/code.rs": "pub fn g() {}",
        "crates/published/Cargo.toml": '[package]\nname = "published"',
        "crates/published/src/lib.rs": "pub fn h() {}",
    }
    assert projects.edges(contents) == [
        "crates/app/src/main.rs:main -> crates/app/src/lib.rs:own: import",
        "crates/app/src/main.rs:main -> crates/renamed/code.rs:g: import",
        "crates/app/src/main.rs:main -> crates/shared/src/inner.rs:f: import",
        "crates/app/tests/it.rs:it -> crates/app/src/lib.rs:own: import",
    ]


def test_of_several_builds_that_for_linux_is_called() -> None:
    contents = {
        "lib.rs": """\
                #[cfg(windows)] mod sys { pub fn f() {} }
                #[cfg(all(unix, not(target_os = "macos")))] #[path = "unix.rs"] mod sys;
                #[cfg(target_os = "macos")] fn g() {}
                #[cfg(not(target_os = "macos"))] fn g() {}
                fn main() { sys::f(); g(); }
            """,
        "unix.rs": "pub fn f() {}",
    }
    assert projects.edges(contents) == ["lib.rs:main -> lib.rs:g: local", "lib.rs:main -> unix.rs:f: import"]


def test_an_impl_of_another_build_gives_a_type_from_outside_no_methods() -> None:
    source = """\
        #[cfg(feature = "a")] use elsewhere::Style;
        #[cfg(not(feature = "a"))] struct Style;
        #[cfg(not(feature = "a"))] impl Style { fn paint(&self) {} }
        fn f(s: Style) { s.paint(); }
    """
    assert projects.resolve({"a.rs": source}).edges == ()


def test_what_a_star_brings_is_public_and_less_than_what_is_named() -> None:
    contents = {
        "lib.rs": """\
                mod a { pub fn f() {} fn hidden() {} pub fn both() {} }
                mod b { pub fn both() {} }
                use a::*;
                use b::both;
                fn main() { f(); hidden(); both(); }
            """
    }
    assert projects.edges(contents) == ["lib.rs:main -> lib.rs:a.f: local", "lib.rs:main -> lib.rs:b.both: local"]


def test_a_file_that_a_macro_declares_is_found_by_its_place() -> None:
    contents = {
        "src/lib.rs": "any! { mod a; pub use a::T; }\nfn main(t: T) { a::f(); t.m(); }",
        "src/a.rs": "pub struct T;\nimpl T { pub fn m(&self) {} }\npub fn f() { super::b::g(); }",
        "src/b.rs": "pub fn g() {}",
    }
    assert projects.edges(contents) == [
        "src/a.rs:f -> src/b.rs:g: import",
        "src/lib.rs:main -> src/a.rs:T.m: annotation",
        "src/lib.rs:main -> src/a.rs:f: import",
    ]


def test_a_method_of_a_pin_is_that_of_what_it_points_at() -> None:
    source = """\
        use std::pin::Pin;
        pub trait Read { fn poll(self: Pin<&mut Self>); }
        impl<P: Read> Read for Pin<P> { fn poll(self: Pin<&mut Self>) {} }
        struct File;
        impl Read for File { fn poll(self: Pin<&mut Self>) {} }
        fn f<R: Read>(file: &mut File, r: R) { Pin::new(file).poll(); Pin::new(r).poll(); }
    """
    found = projects.resolve({"a.rs": source}).edges
    assert [f"{one.caller} -> {one.callee}" for one in found] == ["f -> File.poll", "f -> Read.poll"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("fn f() { f(); } }} fn", ["1 f -> f: local"]),
        ("struct S(S); impl S { fn f(&self) { self.0.0.f().g() } }", ["1 S.f -> S.f: attribute-type"]),
        ("type A = B; type B = A; fn f(a: A) { a.g() }", []),
        ("use a::*; mod a { pub use super::*; } fn f() { g(); f(); }", ["1 f -> f: local"]),
        ("use self::b as c; use self::c as b; fn f() { b(); c::d(); }", []),
        ("trait A: B {} trait B: A {} fn f<T: A>(t: T) { t.g() }", []),
        ("impl<T: X> X for T {} trait X { fn g(&self) {} } fn f(n: u8) { n.g() }", []),
        ("impl std::ops::Deref for S { type Target = S; } struct S; fn f(s: S) { s.g() }", []),
        ("trait I { type T; } impl I for S { type T = <S as I>::T; } fn f(v: <S as I>::T) { v.g() } struct S;", []),
    ],
)  # fmt: skip
def test_sources_that_no_compiler_takes_are_read(source: str, wanted: list[str]) -> None:
    assert projects.inside(source, "a.rs") == wanted


def test_a_long_chain_and_a_deep_nest_end() -> None:
    chain = "fn f(s: S) { s" + ".m()" * 3000 + "; }\nstruct S; impl S { fn m(self) -> S { self } }"
    nest = "fn g() { " + "{" * 3000 + "h();" + "}" * 3000 + " }\nfn h() {}"
    total = "fn t() -> u8 { " + " + ".join(["one()"] * 3000) + " }\nfn one() -> u8 { 1 }"
    found = projects.resolve({"a.rs": chain, "b.rs": nest, "c.rs": total}).edges
    assert len([one for one in found if one.caller_file == "c.rs"]) == 1
    assert {one.callee for one in found} <= {"S.m", "h", "one"}
