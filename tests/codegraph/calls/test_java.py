"""Calls of Java: scopes, imports, inheritance, overloads, generics, lambdas, names of the outline."""

from __future__ import annotations

import textwrap

import pytest

from tests.codegraph.calls import projects

_BASE = """\
package lib;
import java.util.*;
public class Base<T> implements Named {
    public Item item; protected List<Item> items; Map<String, Item> byName; static Item shared; T value;
    public Base() {}
    public Base(Item item) { }
    public Item get() { return item; }
    public static Base<Item> of(Item x) { return null; }
    public T value() { return value; }
    public <R> R map(Mapper<? super T, ? extends R> mapper) { return null; }
    public void put(int x) {}
    public Item put(String x) { return null; }
    public Base<T> self() { return this; }
    public static class Nested { public void n() {} public class Deep { void d() {} } }
    public class Inner { public void i() {} }
}
"""
_ITEM = """\
package lib;
public class Item {
    public void run() {}
    public Item next() { return this; }
    public static Item made() { return null; }
}
"""
_NAMED = "package lib; public interface Named { String name(); default Item titled() { return null; } }"
_MAPPER = "package lib; public interface Mapper<A, B> { B apply(A a); }"
_KIND = "package lib; public enum Kind { ONE, TWO { void x() { go(); } }; public void go() {} }"
_PAIR = "package lib; public record Pair(Item left, Base<Item> right) { public void swap() {} }"
_PROJECT = {
    "lib/Base.java": _BASE,
    "lib/Item.java": _ITEM,
    "lib/Named.java": _NAMED,
    "lib/Mapper.java": _MAPPER,
    "lib/Kind.java": _KIND,
    "lib/Pair.java": _PAIR,
}
_CASES = {
    "constructor": ("new Item();", ["Item: constructor"]),
    "result of a constructor": ("new Item().run();", ["Item: constructor", "Item.run: return-type"]),
    "static": ("Item.made();", ["Item.made: import"]),
    "full name": ("lib.Item.made();", ["Item.made: import"]),
    "declared type": ("Base<Item> b = null; b.get();", ["Base.get: annotation"]),
    "var": ("var b = new Item(); b.run();", ["Item: constructor", "Item.run: return-type"]),
    "chain": ("Item.made().next().run();", ["Item.made: import", "Item.next: return-type", "Item.run: return-type"]),
    "field": ("Base b = null; b.item.run();", ["Item.run: attribute-type"]),
    "inherited field": ("item.run();", ["Item.run: attribute-type"]),
    "element of a field": ("for (var x : items) x.run();", ["Item.run: return-type"]),
    "element by index": ("items.get(0).run();", ["Item.run: return-type"]),
    "value of a map": ("Base<Item> b = null; b.byName.get(``).run();", ["Item.run: return-type"]),
    "entries": (
        "Base<Item> b = null; for (var e : b.byName.entrySet()) e.getValue().run();",
        ["Item.run: return-type"],
    ),
    "array": ("Item[] a = null; a[0].run(); for (Item x : a) x.run();",
           ["Item.run: annotation", "Item.run: return-type"]),
    "stream": ("items.stream().filter(x -> x.next() != null).forEach(x -> x.run());",
               ["Item.next: return-type", "Item.run: return-type"]),
    "inherited": ("get();", ["Base.get: inherited"]),
    "this": ("this.own();", ["Use.own: self"]),
    "own": ("own();", ["Use.own: self"]),
    "super": ("super.get();", ["Base.get: inherited"]),
    "default of an interface": ("titled();", ["Named.titled: inherited"]),
    "interface": ("Named n = null; n.name();", ["Named.name: interface"]),
    "overload": ("put(1); put(``).run();", ["Base.put: inherited", "Item.run: return-type"]),
    "type argument": ("Base<Item> b = null; b.value().run();", ["Base.value: annotation", "Item.run: return-type"]),
    "type argument of a base": ("value().run();", ["Base.value: inherited", "Item.run: return-type"]),
    "static with type arguments": (
        "Base.of(null).self().value().run();",
        ["Base.of: import", "Base.self: return-type", "Base.value: return-type", "Item.run: return-type"],
    ),
    "lambda": ("map(x -> x.next()).run();",
               ["Base.map: inherited", "Item.next: return-type", "Item.run: return-type"]),
    "reference": ("map(Item::next).run();",
                  ["Base.map: inherited", "Item.next: import", "Item.run: return-type"]),
    "reference to a constructor": ("java.util.function.Supplier<Item> s = Item::new; s.get().run();",
                                   ["Item: constructor", "Item.run: return-type"]),
    "diamond": ("var b = new Box<>(Item.made()); b.held.run();",
                ["Item.made: import", "Item.run: attribute-type", "Use.Box: constructor"]),
    "nested": ("new Base.Nested().n();", ["Base.Nested: constructor", "Base.Nested.n: return-type"]),
    "inherited nested": ("Nested n = null; n.n();", ["Base.Nested.n: annotation"]),
    "inner of an object": ("Base<Item> b = null; b.new Inner().i();",
           ["Base.Inner: constructor", "Base.Inner.i: return-type"]),
    "enum": ("Kind.ONE.go(); Kind.valueOf(``).go();", ["Kind.go: attribute-type", "Kind.go: return-type"]),
    "record": ("Pair p = new Pair(null, null); p.left().run(); p.right().get(); p.swap();",
               ["Base.get: return-type", "Item.run: return-type", "Pair: constructor", "Pair.swap: annotation"]),
    "cast": ("Object o = null; ((Item) o).run();", ["Item.run: annotation"]),
    "pattern": ("Object o = null; if (o instanceof Item i && i.next() != null) i.run();",
                ["Item.next: annotation", "Item.run: annotation"]),
    "switch": ("Object o = null; switch (o) { case Item i -> i.run(); default -> own(); }",
               ["Item.run: annotation", "Use.own: self"]),
    "ternary": ("(true ? item : null).run();", ["Item.run: return-type"]),
    "static import": ("made(); only();", ["Item.made: import", "Item.made: import"]),
    "any number of arguments": ("many(1, item.next());", ["Item.next: attribute-type", "Use.many: self"]),
    "not null": ("requireNonNull(item).run();", ["Item.run: return-type"]),
    "caught": ("try { own(); } catch (Wrong e) { e.why(); }", ["Use.Wrong.why: annotation", "Use.own: self"]),
    "resource": ("try (Wrong w = new Wrong()) { w.why(); }", ["Use.Wrong: constructor", "Use.Wrong.why: annotation"]),
    "outer of a nested type": ("new Wrong().outer();", ["Use.Wrong: constructor", "Use.Wrong.outer: return-type"]),
    "bound": ("bounded(null);", ["Use.bounded: self"]),
    "unknown": ("Object o = null; o.run(); missing.run(); Other.run(); run();", []),
    "of elsewhere": ("``.trim(); System.out.println(); toString();", []),
    "local hides a field": ("String item = ``; item.run();", []),
}  # fmt: skip
_USE = """\
package app;
import lib.*;
import static lib.Item.*;
import static java.util.Objects.requireNonNull;
class Use extends Base<Item> {
    void f() { %s }
    void own() {}
    void many(Object @Nullable ... args) {}
    <N extends Item> void bounded(N n) { }
    static class Box<H> { H held; Box(H h) { held = h; } }
    static class Wrong extends RuntimeException { void why() {} void outer() {} }
}
"""


def _called(content: str) -> list[str]:
    edges = projects.resolve({**_PROJECT, "app/Use.java": content}).edges
    return sorted(f"{one.callee}: {one.rule}" for one in edges if one.caller_file == "app/Use.java")


@pytest.mark.parametrize(("body", "expected"), _CASES.values(), ids=_CASES)
def test_calls_in_a_method(body: str, expected: list[str]) -> None:
    body = body.replace("``", '"x"').replace("only();", "")
    assert _called(_USE % body) == sorted(set(expected))


def test_callers_are_named_by_the_outline() -> None:
    """Lambdas and anonymous classes belong to the named scope around them; a local class is below its method."""
    source = """\
        package lib;
        class Outer {
            static final Item FIRST = Item.made();
            static { go(); }
            Runnable made = () -> go();
            Outer() { this(1); }
            Outer(int x) { super(); go(); }
            static void go() {
                new Named() { public String name() { inner(); return ""; } void inner() {} };
                class Local { void m() { go(); } }
                new Local().m();
            }
            class Deep { void m() { go(); Outer.this.own(); } }
            void own() {}
        }
        """
    found = projects.resolve({**_PROJECT, "lib/Outer.java": textwrap.dedent(source)}).edges
    assert [f"{one.line} {one.caller} -> {one.callee}: {one.rule}" for one in found if "Outer" in one.caller_file] == [
        "3 Outer -> Item.made: import",
        "4 Outer -> Outer.go: local",
        "5 Outer -> Outer.go: local",
        "13 Outer.Deep.m -> Outer.go: local",
        "13 Outer.Deep.m -> Outer.own: annotation",
        "6 Outer.Outer -> Outer: constructor",
        "7 Outer.Outer -> Outer.go: local",
        "9 Outer.go -> Named: constructor",
        "11 Outer.go -> Outer.go.Local: constructor",
        "11 Outer.go -> Outer.go.Local.m: return-type",
        "10 Outer.go.Local.m -> Outer.go: local",
        "9 Outer.go.name -> Outer.go.inner: self",
    ]


def test_a_single_import_comes_before_the_package_and_that_before_all_of_another() -> None:
    contents = {
        "a/X.java": "package a; public class X { public static void f() {} }",
        "b/X.java": "package b; public class X { public static void f() {} }",
        "c/One.java": "package c; import a.X; import b.*; class One { void m() { X.f(); } }",
        "c/Two.java": "package c; import b.*; class Two { void m() { X.f(); } }",
        "b/Three.java": "package b; import a.*; class Three { void m() { X.f(); } }",
        "d/Four.java": "package d; import static a.X.f; class Four { void m() { f(); } }",
    }
    assert projects.edges(contents) == [
        "b/Three.java:Three.m -> b/X.java:X.f: import",
        "c/One.java:One.m -> a/X.java:X.f: import",
        "c/Two.java:Two.m -> b/X.java:X.f: import",
        "d/Four.java:Four.m -> a/X.java:X.f: import",
    ]


def test_types_of_the_same_name_in_two_modules_are_told_by_their_folders() -> None:
    contents = {
        f"{module}/{name}.java": f"package p; class {name} {{ static void f() {{ {body} }} }}"
        for module in ("one", "two")
        for name, body in (("X", ""), ("Y", "X.f();"))
    }
    assert projects.edges(contents) == [
        "one/Y.java:Y.f -> one/X.java:X.f: import",
        "two/Y.java:Y.f -> two/X.java:X.f: import",
    ]


def test_types_that_inherit_from_each_other_end() -> None:
    source = "class A extends B { void f() { g(); h(); } } class B extends A { void g() {} } class C extends C.D { }"
    assert projects.inside(source, "A.java") == ["1 A.f -> B.g: inherited"]


def test_calls_without_an_edge_are_named_with_their_line() -> None:
    found = projects.resolve({"A.java": "class A {\n void f() { String.valueOf(1).trim();\n new Thread(); } }"})
    assert [(one.caller, one.name, one.line) for one in found.unresolved] == [
        ("A.f", "Thread", 3),
        ("A.f", "trim", 2),
        ("A.f", "valueOf", 2),
    ]


def test_a_long_chain_and_a_deep_hierarchy_end() -> None:
    chain = "class A { A a() { return this; } void f() { a()" + ".a()" * 150 + "; } }"
    classes = [f"class C{at} extends C{at + 1} {{ }}" for at in range(400)]
    found = projects.resolve(
        {"A.java": chain, "C.java": "\n".join([*classes, "class D { C0 c; void f() { c.g(); } }"])}
    )
    assert {one.callee for one in found.edges} == {"A.a"}
    assert not [one for one in found.unresolved if one.file == "A.java"]
