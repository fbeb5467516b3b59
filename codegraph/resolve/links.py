"""What imports and base types lead to, by names alone: files and classes of the same project. Pure.

A name that could mean two things means neither. What lies outside of the project stays as written.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from posixpath import dirname, join, normpath
from typing import TypeVar

from codegraph.parse.facts import FileFacts, Import
from codegraph.resolve import keys
from codegraph.resolve.calls.ecma import modules
from codegraph.resolve.project import Target

_One = TypeVar("_One")
_JVM = frozenset({"java", "kotlin", "scala"})
_ECMA = frozenset({"javascript", "typescript", "tsx"})
_GENERIC = re.compile(r"[<(\[].*", re.DOTALL)
_IMPORT_CHARS = 1000
"""Of a module that is looked for; each of its packages is."""
_MODULE = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)


class Links:
    """Of the files of one project by path; `configuration` has the texts of its project files by path."""

    def __init__(self, files: Mapping[str, FileFacts], configuration: Mapping[str, bytes]) -> None:
        self._modules: dict[str, list[str]] = defaultdict(list)
        self._classes: dict[tuple[str, str], list[Target]] = defaultdict(list)
        """(package or module, name of a class at its top) -> where it is declared."""
        self._declared = {
            Target(path, one.qname) for path, file in files.items() for one in file.symbols if one.kind == "class"
        }
        self._folders: dict[str, list[str]] = defaultdict(list)
        for path, file in files.items():
            self._modules[keys.module(file)].append(path)
            self._folders[dirname(path)].append(path)
            for one in file.symbols:
                if one.kind == "class" and not one.container:
                    self._classes[self._package(file), one.name].append(Target(path, one.qname))
        # The packages of a workspace, paths of compilers: what calls are resolved by.
        self._ecma = modules.Modules({path for path, file in files.items() if file.language in _ECMA}, configuration)
        self._go = sorted(
            (
                (match[1].strip('"'), dirname(path))
                for path, body in configuration.items()
                if path.rpartition("/")[2] == "go.mod" and (match := _MODULE.search(body.decode(errors="replace")))
            ),
            key=lambda one: -len(one[0]),
        )

    def imports(self, file: FileFacts) -> tuple[tuple[Target, int], ...]:
        """What a file imports of the project, with the lines, each target once."""
        found: dict[Target, int] = {}
        for one in file.imports:
            for target in self._imported(file, one):
                if target.path != file.path:
                    found.setdefault(target, one.line)
        return tuple(found.items())

    def extends(self, file: FileFacts) -> Iterator[tuple[Target, tuple[Target, ...]]]:
        """The classes of a file with those of their bases that the project declares."""
        brought = self._brought(file)
        own = {one.qname: Target(file.path, one.qname) for one in file.symbols if one.kind == "class"}
        for one in file.symbols:
            if one.kind != "class" or not one.bases:
                continue
            bases = dict.fromkeys(
                filter(None, (self._base(file, base, one.container, own, brought) for base in one.bases))
            )
            found = tuple(base for base in bases if base != own[one.qname])
            if found:
                yield own[one.qname], found

    def _base(
        self, file: FileFacts, written: str, around: str, own: Mapping[str, Target], brought: Mapping[str, Target]
    ) -> Target | None:
        name = _GENERIC.sub("", written).replace("::", ".").strip().lstrip("*&")
        while True:
            inside = f"{around}.{name}" if around else name
            if inside in own:
                return own[inside]
            if not around:
                break
            around = around.rpartition(".")[0]
        head, _, rest = name.partition(".")
        target = brought.get(head)
        if target is not None:
            return self._within(target, rest)
        if not rest:
            return _single(self._classes.get((self._package(file), name), ()))
        package, _, last = name.rpartition(".")
        return _single(self._classes.get((package, last), ()))

    def _within(self, target: Target, rest: str) -> Target | None:
        """The class `rest` of a class or of a file."""
        qname = ".".join(part for part in (target.qname, rest) if part)
        found = Target(target.path, qname)
        return found if found in self._declared else None

    def _brought(self, file: FileFacts) -> dict[str, Target]:
        """Local name -> the class or the file that an import brings under it."""
        found: dict[str, Target] = {}
        for one in file.imports:
            for imported, local in one.names:
                for target in self._imported(file, Import(one.module, one.line, ((imported, local),))):
                    found.setdefault(local, target)
            if not one.names:
                for target in self._imported(file, one):
                    found.setdefault(one.module.rpartition("/")[2].rpartition(".")[2], target)
        return found

    def _imported(self, file: FileFacts, one: Import) -> Iterator[Target]:
        if len(one.module) > _IMPORT_CHARS:
            return
        if file.language == "python":
            yield from self._of_python(file, one)
        elif file.language in _JVM:
            yield from self._of_jvm(one)
        elif file.language in _ECMA:
            yield from self._of_ecma(file, one)
        elif file.language == "go":
            yield from self._of_go(one)

    def _of_python(self, file: FileFacts, one: Import) -> Iterator[Target]:
        dots = len(one.module) - len(one.module.lstrip("."))
        module = one.module.lstrip(".")
        if dots:
            package = (
                keys.module(file).split(".") if file.path.endswith("__init__.py") else keys.module(file).split(".")[:-1]
            )
            around = package[: len(package) - dots + 1] if dots > 1 else package
            module = ".".join([*around, *([module] if module else [])])
        path = _single(self._modules.get(module, ()))
        names = [name for name, _ in one.names]
        for name in names:
            inner = _single(self._modules.get(f"{module}.{name}" if module else name, ()))
            declared = self._within(Target(path), name) if path is not None else None
            if declared is not None:
                yield declared
            elif inner is not None:
                yield Target(inner)
            elif path is not None:
                yield Target(path)
        if not names and path is not None:
            yield Target(path)

    def _of_jvm(self, one: Import) -> Iterator[Target]:
        written = one.module.removesuffix(".*")
        package, _, name = written.rpartition(".")
        while package:
            target = _single(self._classes.get((package, name.partition(".")[0]), ()))
            if target is not None:
                yield self._within(Target(target.path), name) or target
                return
            package, _, more = package.rpartition(".")
            name = f"{more}.{name}"

    def _of_ecma(self, file: FileFacts, one: Import) -> Iterator[Target]:
        path = self._ecma.find(file.path, one.module)
        if path is not None:
            targets = {each for name, _ in one.names if (each := self._within(Target(path), name))}
            yield from sorted(targets) or [Target(path)]

    def _of_go(self, one: Import) -> Iterator[Target]:
        for name, folder in self._go:
            if one.module == name or one.module.startswith(f"{name}/"):
                place = (
                    normpath(join(folder, one.module.removeprefix(name).lstrip("/"))) if one.module != name else folder
                )
                paths = [path for path in self._folders.get(place.removeprefix("./"), ()) if path.endswith(".go")]
                yield from (Target(path) for path in sorted(paths) if not path.endswith("_test.go"))
                return

    def _package(self, file: FileFacts) -> str:
        return dirname(file.path) if file.language == "go" else keys.module(file)


def _single(found: Sequence[_One]) -> _One | None:
    return found[0] if len(found) == 1 else None
