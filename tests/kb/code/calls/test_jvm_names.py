"""Callers and callees of Java and Kotlin have the names of declarations, and facts survive the way to the parent."""

from __future__ import annotations

import pickle
import textwrap

from kb.code import calls, extraction, grammars, worker
from kb.code.facts import FileFacts

_SOURCES = {
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


def test_names_of_calls_are_names_of_declarations() -> None:
    files: dict[str, FileFacts] = {}
    for path, text in _SOURCES.items():
        raw = textwrap.dedent(text).encode()
        files[path] = extraction.extract(path, raw, grammars.language_of(path) or "", extraction.collector(calls=True))
        assert worker.answer(pickle.dumps(files[path])) == files[path]
    facts = {path: one.calls for path, one in files.items() if isinstance(one.calls, calls.CallFacts)}
    edges = calls.resolve(facts).edges
    names = {(path, symbol.qname) for path, one in files.items() for symbol in one.symbols}
    assert {(one.callee_file, one.callee) for one in edges} <= names
    assert {(one.caller_file, one.caller) for one in edges if one.caller} <= names
    assert [(one.caller, one.callee, one.line) for one in edges] == [
        ("A.A.inner", "A.late", 3),
        ("A.Kind.x", "A.late", 5),
        ("A.late.Local.m", "A.late", 4),
        ("", "Base", 2),
        ("Base.Companion.first", "A", 8),
        ("Base.constructor", "Base.Companion.first", 6),
        ("inner", "A.late", 3),
    ]
