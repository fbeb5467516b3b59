"""Random trees of six languages and random edits of them, the same for one seed. Pure.

Names are few, so that edits collide: two files declare one class, a moved file is found by another's import, a renamed
one takes the place of a deleted one. Sources import, extend, override and call across files; some are broken.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

FOLDERS, NAMES = ("core", "lib", "app"), ("one", "two", "ten")
_CLASSES, _METHODS, _FUNCTIONS = ("Shape", "Round", "Square"), ("area", "run", "stop"), ("work", "done", "side")
_ODD = (
    "",
    "\ufeff// caf\u00e9 \u4e2d\n",
    "x = '\0'\n",
    "def (:\n class {{{ <<<<<<< HEAD\n",
    "\r\n\r\nclass Late { }\r\n",
    "a" * 6000 + "\n",
)


@dataclass(frozen=True)
class Unit:
    """What a source says: a class with its base, its methods and what each calls, a function and what it calls.

    `base` and `beside` are (folder, name of the file) that it imports, `form` the way of an import or of a call.
    """

    kind: str
    folder: str
    cls: str
    extends: str
    base: tuple[str, str]
    beside: tuple[str, str]
    methods: tuple[tuple[str, int], ...]
    function: str
    calls: int
    form: int


@dataclass(frozen=True)
class File:
    """A text, and the unit that it was made of; none for odd texts and project files."""

    text: str
    unit: Unit | None = None


Tree = dict[str, File]
Places = Mapping[str, str]
_PLACES: Places = {
    "py": "py/{folder}/{name}.py",
    "go": "go/{folder}/{name}.go",
    "ts": "web/packages/{folder}/src/{name}.ts",
    "tsx": "web/packages/{folder}/src/{name}.tsx",
    "java": "jvm/src/main/java/{folder}/{name}.java",
    "kt": "jvm/src/main/kotlin/{folder}/{name}.kt",
    "rs": "rs/src/{folder}/{name}.rs",
}
KINDS = tuple(_PLACES)


def unit(kind: str, folder: str, chance: random.Random) -> Unit:
    """A unit by chance."""
    some = chance.sample(_METHODS, chance.randint(0, 3))
    return Unit(
        kind,
        folder,
        chance.choice(_CLASSES),
        chance.choice(_CLASSES),
        (chance.choice(FOLDERS), chance.choice(NAMES)),
        (chance.choice(FOLDERS), chance.choice(NAMES)),
        tuple((one, chance.randrange(5)) for one in some),
        chance.choice(_FUNCTIONS),
        chance.randrange(5),
        chance.randrange(3),
    )


def text(one: Unit) -> str:
    """The source of a unit."""
    return _RENDER[one.kind](one)


def _python(one: Unit) -> str:
    base, beside = ".".join(one.base), ".".join(one.beside)
    imports = (
        f"from {base} import {one.extends} as Base\nimport {beside} as beside\n",
        f"from ..{base} import {one.extends} as Base\nfrom ..{one.beside[0]} import {one.beside[1]} as beside\n",
        f"from {base} import *\nfrom {base} import {one.extends} as Base\nfrom {beside} import *\nimport {beside}\n",
    )[one.form]

    def said(number: int) -> str:
        return ("Base().area()", "self.run()", f"beside.{one.function}()", f"{one.cls}().stop()", "super().area()")[
            number
        ]

    methods = "".join(f"    def {name}(self):\n        return {said(number)}\n" for name, number in one.methods)
    body = methods or "    pass\n"
    return f"{imports}\nclass {one.cls}(Base):\n{body}\ndef {one.function}():\n    return {said(one.calls)}\n"


def _go(one: Unit) -> str:
    path = ("acme.org/shop", "acme.org/shop", "example.com/other")[one.form]
    base, beside = one.base[0], one.beside[0]
    wanted = [f'import "{path}/{folder}"\n' for folder in dict.fromkeys((base, beside)) if folder != one.folder]
    of = "" if base == one.folder else f"{base}."
    function = one.function.title()

    def said(number: int) -> str:
        call = (
            "x.Area()",
            "x.Run()",
            f"{'' if beside == one.folder else f'{beside}.'}{function}()",
            "d.Stop()",
            "y.Area()",
        )
        return call[number]

    methods = "".join(
        f"func (x *{one.cls}) {name.title()}() {{ var d Doer; var y {of}{one.extends}; {said(number)}; _, _ = d, y }}\n"
        for name, number in one.methods
    )
    return (
        f"package {one.folder}\n\n{''.join(wanted)}\ntype Doer interface {{ Stop() }}\n"
        f"type {one.cls} struct {{ {of}{one.extends} }}\n{methods}"
        f"func {function}() {{\n\tvar x {one.cls}; var d Doer; var y {of}{one.extends}\n"
        f"\t{said(one.calls)}; _, _ = d, y\n}}\n"
    )


def _typescript(one: Unit) -> str:
    folder, name = one.base
    module = (f"@acme/{folder}", f"@/{folder}/{name}", f"../../{folder}/src/{name}.js")[one.form]
    other = f"../../{one.beside[0]}/src/{one.beside[1]}"

    def said(number: int) -> str:
        return ("new Base().area()", "this.run()", f"{one.function}Other()", f"new {one.cls}().stop()", "super.area()")[
            number
        ]

    methods = "".join(f"  {name}(): unknown {{ return {said(number)}; }}\n" for name, number in one.methods)
    view = (
        f"export const View = () => <{one.cls}Tag />;\nfunction {one.cls}Tag() {{ return null; }}\n"
        if one.kind == "tsx"
        else ""
    )
    return (
        f'import {{ {one.extends} as Base }} from "{module}";\n'
        f'import {{ {one.function} as {one.function}Other }} from "{other}";\n'
        f'export * from "{other}";\n'
        f"export class {one.cls} extends Base {{\n{methods}}}\n"
        f"export function {one.function}(): unknown {{ return {said(one.calls % 4)}; }}\n{view}"
    )


def _java(one: Unit) -> str:
    base = one.base[0]
    imports = (f"import {base}.{one.extends};\n", f"import {base}.*;\n", "")[one.form]

    def said(number: int) -> str:
        return (
            f"new {one.extends}().area();",
            "run();",
            f"{one.function}();",
            f"new {one.cls}().stop();",
            "super.area();",
        )[number]

    methods = "".join(f"  public void {name}() {{ {said(number)} }}\n" for name, number in one.methods)
    return (
        f"package {one.folder};\n{imports}\npublic class {one.cls} extends {one.extends} {{\n{methods}"
        f"  static void {one.function}() {{ {said(one.calls % 4)} }}\n}}\n"
    )


def _kotlin(one: Unit) -> str:
    base = one.base[0]
    imports = (f"import {base}.{one.extends}\n", f"import {base}.*\n", "")[one.form]

    def said(number: int) -> str:
        return (f"{one.extends}().area()", "run()", f"{one.function}()", f"{one.cls}().stop()", "super.area()")[number]

    methods = "".join(f"    override fun {name}() {{ {said(number)} }}\n" for name, number in one.methods)
    return (
        f"package {one.folder}\n{imports}\nopen class {one.cls} : {one.extends}() {{\n{methods}}}\n"
        f"fun {one.function}() {{ {said(one.calls % 4)} }}\n"
    )


def _rust(one: Unit) -> str:
    folder, name = one.base
    methods = "".join(f"    pub fn {method}(&self) {{ {one.function}(); }}\n" for method, _ in one.methods)
    return (
        f"use crate::{folder}::{name}::{{self, {one.extends}}};\n\npub struct {one.cls};\n\n"
        f"impl {one.extends} for {one.cls} {{\n{methods}}}\n\npub fn {one.function}() {{}}\n"
    )


_RENDER: Mapping[str, Callable[[Unit], str]] = {
    "py": _python,
    "go": _go,
    "ts": _typescript,
    "tsx": _typescript,
    "java": _java,
    "kt": _kotlin,
    "rs": _rust,
}


def settings(chance: random.Random) -> Tree:
    """The project files by chance."""
    found = {
        "go/go.mod": f"module {chance.choice(['acme.org/shop', 'example.com/other'])}\n",
        "rs/Cargo.toml": f'[package]\nname = "{chance.choice(NAMES)}"\n',
        "py/pyproject.toml": f'[tool.setuptools.package-dir]\n"" = "{chance.choice(["", "core"])}"\n',
        "web/package.json": '{"private": true, "workspaces": ["packages/*"]}',
        "web/tsconfig.json": chance.choice(
            (
                '{"compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["packages/*"]}}}',
                '{"compilerOptions": {"paths": {"@/core/*": ["./packages/core/src/*"], "@/*": ["./packages/*/src"]}}}',
                '{"extends": "./packages/lib/tsconfig.json"}',
                "{ broken",
            )
        ),
        "web/packages/lib/tsconfig.json": '{"compilerOptions": {"paths": {"@/*/one": ["../*/src/one.ts"]}}}',
    }
    for folder in FOLDERS:
        name, main = chance.choice((f"@acme/{folder}", "@acme/core", "plain")), chance.choice(NAMES)
        found[f"web/packages/{folder}/package.json"] = f'{{"name": "{name}", "main": "dist/{main}.js"}}'
    return {path: File(body) for path, body in found.items()}


def tree(chance: random.Random) -> Tree:
    """A tree by chance: some two of three places of two or three languages, and the project files."""
    found = settings(chance)
    for kind in chance.sample(KINDS, 3):
        for folder in FOLDERS:
            for name in NAMES:
                if chance.random() < 0.6:
                    made = unit(kind, folder, chance)
                    found[_place(kind, folder, name)] = File(text(made), made)
    return found


def _place(kind: str, folder: str, name: str) -> str:
    return _PLACES[kind].format(folder=folder, name=name)


def _sources(files: Tree) -> list[str]:
    return sorted(path for path, file in files.items() if file.unit is not None)


def edited(files: Tree, former: list[Tree], chance: random.Random) -> tuple[str, Tree]:
    """(what was done, the tree after it). `former` are trees of this branch before, the oldest first."""
    name = chance.choice(tuple(EDITS))
    after = EDITS[name](dict(files), former, chance)
    return name, after


def _edit(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    for path in chance.sample(_sources(files), min(1, len(_sources(files)))):
        before = files[path].unit
        assert before is not None
        made = unit(before.kind, before.folder, chance)
        files[path] = File(text(made), made)
    return files


def _revert(files: Tree, former: list[Tree], chance: random.Random) -> Tree:
    before = chance.choice(former) if former else files
    path = chance.choice(sorted(files.keys() | before.keys()))
    if path in before:
        files[path] = before[path]
    else:
        del files[path]
    return files


def _rename(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    path = chance.choice(sorted(files))
    folder, name = path.rpartition("/")[::2]
    stem, dot, ending = name.partition(".")
    other = chance.choice((*NAMES, stem.title(), stem.upper(), "o d'd \u00e9\"")) if files[path].unit else stem
    files[f"{folder}/{other}{dot}{ending}"] = files.pop(path)
    return files


def _delete(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    if len(files) > 1:
        del files[chance.choice(sorted(files))]
    return files


def _add(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    kind, folder = chance.choice(KINDS), chance.choice(FOLDERS)
    made = unit(kind, folder, chance)
    files[_place(kind, folder, chance.choice(NAMES))] = File(text(made), made)
    return files


def _move(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    """A folder with all that is in it, to another one, a new one, or one level up."""
    folders = sorted({path.rpartition("/")[0] for path in files if path.count("/") > 1})
    if not folders:
        return files
    old = chance.choice(folders)
    new = chance.choice([*folders, f"{old}/deep", old.rpartition("/")[0]])
    return {new + path.removeprefix(old) if path.startswith(f"{old}/") else path: file for path, file in files.items()}


def _imported(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    """What a file that others import declares: its class, or its function, is called otherwise."""
    wanted = {file.unit.base for file in files.values() if file.unit is not None}
    found = [path for path in _sources(files) if any(all(part in path for part in one) for one in wanted)]
    for path in chance.sample(found, min(1, len(found))):
        before = files[path].unit
        assert before is not None
        made = replace(before, cls=chance.choice(_CLASSES), function=chance.choice(_FUNCTIONS))
        files[path] = File(text(made), made)
    return files


def _override(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    """A method moves from one class to another one of its language: to a subclass, to the base, to a stranger."""
    having = [path for path in _sources(files) if (one := files[path].unit) is not None and one.methods]
    if not having:
        return files
    path = chance.choice(having)
    giver = files[path].unit
    assert giver is not None
    moved, *rest = giver.methods
    made = replace(giver, methods=tuple(rest))
    files[path] = File(text(made), made)
    takers = [other for other in _sources(files) if (one := files[other].unit) is not None and one.kind == giver.kind]
    other = chance.choice(takers)
    taker = files[other].unit
    assert taker is not None
    made = replace(taker, methods=(moved, *(one for one in taker.methods if one[0] != moved[0])))
    files[other] = File(text(made), made)
    return files


def _configure(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    made = settings(chance)
    for path in chance.sample(sorted(made), chance.randint(1, 3)):
        files[path] = made[path]
    return files


def _odd(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    files[chance.choice(sorted(files))] = File(chance.choice(_ODD))
    return files


def _swap(files: Tree, _: list[Tree], chance: random.Random) -> Tree:
    one, other = chance.choice(sorted(files)), chance.choice(sorted(files))
    files[one], files[other] = files[other], files[one]
    return files


def _forced(files: Tree, former: list[Tree], chance: random.Random) -> Tree:
    return dict(chance.choice(former)) if former else files


EDITS: Mapping[str, Callable[[Tree, list[Tree], random.Random], Tree]] = {
    "edit": _edit,
    "revert": _revert,
    "rename": _rename,
    "delete": _delete,
    "add": _add,
    "move a folder": _move,
    "change of an imported file": _imported,
    "override moved": _override,
    "project files": _configure,
    "odd text": _odd,
    "swap": _swap,
    "forced push": _forced,
}
