"""Calls of Go: packages, receivers, embedded types, interfaces, generics."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from codegraph.parse import parsing
from codegraph.resolve import calls
from hack.cluster import binaries
from tests.codegraph.calls import projects

_HEAD = """\
package p
type Base struct{ inner *Inner }
func (b *Base) M() *Inner { return b.inner }
type Inner struct{}
func (Inner) N() {}
type Outer struct{ *Base; list []*Inner; byName map[string]Inner; made func() *Inner; one Doer }
type Doer interface{ Do() *Inner }
type Wider interface{ Doer; More() }
type Box[T any] struct{ value T }
func (b *Box[T]) Get() T { return b.value }
func New() *Outer { return nil }
func Two() (*Inner, error) { return nil, nil }
func Same[T any](x T) T { return x }
func Map[T, U any](xs []T, f func(T) U) []U { return nil }
func Only[K Doer](k K) { k.Do() }
type Alias = Outer
type Kind int
func (k Kind) String() string { return "" }
const ( First Kind = iota; Second )
var shared = New()
"""
_CASES = {
    "function": ("func f() { New() }", "f -> New: local"),
    "method": ("func f(b *Base) { b.M() }", "f -> Base.M: annotation"),
    "promoted": ("func f(o *Outer) { o.M() }", "f -> Base.M: inherited"),
    "chain": ("func f(o *Outer) { o.Base.M().N() }", "f -> Base.M: attribute-type, f -> Inner.N: return-type"),
    "element": ("func f(o *Outer) { for _, x := range o.list { x.N() } }", "f -> Inner.N: return-type"),
    "key and value": ("func f(o *Outer) { for k, x := range o.byName { _ = k; x.N() } }", "f -> Inner.N: return-type"),
    "index": ("func f(o *Outer) { o.list[0].N() }", "f -> Inner.N: return-type"),
    "comma ok": ("func f(o *Outer) { if x, ok := o.byName[``]; ok { x.N() } }", "f -> Inner.N: return-type"),
    "field of a function": ("func f(o *Outer) { o.made().N() }", "f -> Inner.N: return-type"),
    "several results": ("func f() { x, _ := Two(); x.N() }", "f -> Inner.N: return-type, f -> Two: local"),
    "interface": ("func f(d Doer) { d.Do().N() }", "f -> Doer.Do: interface, f -> Inner.N: return-type"),
    "embedded interface": ("func f(d Wider) { d.Do() }", "f -> Doer.Do: interface"),
    "assertion": ("func f(x any) { x.(*Inner).N() }", "f -> Inner.N: return-type"),
    "type switch": ("func f(x any) { switch y := x.(type) { case *Base: y.M() } }", "f -> Base.M: annotation"),
    "literal": ("func f() { x := &Base{}; x.M() }", "f -> Base.M: return-type"),
    "conversion": ("func f() { Kind(3).String() }", "f -> Kind.String: return-type"),
    "constant": ("func f() { Second.String() }", "f -> Kind.String: return-type"),
    "package variable": ("func f() { shared.M() }", "f -> Base.M: inherited"),
    "alias": ("func f(a *Alias) { a.M() }", "f -> Base.M: inherited"),
    "generic type": ("func f(b *Box[*Inner]) { b.Get().N() }", "f -> Box.Get: annotation, f -> Inner.N: return-type"),
    "inferred": ("func f(b *Base) { Same(b).M() }", "f -> Base.M: return-type, f -> Same: local"),
    "given": ("func f() { Same[*Base](nil).M() }", "f -> Base.M: return-type, f -> Same: local"),
    "inferred from a function": (
        "func f(o *Outer) { for _, x := range Map(o.list, func(i *Inner) *Base { return nil }) { x.M() } }",
        "f -> Base.M: return-type, f -> Map: local",
    ),
    "constraint": ("func f[D Doer](d D) { d.Do() }", "f -> Doer.Do: interface"),
    "function literal": ("func f() { go func(b *Base) { b.M() }(nil) }", "f -> Base.M: annotation"),
    "method expression": ("func f(b *Base) { (*Base).M(b) }", "f -> Base.M: return-type"),
    "method value is no call": ("func f(b *Base) { g := b.M; g() }", ""),
    "shadowed": ("func f() { New := func() {}; New() }", ""),
    "channel": ("func f(c chan *Base) { (<-c).M() }", "f -> Base.M: return-type"),
    "new and make": ("func f() { x := new(Base); x.M(); y := make([]Base, 1); y[0].M() }", "f -> Base.M: return-type"),
    "built-in append": ("func f(o *Outer) { x := append(o.list, nil); x[0].N() }", "f -> Inner.N: return-type"),
    "package level": ("var x = shared.M()", "-> Base.M: inherited"),
}  # fmt: skip


@pytest.mark.parametrize(("source", "wanted"), _CASES.values(), ids=_CASES)
def test_a_call_is_resolved_as_the_compiler_does(source: str, wanted: str) -> None:
    assert ", ".join(sorted(set(projects.below(_HEAD, source, "a.go")))) == wanted


def test_packages_are_found_by_modules_workspaces_and_replacements() -> None:
    contents = {
        "go.mod": "module example.org/a\n\nreplace example.org/c => ./vendored/c\n",
        "main.go": """\
                package main
                import (
                    "fmt"
                    "example.org/a/one"
                    other "example.org/a/one/two"
                    "example.org/b"
                    "example.org/c"
                    . "example.org/a/dot"
                )
                func main() { one.F(); other.F(); bee.F(); c.F(); Dot(); fmt.Println() }
            """,
        "one/one.go": "package one\nfunc F() {}",
        "one/two/x.go": "package two\nfunc F() {}",
        "dot/x.go": "package dot\nfunc Dot() {}",
        "modules/b/go.mod": "module example.org/b",
        "modules/b/x.go": "package bee\nfunc F() {}",
        "vendored/c/x.go": "package c\nfunc F() {}",
    }
    assert projects.edges(contents) == [
        "main.go:main -> dot/x.go:Dot: import",
        "main.go:main -> modules/b/x.go:F: import",
        "main.go:main -> one/one.go:F: import",
        "main.go:main -> one/two/x.go:F: import",
        "main.go:main -> vendored/c/x.go:F: import",
    ]


def test_a_test_package_sees_only_what_it_imports() -> None:
    contents = {
        "go.mod": "module m",
        "p/p.go": "package p\nfunc F() {}\nfunc init() { F() }",
        "p/in_test.go": "package p\nfunc TestIn() { F() }",
        "p/out_test.go": 'package p_test\nimport "m/p"\nfunc F() {}\nfunc TestOut() { p.F(); F() }',
    }
    assert projects.edges(contents) == [
        "p/in_test.go:TestIn -> p/p.go:F: import",
        "p/out_test.go:TestOut -> p/out_test.go:F: local",
        "p/out_test.go:TestOut -> p/p.go:F: import",
        "p/p.go:init -> p/p.go:F: local",
    ]


def test_of_several_builds_a_file_calls_its_own() -> None:
    contents = {
        "f_linux.go": "package p\nfunc F() {}",
        "f_windows.go": "package p\nfunc F() {}",
        "f_other.go": "//go:build !linux && !windows\n\npackage p\nfunc F() {}",
        "any.go": "package p\nfunc G() { F() }",
        "g_windows.go": "package p\nfunc H() { F() }",
    }
    assert projects.edges(contents) == ["any.go:G -> f_linux.go:F: import", "g_windows.go:H -> f_windows.go:F: import"]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("x := f()", []),
        ("package p\nfor x := range y { x.z() }\nfunc (", []),
        ("package p\ntype T T\nfunc (t T) f() { t.f().g() }", ["3 T.f -> T.f: annotation"]),
        ("package p\ntype A = B\ntype B = A\nfunc f(a A) { a.g() }", []),
        ("package p\ntype A struct{ B }\ntype B struct{ A }\nfunc f(a A) { a.g() }", []),
    ],
)
def test_sources_that_no_compiler_takes_are_read(source: str, wanted: list[str]) -> None:
    assert projects.inside(source, "a.go") == wanted


def test_the_calls_of_a_module_are_those_of_go_types() -> None:
    """pflag at the version that the Kubernetes programs of the tests are built with; 4 calls go through interfaces that
    functions declare in their bodies, which have no name for others."""
    module = "github.com/spf13/pflag"
    subprocess.run(["go", "mod", "download", module], cwd=binaries.TOOLS / "kubernetes", check=True)
    listed = subprocess.run(
        ["go", "list", "-m", "-f", "{{.Dir}} {{.Version}}", module],
        cwd=binaries.TOOLS / "kubernetes", check=True, capture_output=True, text=True,
    )  # fmt: skip
    directory, version = listed.stdout.split()
    assert version == "v1.0.10"
    program = Path(__file__).parent / "reference" / "main.go"
    answer = subprocess.run(["go", "run", str(program), directory], check=True, capture_output=True, text=True)
    truth = {tuple(json.loads(line)) for line in answer.stdout.splitlines()}
    files = {}
    for path in sorted(Path(directory).glob("*.go")):
        source = path.read_bytes()
        found = calls.facts(parsing.parse(source, "go"), source, "go")
        assert found is not None
        files[path.name] = found
    built = {one[0] for one in truth}
    edges = calls.resolve(files, {"go.mod": f"module {module}".encode()}).edges
    ours = {
        (one.caller_file, one.caller, one.callee_file, one.callee, one.line)
        for one in edges
        if one.caller_file in built
    }
    assert len(ours - truth) == 0
    assert len(truth - ours) == 4
    assert len(truth) == 1512
