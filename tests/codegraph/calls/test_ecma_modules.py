"""Which module an import of TypeScript or JavaScript means, and what it exports."""

from __future__ import annotations

import pytest

from codegraph.resolve import calls
from tests.codegraph.calls import projects

_A = "export function f() {}\nexport default class K { m() {} }\nexport const g = () => {};"
_CASES: dict[str, tuple[dict[str, str], str]] = {
    "named": ({"a.ts": _A, "b.ts": "import { f, g as h } from './a'; f(); h()"}, "a.ts:f, a.ts:g"),
    "default": ({"a.ts": _A, "b.ts": "import K from './a'; new K().m()"}, "a.ts:K, a.ts:K.m"),
    "namespace": ({"a.ts": _A, "b.ts": "import * as a from './a'; a.f(); new a.default()"}, "a.ts:K, a.ts:f"),
    "type only": ({"a.ts": _A, "b.ts": "import type K from './a'; (x: K) => x.m()"}, "a.ts:K.m"),
    "type of a namespace": (
        {"a.ts": _A + "export interface I { i(): void }", "b.ts": "import * as a from './a'; (x: a.I) => x.i()"},
        "a.ts:I.i",
    ),
    "import type expression": (
        {"a.ts": "export class K { m() {} }", "b.ts": "let k: import('./a').K; k.m()"},
        "a.ts:K.m",
    ),
    "dynamic": ({"a.ts": _A, "b.ts": "const { f } = await import('./a'); f()"}, "a.ts:f"),
    "star": ({"a.ts": _A, "c.ts": "export * from './a'", "b.ts": "import { f } from './c'; f()"}, "a.ts:f"),
    "star as": ({"a.ts": _A, "c.ts": "export * as q from './a'", "b.ts": "import { q } from './c'; q.f()"}, "a.ts:f"),
    "renamed": (
        {
            "a.ts": _A,
            "c.ts": "export { f as z, default } from './a'",
            "b.ts": "import D, { z } from './c'; z(); new D()",
        },
        "a.ts:K, a.ts:f",
    ),
    "local export": ({"a.ts": "function p() {} export { p as q }", "b.ts": "import { q } from './a'; q()"}, "a.ts:p"),
    "imported and exported": (
        {"a.ts": _A, "c.ts": "import { f } from './a'; export { f }", "b.ts": "import { f } from './c'; f()"},
        "a.ts:f",
    ),
    "circle": (
        {
            "a.ts": "export * from './c'",
            "c.ts": "export * from './a'; export function f() {}",
            "b.ts": "import { f } from './a'; f()",
        },
        "c.ts:f",
    ),
    "default without a name": (
        {"a.ts": "export default function () {}", "b.ts": "import x from './a'; x()"},
        "a.ts:default",
    ),
    "default of a name": (
        {"a.ts": "const x = () => {}; export default x", "b.ts": "import y from './a'; y()"},
        "a.ts:x",
    ),
    "inheritance": ({"a.ts": _A, "b.ts": "import K from './a'; class L extends K { n() { this.m() } }"}, "a.ts:K.m"),
    "object of a module": ({"a.ts": "export const o = { m() {} }", "b.ts": "import { o } from './a'; o.m()"}, "a.ts:m"),
    "javascript name": ({"a.ts": _A, "b.ts": "import { f } from './a.js'; f()"}, "a.ts:f"),
    "index": ({"a/index.tsx": _A, "b.ts": "import { f } from './a'; f()"}, "a/index.tsx:f"),
    "parent folder": ({"index.ts": _A, "x/b.ts": "import { f } from '..'; f()"}, "index.ts:f"),
    "outside": ({"a.ts": _A, "b.ts": "import { f } from 'a'; f()"}, ""),
    "exports": ({"a.js": "exports.f = function () {}", "b.js": "const { f } = require('./a'); f()"}, "a.js:f"),
    "exports of a name": (
        {"a.js": "function f() {} exports.g = f", "b.js": "const a = require('./a'); a.g()"},
        "a.js:f",
    ),
    "module.exports object": (
        {"a.js": "function f() {} module.exports = { f, g() {} }", "b.js": "const a = require('./a'); a.f(); a.g()"},
        "a.js:f, a.js:g",
    ),
    "module.exports class": (
        {"a.js": "class K { m() {} } module.exports = K", "b.js": "const K = require('./a'); new K().m()"},
        "a.js:K, a.js:K.m",
    ),
    "module.exports with more": (
        {
            "a.js": "function f() {} module.exports = f; module.exports.g = function () {}",
            "b.js": "const f = require('./a'); f(); f.g()",
        },
        "a.js:f, a.js:g",
    ),
    "required in place": ({"a.js": "exports.f = () => {}", "b.js": "require('./a').f()"}, "a.js:f"),
    "default of CommonJS": (
        {"a.js": "module.exports = { f() {} }", "b.mjs": "import a, { f } from './a.js'; a.f(); f()"},
        "a.js:f",
    ),
    "export =": (
        {"a.ts": "class K { m() {} } export = K", "b.ts": "import K = require('./a'); new K().m()"},
        "a.ts:K, a.ts:K.m",
    ),
    "languages together": ({"a.js": "export const C = () => null", "b.tsx": "import { C } from './a'; <C/>"}, "a.js:C"),
    "paths": (
        {
            "src/lib/a.ts": _A,
            "b.ts": "import { f } from '@lib/a'; f()",
            "tsconfig.json": '{ // a\n"compilerOptions": { "paths": { "@lib/*": ["./src/lib/*", ], }, /* b */ } }',
        },
        "src/lib/a.ts:f",
    ),
    "base": (
        {
            "src/a.ts": _A,
            "src/x/b.ts": "import { f } from 'a'; f()",
            "tsconfig.json": '{"compilerOptions": {"baseUrl": "src"}}',
        },
        "src/a.ts:f",
    ),
    "extended": (
        {
            "src/a.ts": _A,
            "app/b.ts": "import { f } from '~/a'; f()",
            "app/tsconfig.json": '{"extends": "../tsconfig.base.json"}',
            "tsconfig.base.json": '{"compilerOptions": {"baseUrl": ".", "paths": {"~/*": ["src/*"]}}}',
        },
        "src/a.ts:f",
    ),
    "extended in a circle": (
        {"a.ts": _A, "b.ts": "import { f } from 'x'; f()", "tsconfig.json": '{"extends": "./tsconfig.json"}'},
        "",
    ),
    "workspace": (
        {
            "packages/a/src/index.ts": _A,
            "app/b.ts": "import { f } from '@s/a'; f()",
            "packages/a/package.json": '{"name": "@s/a", "main": "dist/index.js"}',
        },
        "packages/a/src/index.ts:f",
    ),
    "workspace without an entry": (
        {"p/a/index.ts": _A, "b.ts": "import { f } from 'a'; f()", "p/a/package.json": '{"name": "a"}'},
        "p/a/index.ts:f",
    ),
    "workspace exports": (
        {
            "p/src/x/one.ts": _A,
            "b.ts": "import { f } from 'p/x/one'; f()",
            "p/package.json": '{"name": "p", "exports": {".": "./no.js", "./x/*": {"types": "./dist/x/*.d.ts"}}}',
        },
        "p/src/x/one.ts:f",
    ),
    "below a workspace": (
        {"p/src/x.ts": _A, "b.ts": "import { f } from 'p/x'; f()", "p/package.json": '{"name": "p"}'},
        "p/src/x.ts:f",
    ),
    "own imports": (
        {
            "src/a.ts": _A,
            "src/b.ts": "import { f } from '#a'; f()",
            "package.json": '{"imports": {"#*": "./src/*.ts"}}',
        },
        "src/a.ts:f",
    ),
    "broken configuration": (
        {"a.ts": _A, "b.ts": "import { f } from './a'; f()", "package.json": "[", "tsconfig.json": "[1]"},
        "a.ts:f",
    ),
}


@pytest.mark.parametrize(("contents", "expected"), _CASES.values(), ids=_CASES)
def test_an_import(contents: dict[str, str], expected: str) -> None:
    found = projects.resolve(contents).edges
    caller = next(path for path in contents if path.rpartition("/")[2].startswith("b."))
    assert ", ".join(f"{one.callee_file}:{one.callee}" for one in found if one.caller_file == caller) == expected


def test_an_import_has_its_rule() -> None:
    contents = {"a.ts": _A, "b.ts": "import K, { f } from './a'; import * as a from './a'; f(); a.g(); new K()"}
    assert projects.edges(contents) == [
        "b.ts: -> a.ts:K: constructor",
        "b.ts: -> a.ts:f: import",
        "b.ts: -> a.ts:g: import",
    ]


def test_the_order_of_files_changes_nothing() -> None:
    contents = _CASES["circle"][0]
    facts = projects.facts(contents)
    assert calls.resolve(facts) == calls.resolve(dict(reversed(facts.items())))


def test_configuration_of_the_compiler_and_of_packages_is_wanted() -> None:
    wanted = ["a/tsconfig.json", "tsconfig.base.json", "jsconfig.json", "package.json"]
    assert [one for one in [*wanted, "tsconfig.ts", "x.json"] if calls.is_configuration(one)] == wanted
