"""What each language declares and imports, with the places where grammars and names are difficult."""

from __future__ import annotations

import pytest

from codegraph.parse import extraction, grammars, languages


def read(language: str, source: str | bytes) -> tuple[list[str], list[str]]:
    """The symbols as `kind qualified.name line`, and the imports as `module line`."""
    raw = source.encode() if isinstance(source, str) else source
    facts = extraction.extract("file", raw, language)
    symbols = [f"{one.kind} {one.qname} {one.line}" for one in facts.symbols]
    return symbols, [f"{one.module} {one.line}" for one in facts.imports]


@pytest.mark.parametrize("language", grammars.LANGUAGES)
def test_every_query_fits_its_grammar(language: str) -> None:
    assert languages.query(language).pattern_count
    assert read(language, "") == ([], [])


PYTHON = '''
from . import x
from ..a.b import (y as z, w)
from __future__ import annotations
import os.path as p, sys


@decorator(
    1
)
class Ž(Base, metaclass=M):
    """First
    paragraph.

    Second."""
    async def f(self):
        def inner(): pass
        return lambda: 1
if True:
    def g(): pass
'''


def test_python_names_lines_and_relative_imports() -> None:
    symbols, imports = read("python", PYTHON)
    assert symbols == ["class Ž 11", "method Ž.f 16", "function Ž.f.inner 17", "function g 20"]
    assert imports == [". 2", "..a.b 3", "__future__ 4", "os.path 5", "sys 5"]


def test_a_symbol_has_its_head_bases_and_documentation() -> None:
    facts = extraction.extract("file", PYTHON.encode(), "python")
    one = facts.symbols[0]
    assert (one.signature, one.bases, one.doc) == ("class Ž(Base, metaclass=M)", ("Base",), "First paragraph.")
    assert facts.imports[1].names == (("y", "z"), ("w", "w"))
    java = "/** Does it.\n * @param a b */\n@Foo\npublic class A<T> extends B<T> implements C, D<E> {}"
    one = extraction.extract("file", java.encode(), "java").symbols[0]
    assert (one.signature, one.bases) == ("public class A<T> extends B<T> implements C, D<E>", ("B<T>", "C", "D<E>"))
    assert (one.doc, one.visibility) == ("Does it.", "public")


def test_the_words_of_a_file_belong_to_the_innermost_declaration() -> None:
    source = """import first
class Outer(Base):
    second = 1

    def third(self, a):
        fourth.fifth("sixth seventh", 8)
        def inner(): return ninth or ninth
        return é_tenth

    eleventh = 2
twelfth()
"""
    found = extraction.extract("a.py", source.encode(), "python")
    assert [one.qname for one in found.symbols] == ["Outer", "Outer.third", "Outer.third.inner"]
    assert found.words == (
        "class Outer Base second eleventh",
        "def third self fourth fifth sixth seventh return é_tenth",
        "def inner return ninth or ninth",
        "import first twelfth",
    )


def test_the_words_of_one_declaration_have_a_bound_and_those_of_a_deep_file_are_read_once() -> None:
    long = "def f():\n" + "    word_of_a_name()\n" * 5_000
    [words, outside] = extraction.extract("a.py", long.encode(), "python").words
    assert (len(words) <= extraction.LONGEST_WORDS, words.endswith("word_of_a_name"), outside) == (True, True, "")
    deep = "".join(f"{' ' * depth}def f{depth}():\n" for depth in range(200)) + " " * 200 + "pass\n"
    found = extraction.extract("a.py", deep.encode(), "python")
    assert [one.split() for one in found.words[:199]] == [["def", f"f{depth}"] for depth in range(199)]


def test_java_anonymous_classes_belong_to_the_method_around_them() -> None:
    source = """import a.b.*;
import static c.D.e;
@Foo(1) class A {
  A() {}
  void m() { new R() { public void run() {} }; }
  enum E { X { void f() {} }; }
  record P(int a) { P { } }
  @interface An { String v() default ""; }
}"""
    symbols, imports = read("java", source)
    assert symbols == [
        "class A 3", "method A.A 4", "method A.m 5", "method A.m.run 5", "class A.E 6", "method A.E.f 6", "class A.P 7",
        "method A.P.P 7", "class A.An 8", "method A.An.v 8",
    ]  # fmt: skip
    assert imports == ["a.b.* 1", "c.D.e 2"]


KOTLIN = """package p
import a.b.C as D
import x.y.*
sealed class `A b`<T>(val x: Int) : Base(1) {
    companion object {
        fun make() {}
    }
    constructor() : this(1)
    val l = object : R() {
        override fun run() {}
    }
}
fun List<String>.ext() {}
typealias Handler<T> = (T) -> Unit
"""


def test_kotlin_companions_back_ticks_and_extensions() -> None:
    symbols, imports = read("kotlin", KOTLIN)
    assert symbols == [
        "class A b 4", "class A b.Companion 5", "method A b.Companion.make 6", "method A b.constructor 8",
        "method A b.run 10", "function ext 13", "class Handler 14",
    ]  # fmt: skip
    assert imports == ["a.b.C 2", "x.y.* 3"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("fun interface K {\n    fun g()\n}", ["class K 1", "method K.g 2"]),
        ("class A\nprivate constructor(x: Int) : B {\n    fun f() {}\n}", ["class A 1", "method A.f 3"]),
        ("context(r: Raise<E>)\nfun <A> A.bind(): A = 1\nfun g() {}", ["function bind 2", "function g 3"]),
        ("class A(x: B) : I by x {\n    fun f() {}\n}", ["class A 1", "method A.f 2"]),
        ("class A {\n    fun f() = where?.let { 1 }\n    fun g() {}\n}", ["class A 1", "method A.f 2", "method A.g 3"]),
        ("@Optional\n@Target(A.B)\ninternal expect annotation class C()", ["class C 3"]),
        (
            "class A {\n    fun f(x: B) = when (x) {\n        is C if x.y -> 1\n"
            "        else -> 2\n    }\n    fun g() {}\n}",
            ["class A 1", "method A.f 2", "method A.g 6"],
        ),
    ],
)
def test_what_the_grammar_of_kotlin_does_not_know_is_found(source: str, wanted: list[str]) -> None:
    assert read("kotlin", source)[0] == wanted


TYPESCRIPT = """import a, { b as c } from "x";
import q = require("w");
export * from './e';
const r = require(`h`), late = await import("j");
let notImported: import("k").T;
namespace N.M { export function nf() {} }
export default class extends B<T> implements I {
  constructor() { super() }
  get g() { return 1 }
  #p() {}
  arrow = async () => { function inn() {} };
  over(a: string): void;
}
interface If extends A { m(): void }
type Al = { m(): void };
const f = () => 1, o = { k: function () {}, s() {} };
Foo.prototype.bar = function () {};
exports.y = () => 1;
run(() => { function inLambda() {} });
const K = class Inner { z() {} };
"""


def test_typescript_functions_have_the_name_of_what_they_are_bound_to() -> None:
    symbols, imports = read("typescript", TYPESCRIPT)
    assert symbols == [
        "function N.M.nf 6", "class default 7", "method default.constructor 8", "method default.g 9",
        "method default.#p 10", "method default.arrow 11", "function default.arrow.inn 11", "method default.over 12",
        "class If 14", "method If.m 14", "class Al 15", "method Al.m 15", "function f 16", "function k 16",
        "function s 16", "method Foo.bar 17", "function y 18", "function inLambda 19", "class K 20", "method K.z 20",
    ]  # fmt: skip
    assert imports == ["x 1", "w 2", "./e 3", "h 4", "j 4"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("export type * from './m';\ntype A = 1", ["class A 2"]),
        (
            "interface A<in out K, out V> extends B {\n  m(): void\n}\ntype C = 1",
            ["class A 1", "method A.m 2", "class C 4"],
        ),
        ("type A<type> = (type extends B ? 1 : 2) & C\nexport type D<X> = 1", ["class A 1", "class D 2"]),
    ],
)
def test_what_the_grammar_of_typescript_does_not_know_is_found(source: str, wanted: list[str]) -> None:
    assert read("typescript", source)[0] == wanted


def test_go_receivers_without_pointers_and_parameters() -> None:
    source = """package a
import (
  x "a/b"
  . `c`
)
type ( A = B; I interface { M(); J }; G[K any] struct { *E } )
func (g *G[K]) m() { type L int }
func (_ pkg.T) o() {}
func f[T any]() {}
"""
    symbols, imports = read("go", source)
    assert symbols == [
        "class A 6", "class I 6", "method I.M 6", "class G 6", "method G.m 7", "class G.m.L 7", "method T.o 8",
        "function f 9",
    ]  # fmt: skip
    assert imports == ["a/b 3", "c 4"]


def test_rust_targets_and_flattened_imports() -> None:
    source = """use std::{fmt, io::{self, Read as R}, x::*};
extern crate foo;
mod m { pub fn f() {} }
#[derive(Debug)]
struct S<T> { a: T }
impl<'a, T> fmt::Display for &'a mut S<T> { fn fmt(&self) { fn inner() {} } }
impl T for dyn A + Send { fn a() {} }
impl T for u32 { fn b() {} }
trait Tr: A { fn req(&self); type X; }
type Al = u32;
extern "C" { fn ext(); }
"""
    symbols, imports = read("rust", source)
    assert symbols == [
        "function m.f 3", "class S 5", "method S.fmt 6", "function S.fmt.inner 6", "method A.a 7", "method u32.b 8",
        "class Tr 9", "method Tr.req 9", "class Al 10", "function ext 11",
    ]  # fmt: skip
    assert imports == ["std::fmt 1", "std::io 1", "std::io::Read 1", "std::x::* 1", "foo 2"]
    assert extraction.extract("f", source.encode(), "rust").symbols[1].bases == ("fmt::Display",)


STRUCTURAL = [
    (
        "c",
        "#include <a.h>\ntypedef struct { int a; } T;\nstatic int *f(int a) { return 0; }",
        ["class T 2", "function f 3"],
        ["a.h 1"],
    ),
    (
        "cpp",
        '#include "a.h"\nnamespace a::b { class C : D { C(); ~C() {} void m(int) const; }; }\n'
        "void a::b::C::m(int) const {}",
        ["class a.b.C 2", "method a.b.C.C 2", "method a.b.C.~C 2", "method a.b.C.m 2", "method a.b.C.m 3"],
        ["a.h 1"],
    ),
    (
        "csharp",
        "using A.B;\nnamespace N { class C : D { C() {} void M() {} } interface I {} }",
        ["class N.C 2", "method N.C.C 2", "method N.C.M 2", "class N.I 2"],
        ["A.B 1"],
    ),
    (
        "ruby",
        "require 'a'\nmodule A::B\n class C < D\n  def m; end\n  def self.s; end\n end\nend",
        ["class A.B 2", "class A.B.C 3", "method A.B.C.m 4", "method A.B.C.s 5"],
        ["a 1"],
    ),
    (
        "php",
        "<?php\nuse A\\{B, C as D};\nclass E extends F { function m() {} }\nfunction g() {}",
        ["class E 3", "method E.m 3", "function g 4"],
        ["A\\B 2", "A\\C 2"],
    ),
    (
        "swift",
        "import Foundation\nclass A: B {\n  init() {}\n  func m() {}\n}\nprotocol P {\n  func q()\n}\n",
        ["class A 2", "method A.init 3", "method A.m 4", "class P 6", "method P.q 7"],
        ["Foundation 1"],
    ),
    (
        "scala",
        "import a.b.C\ntrait T { def q: Int }\nobject O extends T { def x = 1 }\n",
        ["class T 2", "method T.q 2", "class O 3", "method O.x 3"],
        ["a.b.C 1"],
    ),
    ("bash", "source ./a.sh\nf() { g() { :; }; }\n", ["function f 2", "function f.g 2"], ["./a.sh 1"]),
]


@pytest.mark.parametrize(("language", "source", "symbols", "imports"), STRUCTURAL)
def test_languages_that_are_read_structurally(
    language: str, source: str, symbols: list[str], imports: list[str]
) -> None:
    assert read(language, source) == (symbols, imports)


METHODS = """class Wait {
  catch(handler) { return this.then(handler); }
  while(test) { return test; }
  with = (other) => other;
  static if(x) { return x; }
  then(handler) { return handler; }
}
const table = { do() {}, for: function () {} };
"""


@pytest.mark.parametrize("language", ["javascript", "typescript", "tsx"])
def test_methods_with_the_names_of_statements_are_read_in_files_with_errors_too(language: str) -> None:
    whole = read(language, METHODS)[0]
    assert [one.split()[1] for one in whole] == [
        "Wait", "Wait.catch", "Wait.while", "Wait.with", "Wait.if", "Wait.then", "do", "for",
    ]  # fmt: skip
    assert read(language, METHODS + "const broken = ;\n")[0] == whole
    # Beside the error in the same class too, where they stand as far in as the others.
    beside = METHODS.replace("  then(", "  broken(a { }\n  then(")
    names = [one.split()[1] for one in read(language, beside)[0]]
    assert {"Wait.catch", "Wait.while", "do", "for"} <= set(names)


@pytest.mark.parametrize("language", ["javascript", "typescript"])
def test_statements_that_an_error_makes_look_like_methods_are_none(language: str) -> None:
    source = """class A {
  load(x) {
    try { this.run(x; } catch (error) { this.stop(); }
    while (x) { x = this.next(); }
    if (x) { return 1; }
    switch (x) { }
  }
  run(x) { return x; }
}
"""
    facts = extraction.extract("file", source.encode(), language)
    assert facts.has_error
    assert not {"catch", "while", "if", "switch"} & {one.name for one in facts.symbols}
    assert "load" in {one.name for one in facts.symbols}


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"\xef\xbb\xbfdef f(): pass", 1),
        (b"# \xe9\ndef f(): pass", 2),
        (b"x = 1\r\ny = 2\r\ndef f(): pass\r\n", 3),
        (b"x = 1\ry = 2\rdef f(): pass\r", 3),
        (b"\x0c\nx = 1\n\x0cdef f(): pass", 3),
        ("def f(): pass".encode("utf-16"), 1),
        ("x = '\u8868'\n# \u3067\u3059\ndef f(): pass".encode("shift_jis"), 3),
        ("# coding: euc-jp\nx = '\u8868'\ndef f(): pass".encode("euc_jp"), 3),
    ],
)
def test_lines_are_those_of_an_editor_in_every_encoding(raw: bytes, line: int) -> None:
    assert read("python", raw) == ([f"function f {line}"], [])


def test_a_byte_belongs_to_the_nearest_named_declaration() -> None:
    from codegraph.parse import outline, parsing

    source = b"x = a()\nclass A:\n    y = b()\n    def f(self):\n        return lambda: c()\nz = d()\n"
    found = outline.outline(parsing.parse(source, "python"), source, "python")
    assert [found.scope_at(source.index(call)) for call in (b"a()", b"b()", b"c()", b"d()")] == ["", "A", "A.f", ""]
