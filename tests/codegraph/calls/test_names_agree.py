"""Callers and callees have the names of declarations, and facts survive the way out of the worker process."""

from __future__ import annotations

import pickle
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from codegraph.extract import worker
from codegraph.parse import extraction, grammars
from codegraph.parse.facts import FileFacts
from codegraph.resolve import calls
from codegraph.resolve.calls import configuration

_JVM = {
    "A.java": """\
        package p;
        class A {
            A() { new Object() { void inner() { late(); } }; }
            static void late() { class Local { void m() { late(); } } }
            enum Kind { ONE { void x() { late(); } } }
        }
        """,
    "b.kt": """\
        package p
        val made = object : Base() {
            fun inner() { A.late() }
        }
        open class Base {
            constructor(x: Int) { first() }
            companion object {
                fun first() = A()
            }
        }
        """,
}
_OTHERS = {
    "a.py": """\
        @register
        class Outer:
            made = [build(x) for x in range(3)]
            class Inner:
                def f(self):
                    def g():
                        return lambda: build(1)
                    return g()
            async def h(self): self.Inner().f()
        def build(x): return Outer()
        def register(kind): return kind
        if build(2):
            def late(): build(3)
        """,
    "a.go": """\
        package p
        type T[K any] struct{}
        func (t *T[K]) F() { func() { t.F() }() }
        func init() { new(T[int]).F() }
        var x = func() int { G(); return 1 }()
        func G() {}
        """,
    "a.tsx": """\
        namespace N { export class T<K> { f = () => { new Inner().g(); }; static { start(); } } }
        class Inner { g() { const h = () => { start(); }; [1].map(() => h()); } "quoted name"() { this.g(); } }
        export default function () { return <Card a={start()}/>; }
        const Card = function Named() { Named(); };
        const made = { k() { this.l(); }, l: () => start(), [computed]() { start(); } };
        function start(x = Card()) {}
        """,
}


def _facts(sources: Mapping[str, str]) -> dict[str, FileFacts]:
    found = {}
    for path, text in sources.items():
        raw = textwrap.dedent(text).encode()
        one = extraction.extract(path, raw, grammars.language_of(path) or "", calls.facts)
        answered = worker.answer(pickle.dumps(one))
        assert answered == one
        assert isinstance(answered, FileFacts)
        found[path] = answered
    return found


_CALLS_OF_JVM = [
    ("A.A.inner", "A.late", 3),
    ("A.Kind.x", "A.late", 5),
    ("A.late.Local.m", "A.late", 4),
    ("", "Base", 2),
    ("Base.Companion.first", "A", 8),
    ("Base.constructor", "Base.Companion.first", 6),
    ("inner", "A.late", 3),
]
_CALLS_OF_OTHERS = [
    ("", "G", 5),
    ("T.F", "T.F", 3),
    ("init", "T.F", 4),
    ("", "build", 12),
    ("Outer", "build", 3),
    ("Outer.Inner.f", "Outer.Inner.f.g", 8),
    ("Outer.Inner.f.g", "build", 7),
    ("Outer.h", "Outer.Inner", 9),
    ("Outer.h", "Outer.Inner.f", 9),
    ("build", "Outer", 10),
    ("late", "build", 13),
    ("Card", "Card", 4),
    ("Inner.g", "Inner.g.h", 2),
    ("Inner.g.h", "start", 2),
    ("Inner.quoted name", "Inner.g", 2),
    ("N.T", "start", 1),
    ("N.T.f", "Inner", 1),
    ("N.T.f", "Inner.g", 1),
    ("[computed]", "start", 5),
    ("default", "Card", 3),
    ("default", "start", 3),
    ("k", "l", 5),
    ("l", "start", 5),
    ("start", "Card", 6),
]


@pytest.mark.parametrize(
    ("sources", "expected"), [(_JVM, _CALLS_OF_JVM), (_OTHERS, _CALLS_OF_OTHERS)], ids=["java and kotlin", "others"]
)
def test_names_of_calls_are_names_of_declarations(
    sources: Mapping[str, str], expected: list[tuple[str, str, int]]
) -> None:
    files = _facts(sources)
    facts = {path: one.calls for path, one in files.items() if isinstance(one.calls, calls.CallFacts)}
    edges = calls.resolve(facts).edges
    names = {(path, symbol.qname) for path, one in files.items() for symbol in one.symbols}
    assert {(one.callee_file, one.callee) for one in edges} <= names
    assert {(one.caller_file, one.caller) for one in edges if one.caller} <= names
    assert [(one.caller, one.callee, one.line) for one in edges] == expected


def test_configuration_is_read_without_what_is_left_out_and_without_links(tmp_path: Path) -> None:
    for name in ("go.mod", "one/go.mod", "vendor/go.mod", "one/other.txt"):
        place = tmp_path / name
        place.parent.mkdir(exist_ok=True)
        place.write_text(f"module {name}")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "go.mod").symlink_to(tmp_path / "go.mod")
    assert configuration.read(tmp_path, ["vendor"]) == {"go.mod": b"module go.mod", "one/go.mod": b"module one/go.mod"}
