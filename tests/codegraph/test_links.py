"""Imports and base types lead to files and classes of the same project, and to nothing where a name is ambiguous."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.codegraph import projects

PYTHON = {
    "src/app/__init__.py": "",
    "src/app/shape.py": "class Shape:\n    class Inner:\n        pass\n",
    "src/app/square.py": "from .shape import Shape\nfrom . import shape\nimport json\n\n"
    "class Square(Shape):\n    pass\n\nclass Other(shape.Shape.Inner, json.JSONEncoder):\n    pass\n",
}
JAVA = {
    "a/src/main/java/org/acme/Shape.java": "package org.acme;\npublic class Shape<T> { static class Inner {} }\n",
    "b/src/main/java/org/acme/Round.java": "package org.acme;\nclass Round extends Shape<String> {}\n",
    "b/src/main/java/org/shop/Square.java": "package org.shop;\nimport org.acme.Shape;\n"
    "class Square extends Shape<String> implements Runnable { class Part extends Shape.Inner {} }\n",
}
KOTLIN = {
    "Shape.kt": "package org.acme\nopen class Shape\n",
    "Square.kt": "package org.shop\nimport org.acme.Shape\nclass Square : Shape()\n",
}
ECMA = {
    "src/shape.ts": "export class Shape {}\n",
    "src/square.ts": 'import { Shape as Base } from "./shape.js";\nexport class Square extends Base {}\n',
    "src/lib/index.js": "export class Part {}\n",
    "src/view.jsx": 'import { Part } from "./lib";\nclass View extends Part {}\n'
    "class Other extends React.Component {}\n",
}
WORKSPACE = {
    "package.json": '{"private": true, "workspaces": ["packages/*"]}',
    "pnpm-workspace.yaml": "packages:\n  - packages/*\n",
    "tsconfig.json": '{"compilerOptions": {"paths": {"@/*": ["./app/*"]}}}',
    "packages/shape/package.json": '{"name": "@acme/shape", "exports": {".": "./dist/index.js", "./*": "./src/*.ts"}}',
    "packages/shape/src/index.ts": "export class Shape {}\n",
    "packages/shape/src/round.ts": "export class Round {}\n",
    "packages/plain/package.json": '{"name": "plain", "main": "lib/main.js"}',
    "packages/plain/src/main.ts": "export class Plain {}\n",
    "app/view.tsx": "export class View {}\n",
    "app/square.ts": 'import { Shape } from "@acme/shape";\nimport { Round as Base } from "@acme/shape/round";\n'
    'import { Plain } from "plain";\nimport { View } from "@/view";\nimport { Absent } from "react";\n'
    "class Square extends Shape {}\nclass Ring extends Base {}\nclass Other extends Plain {}\n"
    "class Page extends View {}\n",
}
GO = {
    "go.mod": "module acme.org/shop\n",
    "main.go": 'package main\n\nimport "acme.org/shop/shape"\n\nfunc main() { shape.Draw() }\n',
    "shape/shape.go": "package shape\n\nfunc Draw() {}\n",
    "shape/shape_test.go": "package shape\n",
}


def extends(sources: Mapping[str, str]) -> set[str]:
    found = projects.project(sources).extends
    return {f"{one.path}:{one.qname} {base.path}:{base.qname}" for one, bases in found.items() for base in bases}


def imports(sources: Mapping[str, str]) -> set[str]:
    found = projects.project(sources).imports
    return {f"{path} {one.path}:{one.qname}" for path, targets in found.items() for one, _ in targets}


@pytest.mark.parametrize(
    ("sources", "bases", "brought"),
    [
        (
            PYTHON,
            {
                "src/app/square.py:Square src/app/shape.py:Shape",
                "src/app/square.py:Other src/app/shape.py:Shape.Inner",
            },
            {"src/app/square.py src/app/shape.py:Shape", "src/app/square.py src/app/shape.py:"},
        ),
        (
            JAVA,
            {
                "b/src/main/java/org/acme/Round.java:Round a/src/main/java/org/acme/Shape.java:Shape",
                "b/src/main/java/org/shop/Square.java:Square a/src/main/java/org/acme/Shape.java:Shape",
                "b/src/main/java/org/shop/Square.java:Square.Part a/src/main/java/org/acme/Shape.java:Shape.Inner",
            },
            {"b/src/main/java/org/shop/Square.java a/src/main/java/org/acme/Shape.java:Shape"},
        ),
        (KOTLIN, {"Square.kt:Square Shape.kt:Shape"}, {"Square.kt Shape.kt:Shape"}),
        (
            ECMA,
            {"src/square.ts:Square src/shape.ts:Shape", "src/view.jsx:View src/lib/index.js:Part"},
            {"src/square.ts src/shape.ts:Shape", "src/view.jsx src/lib/index.js:Part"},
        ),
        (
            WORKSPACE,
            {
                "app/square.ts:Square packages/shape/src/index.ts:Shape",
                "app/square.ts:Ring packages/shape/src/round.ts:Round",
                "app/square.ts:Other packages/plain/src/main.ts:Plain",
                "app/square.ts:Page app/view.tsx:View",
            },
            {
                "app/square.ts packages/shape/src/index.ts:Shape",
                "app/square.ts packages/shape/src/round.ts:Round",
                "app/square.ts packages/plain/src/main.ts:Plain",
                "app/square.ts app/view.tsx:View",
            },
        ),
        (GO, set(), {"main.go shape/shape.go:"}),
    ],
    ids=["python", "java", "kotlin", "ecmascript", "workspace", "go"],
)
def test_what_a_project_declares_is_found(sources: Mapping[str, str], bases: set[str], brought: set[str]) -> None:
    assert extends(sources) == bases
    assert imports(sources) == brought


def test_a_name_that_two_files_declare_means_neither() -> None:
    twice = JAVA | {"c/org/acme/Shape.java": "package org.acme;\nclass Shape {}\n"}
    assert extends(twice) == set()


def test_the_order_of_the_files_does_not_matter() -> None:
    assert projects.project(PYTHON) == projects.project(dict(reversed(PYTHON.items())))
