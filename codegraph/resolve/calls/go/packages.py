"""Packages of a Go project: which directory an import path means, and what each package declares.

Source: https://go.dev/ref/mod (module, replace, workspaces), https://go.dev/ref/spec#Packages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from posixpath import dirname, normpath

from codegraph.resolve.calls.go.constraints import constraint
from codegraph.resolve.calls.go.facts import Expression, Function, GoFacts

Key = tuple[str, str]
"""A package: its directory and its name; a directory may also have `name_test`."""
_MODULE = re.compile(r"^\s*module\s+\"?([^\s\"]+)", re.MULTILINE)
_REPLACE = re.compile(r"^\s*(?:replace\s+)?\"?([^\s\"]+)\"?(?:\s+v\S+)?\s*=>\s*\"?(\.[^\s\"]*)", re.MULTILINE)
_VERSION = re.compile(r"v\d+")


class Packages:
    def __init__(self, files: Mapping[str, GoFacts], configuration: Mapping[str, bytes]) -> None:
        self._files = files
        self._modules = _modules(configuration)
        self.functions: dict[Key, dict[str, list[tuple[str, Function]]]] = {}
        self.methods: dict[Key, dict[str, dict[str, list[tuple[str, Function]]]]] = {}
        self.types: dict[Key, dict[str, list[str]]] = {}
        self.values: dict[Key, dict[str, list[str]]] = {}
        self._names: dict[str, str] = {}
        self.constraints = {path: constraint(path, facts.build) for path, facts in files.items()}
        for path, facts in files.items():
            self._add(path, facts)
        self._imports: dict[str, dict[str, Key | str]] = {}

    def key(self, path: str) -> Key:
        return dirname(path), self._files[path].package

    def _add(self, path: str, facts: GoFacts) -> None:
        key = self.key(path)
        for function in facts.functions:
            if function.receiver:
                named = self.methods.setdefault(key, {}).setdefault(function.receiver, {})
                named.setdefault(function.name, []).append((path, function))
            else:
                self.functions.setdefault(key, {}).setdefault(function.name, []).append((path, function))
        for name in facts.types:
            self.types.setdefault(key, {}).setdefault(name, []).append(path)
        for name in facts.values:
            self.values.setdefault(key, {}).setdefault(name, []).append(path)
        is_first = key[0] not in self._names
        is_usual = self.constraints[path][1] and not path.endswith("_test.go")
        if not facts.package.endswith("_test") and (is_first or is_usual):
            self._names[key[0]] = facts.package

    def imports(self, path: str) -> dict[str, Key | str]:
        """Local name -> package of the project, or the import path of another; '.' names are in `dots`."""
        if path not in self._imports:
            found: dict[str, Key | str] = {}
            for alias, written in self._files[path].imports:
                target = self.find(written)
                if alias in ("_", "."):
                    continue
                if alias:
                    found[alias] = target or written
                elif target is not None:
                    found[target[1]] = target
                else:
                    for name in _guesses(written):
                        found.setdefault(name, written)
            self._imports[path] = found
        return self._imports[path]

    def dots(self, path: str) -> list[Key]:
        """The packages of the project that a file imports with `.`."""
        found = (self.find(written) for alias, written in self._files[path].imports if alias == ".")
        return [key for key in found if key is not None]

    def find(self, written: str) -> Key | None:
        """The package of the project that an import path means."""
        for module, directory in self._modules:
            if written == module or written.startswith(module + "/"):
                rest = written[len(module) + 1 :]
                path = f"{directory}/{rest}".strip("/")
                if path in self._names:
                    return path, self._names[path]
        return None

    def choose(self, found: list[tuple[str, Function]], caller: str) -> tuple[str, Function]:
        """Of declarations under several build constraints: that of the caller's, or of a plain build."""
        return found[0] if len(found) == 1 else found[self._best([path for path, _ in found], caller)]

    def choose_file(self, found: list[str], caller: str) -> str:
        return found[0] if len(found) == 1 else found[self._best(found, caller)]

    def _best(self, paths: list[str], caller: str) -> int:
        wanted = self.constraints[caller][0]
        for index, path in enumerate(paths):
            if wanted and self.constraints[path][0] == wanted:
                return index
        for index, path in enumerate(paths):
            if self.constraints[path][1]:
                return index
        return 0

    def type_of(self, key: Key, name: str, caller: str) -> tuple[str, tuple[int, ...], Expression] | None:
        """The file, type parameters and definition of a type."""
        found = self.types.get(key, {}).get(name)
        if not found:
            return None
        path = self.choose_file(found, caller)
        return (path, *self._files[path].types[name])


def _modules(configuration: Mapping[str, bytes]) -> list[tuple[str, str]]:
    """Module paths with their directories, the longest first; `replace` by a directory adds one."""
    found: dict[str, str] = {}
    replaced: dict[str, str] = {}
    for path, content in sorted(configuration.items()):
        if path.rpartition("/")[2] != "go.mod":
            continue
        text = re.sub(r"//.*", "", content.decode(errors="replace"))
        directory = dirname(path)
        if name := _MODULE.search(text):
            found.setdefault(name[1], directory)
        for module, target in _REPLACE.findall(text):
            joined = normpath(f"{directory}/{target}") if directory else normpath(target)
            if not joined.startswith(".."):
                replaced.setdefault(module, "" if joined == "." else joined)
    return sorted({**replaced, **found}.items(), key=lambda item: (-len(item[0]), item[0]))


def _guesses(written: str) -> list[str]:
    """What a package outside of the project may be called."""
    parts = written.split("/")
    last = parts[-1]
    if _VERSION.fullmatch(last) and len(parts) > 1:
        last = parts[-2]
    last = re.sub(r"\.v\d+$", "", last)
    names = [last, last.removeprefix("go-"), last.removesuffix("-go"), last.replace("-", "_"), last.replace("-", "")]
    return list(dict.fromkeys([*names, last.rpartition("-")[2], last.partition(".")[0]]))
