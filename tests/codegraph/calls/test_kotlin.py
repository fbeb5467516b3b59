"""Calls of Kotlin: functions, receivers, properties, objects, constructors, imports, and calls to and from Java."""

from __future__ import annotations

import textwrap

import pytest

from tests.codegraph.calls import projects

_LIB = """\
package lib
open class Item(val name: String, private val inner: Item? = null) {
    fun run() = Unit
    fun next(): Item = this
    fun again() = next()
    operator fun invoke(x: Int) {}
    fun put(x: Int, loud: Boolean = false, then: () -> Unit = {}) {}
    companion object {
        fun made(): Item = Item("x")
        val first = Item("y")
    }
    class Nested {
        fun n() {}
    }
}
interface Named {
    fun named(): Item
    fun titled() = named()
}
object Single {
    fun only(): Item = Item("z")
    fun String.inObject() {}
}
class Box<T>(val held: T) {
    fun get(): T = held
}
data class Two(val left: Item, val right: Box<Item>)
enum class Kind {
    ONE, TWO;
    fun go() {}
}
sealed interface Shape
class Round : Shape {
    fun roll() {}
}
class Flat : Shape {
    fun fold() {}
}
fun top(x: Int = 1): Item = Item("t")
fun Item.extended(): Item = next()
fun <T> T.same(block: T.() -> Unit): T = this
fun build(block: Item.() -> Unit): Item = Item("b").apply(block)
fun each(items: List<Item>, block: (Item) -> Unit) {}
val shared: Item by lazy { Item("s") }
val Item.twice: Item get() = next()
fun Item.put(x: String) {}
"""
_JAVA = """\
package lib;
public class Old {
    public static Old made() { return null; }
    public Item getItem() { return null; }
    public void old() {
        LibKt.top(1).run();
        Item.Companion.made();
        Single.INSTANCE.only();
        new Two(null, null).getLeft().run();
    }
}
"""
_CASES = {
    "constructor": ('Item("a").run()', ["Item.run: return-type", "Item: constructor"]),
    "function": ("top().run()", ["Item.run: return-type", "top: import"]),
    "full name": ("lib.top()", ["top: import"]),
    "renamed": ("other()", ["top: import"]),
    "parameter": ("item.run()", ["Item.run: annotation"]),
    "value": ('val x = Item("a"); x.run()', ["Item.run: return-type", "Item: constructor"]),
    "safe call": ("maybe?.next()!!.run()", ["Item.next: annotation", "Item.run: return-type"]),
    "result of an expression": ("item.again().run()", ["Item.again: annotation", "Item.run: return-type"]),
    "extension": ("item.extended().run()", ["Item.run: return-type", "extended: import"]),
    "extension of another type": ('"x".extended()', []),
    "extension of an object": ('"x".inObject()', ["Single.inObject: import"]),
    "overload by an extension": ('item.put(1); item.put("x")', ["Item.put: annotation", "put: import"]),
    "label and default": ("item.put(1, loud = true); item.put(1) { item.run() }",
                          ["Item.put: annotation", "Item.run: annotation"]),
    "companion": ("Item.made().run(); Item.first.run()",
                  ["Item.Companion.made: import", "Item.run: attribute-type", "Item.run: return-type"]),
    "object": ("Single.only().run()", ["Item.run: return-type", "Single.only: import"]),
    "nested": ("Item.Nested().n()", ["Item.Nested.n: return-type", "Item.Nested: constructor"]),
    "property": ("own.run(); this.own.run()", ["Item.run: attribute-type"]),
    "property outside of types": ("shared.run()", ["Item.run: attribute-type"]),
    "property of an extension": ("item.twice.run()", ["Item.run: attribute-type"]),
    "type argument": ("Box(item).held.run(); Box<Item>(item).get().run()",
                      ["Box.get: return-type", "Box: constructor", "Item.run: attribute-type",
                       "Item.run: return-type"]),
    "taken apart": ("val (a, b) = Two(item, Box(item)); a.run(); b.get()",
                    ["Box.get: return-type", "Box: constructor", "Item.run: return-type", "Two: constructor"]),
    "loop": ("for (x in listOf(item)) x.run()", ["Item.run: return-type"]),
    "lambda": ("each(listOf()) { it.run() }; each(listOf()) { x -> x.next() }",
               ["Item.next: return-type", "Item.run: return-type", "each: import"]),
    "receiver of a lambda": ("build { run(); next() }",
           ["Item.next: return-type", "Item.run: return-type", "build: import"]),
    "receiver by type parameter": ("item.same { next() }.run()",
                                   ["Item.next: return-type", "Item.run: return-type", "same: import"]),
    "scope functions": ("item.apply { next() }.let { it.run() }; with(item) { again() }",
                        ["Item.again: return-type", "Item.next: return-type", "Item.run: return-type"]),
    "function that is passed on": ("val g = {}; item.let(g).run(); listOf(item).map(g); with(item, g)", []),
    "invoke": ("item(1)", ["Item.invoke: return-type"]),
    "local function": ("fun deep(): Item = item; deep().run()", ["Item.run: return-type", "Use.f.deep: local"]),
    "interface": ("named.titled().run()", ["Item.run: return-type", "Named.titled: interface"]),
    "narrowed": ("if (shape is Round && shape.roll() == Unit) shape.roll() else item.run()",
                 ["Item.run: annotation", "Round.roll: annotation"]),
    "when": ("when (shape) { is Round -> shape.roll(); is Flat -> shape.fold() }",
             ["Flat.fold: annotation", "Round.roll: annotation"]),
    "narrowed after a return": ("if (shape !is Flat) return; shape.fold()", ["Flat.fold: annotation"]),
    "enum": ("Kind.ONE.go(); Kind.valueOf(\"ONE\").go()", ["Kind.go: attribute-type", "Kind.go: return-type"]),
    "or else": ("(maybe ?: item).run()", ["Item.run: return-type"]),
    "reference": ("each(listOf(), Item::run); val g = ::top", ["Item.run: import", "each: import", "top: import"]),
    "Java": ("Old.made().item.run(); Old().old()",
             ["Item.run: attribute-type", "Old.made: import", "Old.old: return-type", "Old: constructor"]),
    "in a text": ('"a ${top()}"', ["top: import"]),
    "unknown": ('missing(); "x".trim(); println(item); item.missing(); run()', []),
    "local hides a function": ("val top = { 1 }; top()", []),
}  # fmt: skip
_USE = """\
package app
import lib.*
import lib.top as other
import lib.Single.inObject
class Use(val own: Item) {
    fun f(item: Item, maybe: Item?, named: Named, shape: Shape) {
        %s
    }
}
"""
_PROJECT = {"lib/Lib.kt": _LIB, "lib/Old.java": _JAVA}


@pytest.mark.parametrize(("body", "expected"), _CASES.values(), ids=_CASES)
def test_calls_in_a_function(body: str, expected: list[str]) -> None:
    found = projects.resolve({**_PROJECT, "app/Use.kt": _USE % body.replace("; ", "\n        ")}).edges
    assert sorted({f"{one.callee}: {one.rule}" for one in found if one.caller_file == "app/Use.kt"}) == sorted(expected)


def test_java_calls_kotlin() -> None:
    found = projects.resolve(_PROJECT).edges
    assert [f"{one.caller} -> {one.callee}: {one.rule}" for one in found if one.caller_file == "lib/Old.java"] == [
        "Old.old -> Item.Companion.made: import",
        "Old.old -> Item.run: return-type",
        "Old.old -> Item.run: return-type",
        "Old.old -> Single.only: import",
        "Old.old -> Two: constructor",
        "Old.old -> top: import",
    ]


def test_callers_are_named_by_the_outline() -> None:
    source = """\
        open class Base(x: Int)
        class Outer(a: Int) : Base(made(a)) {
            constructor() : this(1) { go() }
            val x = go()
            init { go() }
            fun go() {
                val o = object : Base(2) {
                    fun inner() { go() }
                }
            }
            companion object {
                fun make() = Outer(1)
            }
            fun String.ext() = go()
        }
        fun made(x: Int): Int = x
        val late = made(1)
        """
    assert projects.inside(textwrap.dedent(source), "A.kt") == [
        "17  -> made: local",
        "2 Outer -> Base: constructor",
        "4 Outer -> Outer.go: self",
        "5 Outer -> Outer.go: self",
        "2 Outer -> made: local",
        "12 Outer.Companion.make -> Outer: constructor",
        "3 Outer.constructor -> Outer: constructor",
        "3 Outer.constructor -> Outer.go: self",
        "14 Outer.ext -> Outer.go: self",
        "7 Outer.go -> Base: constructor",
        "8 Outer.go.inner -> Outer.go: local",
    ]


def test_a_named_import_comes_before_the_package() -> None:
    contents = {
        "a/A.kt": "package a\nfun f() {}",
        "b/B.kt": "package b\nfun f() {}",
        "b/Use.kt": "package b\nimport a.f\nfun one() { f() }",
        "b/Two.kt": "package b\nimport a.*\nfun two() { f() }",
    }
    assert projects.edges(contents) == [
        "b/Two.kt:two -> b/B.kt:f: import",
        "b/Use.kt:one -> a/A.kt:f: import",
    ]


def test_a_type_of_several_platforms_is_one() -> None:
    contents = {
        "main/A.kt": "package p\nexpect class A\nfun A.f() {}",
        "jvm/A.kt": "package p\nactual class A {\n    fun g() { f() }\n}",
    }
    assert projects.edges(contents) == ["jvm/A.kt:A.g -> main/A.kt:f: import"]
