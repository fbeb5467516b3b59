"""Calls of TypeScript and JavaScript inside of a file: scopes, classes, types, objects, callbacks."""

from __future__ import annotations

import pytest

from codegraph.resolve import calls
from tests.codegraph.calls import projects

_HEAD = """\
class Base { m(): Base { return this; } static s() {} inner = new Inner(); }
class Inner { n() {} get other(): Inner { return this; } }
class Outer extends Base {
  list: Inner[]; byName: Map<string, Inner>; one?: Doer; f = () => this.m();
  constructor(private own: Inner) { super(); }
}
interface Doer { do(): Inner; later: () => Inner }
interface Wider extends Doer { more(): void }
class Box<T> { value: T; get(): T { return this.value } }
function make(): Outer { return null! }
const arrow = () => new Inner();
async function soon(): Promise<Inner> { return arrow() }
function same<T>(x: T): T { return x }
function isInner(x: unknown): x is Inner { return true }
function each(f: (x: Inner) => void) {}
type Alias = Outer;
enum Kind { One }
const tools = { run() {}, go: () => tools.run(), deep: { dig() {} } };
namespace Space { export function inside() {} export class Thing { t() {} } }
"""
_CASES = {
    "function": ("function x() { make() }", "x -> make: local"),
    "arrow function of a name": ("function x() { arrow() }", "x -> arrow: local"),
    "hoisted": ("function x() { y(); function y() {} }", "x -> x.y: local"),
    "shadowed": ("function x(make: any) { make() }", ""),
    "shadowed in a block": ("function x() { { const make = 1; } make() }", "x -> make: local"),
    "bare name": ("function x() { fetch(); missing() }", ""),
    "constructor": ("function x() { new Inner() }", "x -> Inner: constructor"),
    "super constructor": ("class X extends Base { constructor() { super() } }", "X.constructor -> Base: constructor"),
    "method of a new value": (
        "function x() { const b = new Base(); b.m() }",
        "x -> Base: constructor, x -> Base.m: return-type",
    ),
    "annotated parameter": ("function x(b: Base) { b.m() }", "x -> Base.m: annotation"),
    "annotated variable": ("function x() { let b: Base; b.m() }", "x -> Base.m: annotation"),
    "optional chain": ("function x(b?: Base) { b?.m()?.m() }", "x -> Base.m: annotation, x -> Base.m: return-type"),
    "inherited": ("function x(o: Outer) { o.m() }", "x -> Base.m: annotation"),
    "this": ("class X { a() { this.b() } b() {} }", "X.a -> X.b: self"),
    "this of a parent": ("class X extends Base { a() { this.m() } }", "X.a -> Base.m: inherited"),
    "super method": ("class X extends Base { m() { return super.m() } }", "X.m -> Base.m: inherited"),
    "this in a callback": ("class X { a() { [1].map(() => this.b()) } b() {} }", "X.a -> X.b: self"),
    "static": ("function x() { Base.s() }", "x -> Base.s: local"),
    "static this": ("class X { static a() { this.b() } static b() {} }", "X.a -> X.b: self"),
    "field": ("function x(b: Base) { b.inner.n() }", "x -> Inner.n: attribute-type"),
    "parameter property": (
        "class X { constructor(private i: Inner) {} a() { this.i.n() } }",
        "X.a -> Inner.n: attribute-type",
    ),
    "field of a function": ("function x(o: Outer) { o.f() }", "x -> Outer.f: annotation"),
    "getter": ("function x(i: Inner) { i.other.n() }", "x -> Inner.n: attribute-type"),
    "private name": ("class X { #p() {} a() { this.#p() } }", "X.a -> X.#p: self"),
    "result": ("function x() { make().m() }", "x -> Base.m: return-type, x -> make: local"),
    "result without annotation": ("function x() { arrow().n() }", "x -> Inner.n: return-type, x -> arrow: local"),
    "await": ("async function x() { (await soon()).n() }", "x -> Inner.n: return-type, x -> soon: local"),
    "then": ("function x() { soon().then(i => i.n()) }", "x -> Inner.n: annotation, x -> soon: local"),
    "element": ("function x(o: Outer) { o.list[0].n() }", "x -> Inner.n: return-type"),
    "iteration": ("function x(o: Outer) { for (const i of o.list) i.n() }", "x -> Inner.n: return-type"),
    "callback of an array": ("function x(o: Outer) { o.list.forEach(i => i.n()) }", "x -> Inner.n: annotation"),
    "map": ("function x(o: Outer) { o.byName.get(`a`)!.n() }", "x -> Inner.n: return-type"),
    "interface": ("function x(d: Doer) { d.do().n() }", "x -> Doer.do: interface, x -> Inner.n: return-type"),
    "wider interface": ("function x(d: Wider) { d.do() }", "x -> Doer.do: interface"),
    "property with a function type": ("function x(d: Doer) { d.later().n() }", "x -> Inner.n: return-type"),
    "generic class": (
        "function x(b: Box<Inner>) { b.get().n() }",
        "x -> Box.get: annotation, x -> Inner.n: return-type",
    ),
    "generic function": ("function x(i: Inner) { same(i).n() }", "x -> Inner.n: return-type, x -> same: local"),
    "constraint": ("function x<T extends Inner>(i: T) { i.n() }", "x -> Inner.n: annotation"),
    "alias": ("function x(a: Alias) { a.m() }", "x -> Base.m: annotation"),
    "union": ("function x(a: Base | null) { a!.m() }", "x -> Base.m: annotation"),
    "cast": ("function x(a: any) { (a as Inner).n() }", "x -> Inner.n: return-type"),
    "instanceof": ("function x(a: any) { if (a instanceof Inner) a.n() }", "x -> Inner.n: return-type"),
    "type predicate": ("function x(a: any) { isInner(a) && a.n() }", "x -> Inner.n: return-type, x -> isInner: local"),
    "wanted type of a callback": ("function x() { each(i => i.n()) }", "x -> Inner.n: annotation, x -> each: local"),
    "destructured parameter": ("function x({ inner }: Base) { inner.n() }", "x -> Inner.n: return-type"),
    "destructured value": ("function x(b: Base) { const { inner: { n } } = b; n() }", "x -> Inner.n: return-type"),
    "either": ("function x(a?: Base) { (a ?? make()).m() }", "x -> Base.m: return-type, x -> make: local"),
    "object": ("function x() { tools.run(); tools.deep.dig() }", "x -> dig: attribute-type, x -> run: local"),
    "wanted type of this": ("const d: Doer = { do() { return this.do() } }", "do -> Doer.do: self"),
    "namespace": (
        "function x(t: Space.Thing) { Space.inside(); t.t() }",
        "x -> Space.Thing.t: annotation, x -> Space.inside: local",
    ),
    "tagged template": ("function x() { arrow`a` }", "x -> arrow: local"),
    "enum": ("function x() { Kind.One }", ""),
    "overloads": ("function x(): void; function x(a: 1): void; function x(a?: any) {} x()", "-> x: local"),
    "class without a name": ("const X = class { a() { this.b() } b() {} }", "X.a -> X.b: self"),
    "called in place": ("const x = function y() {}()", "-> y: local"),
    "code of the module": ("make()", "-> make: local"),
    "decorator": ("function d() { return (x: any) => x } class X { @d() a() {} }", "X -> d: local"),
}


@pytest.mark.parametrize(("source", "expected"), _CASES.values(), ids=_CASES)
def test_a_call_inside_of_a_file(source: str, expected: str) -> None:
    assert ", ".join(projects.below(_HEAD, source, "a.ts")) == expected


def test_components_are_called_where_they_are_used() -> None:
    source = """\
        const Item = (props: {}) => <li/>;
        class List { Head() { return null } render() { return <Item a={f()}><b/></Item> } }
        function f() { return <List/> }
        """
    assert projects.inside(source, "a.tsx") == [
        "2 List.render -> Item: local",
        "2 List.render -> f: local",
        "3 f -> List: constructor",
    ]


def test_functions_of_old_javascript_are_classes_and_hold_members() -> None:
    source = """\
        function Route(path) { this.stack = new Stack(); }
        Route.prototype.all = function all() { this.each(); this.stack.push(); };
        Route.prototype.each = function () {};
        Route.of = function () { return new Route(); };
        function Stack() {}
        Stack.prototype = { push: function () { this.pop(); }, pop() {} };
        var app = {};
        app.set = function () { Route.of().each(); };
        app.get = function () { this.set(); };
        """
    assert projects.inside(source, "a.js") == [
        "1 Route -> Stack: constructor",
        "2 Route.all -> Route.each: self",
        "2 Route.all -> push: attribute-type",
        "9 get -> set: self",
        "4 of -> Route: constructor",
        "6 push -> pop: self",
        "8 set -> Route.each: return-type",
        "8 set -> of: local",
    ]


def test_what_stays_a_name_says_so() -> None:
    found = projects.resolve({"a.ts": "function f(cb: () => void) { cb(); console.log(1) }"})
    assert not found.edges
    assert [(one.caller, one.name, one.line) for one in found.unresolved] == [("f", "cb", 1), ("f", "console.log", 1)]


def test_types_that_lead_to_themselves_end() -> None:
    source = """\
        type A = B; type B = A; class C extends D {} class D extends C { m() { this.x() } }
        interface E<T> extends E<E<T>> { e(): E<E<T>> }
        const a = b, b = a; const f = () => g(), g = () => f();
        function x(e: E<number>, c: C, y: A) { e.e().e().e().e().e().e(); c.nothing(); a.b(); f().c(); y.z() }
        """
    found = {f"{one.caller} -> {one.callee}" for one in projects.resolve({"a.ts": source}).edges}
    assert found == {"f -> g", "g -> f", "x -> f", "x -> E.e"}


def test_the_rules_are_known() -> None:
    assert {one.confidence for one in projects.resolve({"a.ts": _HEAD}).edges} <= {1.0, 0.98, 0.97, 0.95}
    assert calls.LANGUAGES["tsx"] == calls.LANGUAGES["javascript"] == "ecma"


def test_comments_of_javascript_give_types() -> None:
    contents = {
        "k.js": """\
        /** @typedef {{ deep: K }} Options */
        class K { /** @returns {this} */ m() { return this; } }
        module.exports = K;
        """,
        "a.js": """\
        /** @typedef {import("./k")} K */
        /**
         * @import Second, { Options } from "./k"
         * @import * as all from "./k"
         */
        /**
         * @typedef {object} Held
         * @property {Second} one first
         * @property {all.Options} [two] second
         */
        /**
         * @callback Visit
         * @param {Held} held what
         * @returns {K} it
         */
        /**
         * @param {K} k one
         * @param {Options=} options more
         * @param {...K} rest all
         * @returns {Promise<K>} it
         */
        const f = async (k, options, ...rest) => { k.m(); options.deep.m(); rest[0].m(); };
        async function g() { (await f()).m(); }
        class A { constructor() { /** @type {K | undefined} */ this.k = undefined; } a() { this.k.m(); } }
        const Required = require("./k");
        /**
         * @template T
         * @param {T} x one
         * @returns {T} same
         */
        function same(x) { return x; }
        /** @param {Required} r one */
        function l(r) { same(r).m(); }
        /** @param {Visit} v one */
        function i(v) { v().m(); }
        /** @type {Visit} */
        const j = (held) => { held.one.m(); held.two.deep.m(); };
        function h(x) { /** @type {K} */ (x).m(); /** @type {K} */ const y = x; y.m(); }
        """,
    }
    found = projects.resolve(contents).edges
    assert sorted({f"{one.line} {one.caller} -> {one.callee}" for one in found}) == [
        "22 f -> K.m",
        "23 g -> K.m",
        "23 g -> f",
        "24 A.a -> K.m",
        "33 l -> K.m",
        "33 l -> same",
        "35 i -> K.m",
        "37 j -> K.m",
        "38 h -> K.m",
    ]


def test_many_ways_to_one_ancestor_are_searched_once() -> None:
    wide = [f"interface I{at} extends I{at - 1}, I{max(at - 2, 0)}, I{max(at - 3, 0)} {{}}" for at in range(1, 50)]
    source = "interface I0 { a(): void }\n" + "\n".join(wide) + "\nfunction f(x: I49) { x.b(); x.a() }"
    assert projects.inside(source, "a.ts") == ["51 f -> I0.a: interface"]
