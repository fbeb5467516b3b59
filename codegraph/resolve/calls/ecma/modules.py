"""Which file a module specifier means: relative paths, `tsconfig.json`, packages of the same repository.

Sources: https://www.typescriptlang.org/docs/handbook/modules/reference.html, https://nodejs.org/api/packages.html.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from posixpath import dirname, join, normpath
from typing import Any

_ENDINGS = (".ts", ".tsx", ".d.ts", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_WRITTEN = {".js": (".ts", ".tsx", ".d.ts"), ".jsx": (".tsx",), ".mjs": (".mts", ".d.mts"), ".cjs": (".cts", ".d.cts")}
_STRING_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])')
_COMPILER = re.compile(r"^(?:ts|js)config(?:\.[\w-]+)?\.json$")
_CONDITIONS = ("types", "source", "development", "import", "module", "require", "node", "browser", "default")
_BUILT = frozenset(["build", "cjs", "dist", "es", "esm", "lib", "out", "types"])
_MOST_EXTENDED = 10


class Modules:
    def __init__(self, files: Collection[str], configuration: Mapping[str, bytes]) -> None:
        self._files = files
        self._compilers: dict[str, list[str]] = {}
        self._documents: dict[str, Any] = {}
        self._packages: dict[str, str] = {}
        self._found: dict[tuple[str, str], str | None] = {}
        for path in sorted(configuration):
            name = path.rpartition("/")[2]
            if name == "package.json" or _COMPILER.match(name):
                self._documents[path] = _read(configuration[path])
            if _COMPILER.match(name):
                self._compilers.setdefault(dirname(path), []).append(path)
            elif name == "package.json":
                named = self._documents[path].get("name")
                if isinstance(named, str) and named:
                    self._packages.setdefault(named, dirname(path))
        for paths in self._compilers.values():
            paths.sort(key=lambda one: (one.rpartition("/")[2] not in ("tsconfig.json", "jsconfig.json"), one))

    def find(self, file: str, module: str) -> str | None:
        """The path of the file that `module` means in `file`; none outside of the project."""
        key = (dirname(file), module)
        if key not in self._found:
            self._found[key] = next((one for one in self._candidates(*key) if one), None)
        return self._found[key]

    def _candidates(self, folder: str, module: str) -> Iterator[str | None]:
        if module.startswith("."):
            yield self._file(_joined(folder, module))
            return
        yield from self._mapped(folder, module)
        if module.startswith("#"):
            yield self._own(folder, module)
            return
        parts = module.split("/")
        name = "/".join(parts[: 2 if module.startswith("@") else 1])
        if name in self._packages:
            yield self._of_package(self._packages[name], "/".join(parts[name.count("/") + 1 :]))

    def _file(self, place: str) -> str | None:
        """The file of a path that may lack its ending, name that of the compiled file, or be a folder."""
        if place in self._files:
            return place
        stem, dot, ending = place.rpartition(".")
        for other in _WRITTEN.get(f".{ending}", ()) if dot else ():
            if stem + other in self._files:
                return stem + other
        for ending in _ENDINGS:
            if place + ending in self._files:
                return place + ending
        manifest = self._documents.get(join(place, "package.json"))
        if manifest is not None and (main := manifest.get("main")) and isinstance(main, str):
            found = self._file(_joined(place, main)) if _joined(place, main) != place else None
            if found is not None:
                return found
        return next((one for ending in _ENDINGS if (one := join(place, f"index{ending}")) in self._files), None)

    # tsconfig.json

    def _mapped(self, folder: str, module: str) -> Iterator[str | None]:
        """By `paths` and `baseUrl` of the nearest folders with a configuration of the compiler."""
        while True:
            for path in self._compilers.get(folder, ()):
                base, mapping, origin = self._options(path, 0)
                yield from (self._file(one) for one in _paths(mapping, base if base is not None else origin, module))
                if base is not None:
                    yield self._file(_joined(base, module))
            if not folder:
                return
            folder = dirname(folder)

    def _options(self, path: str, depth: int) -> tuple[str | None, dict[str, Any], str]:
        """`baseUrl`, `paths` and the folder of the file that has them."""
        document = self._documents.get(path)
        if document is None or depth > _MOST_EXTENDED:
            return None, {}, ""
        base: str | None = None
        mapping: dict[str, Any] = {}
        origin = ""
        extended = document.get("extends", ())
        for one in (extended,) if isinstance(extended, str) else extended if isinstance(extended, list) else ():
            if isinstance(one, str) and (target := self._extended(dirname(path), one)):
                above = self._options(target, depth + 1)
                base, mapping, origin = (
                    above[0] if above[0] is not None else base,
                    above[1] or mapping,
                    above[2] or origin,
                )
        options = document.get("compilerOptions")
        if isinstance(options, dict):
            if isinstance(options.get("baseUrl"), str):
                base = _joined(dirname(path), options["baseUrl"])
            if isinstance(options.get("paths"), dict):
                mapping, origin = options["paths"], dirname(path)
        return base, mapping, origin

    def _extended(self, folder: str, written: str) -> str | None:
        if written.startswith("."):
            place = _joined(folder, written)
        else:
            parts = written.split("/")
            name = "/".join(parts[: 2 if written.startswith("@") else 1])
            if name not in self._packages:
                return None
            place = _joined(self._packages[name], "/".join(parts[name.count("/") + 1 :]) or "tsconfig.json")
        return next(
            (one for one in (place, f"{place}.json", join(place, "tsconfig.json")) if one in self._documents), None
        )

    # package.json

    def _own(self, folder: str, module: str) -> str | None:
        while True:
            manifest = self._documents.get(join(folder, "package.json"))
            if manifest is not None:
                imports = manifest.get("imports")
                return self._exported(folder, imports, module) if isinstance(imports, dict) else None
            if not folder:
                return None
            folder = dirname(folder)

    def _of_package(self, folder: str, below: str) -> str | None:
        manifest = self._documents[join(folder, "package.json")]
        exports = manifest.get("exports")
        if exports is not None:
            if not isinstance(exports, dict) or not any(str(one).startswith(".") for one in exports):
                exports = {".": exports}
            found = self._exported(folder, exports, f"./{below}" if below else ".")
            if found is not None:
                return found
        if not below:
            for field in ("source", "types", "typings", "module", "main"):
                value = manifest.get(field)
                if isinstance(value, str) and (found := self._source(folder, value)):
                    return found
        places = (f"src/{below}" if below else "src/index", below or "index")
        return next((one for place in places if (one := self._file(_joined(folder, place)))), None)

    def _exported(self, folder: str, exports: Mapping[str, Any], name: str) -> str | None:
        for target in _paths({key: list(_targets(value)) for key, value in exports.items()}, "", name):
            found = self._source(folder, target)
            if found is not None:
                return found
        return None

    def _source(self, folder: str, target: str) -> str | None:
        """The source of a file that a package names, which may be built from it."""
        found = self._file(_joined(folder, target))
        if found is not None:
            return found
        parts = normpath(target).split("/")
        while parts and parts[0] in _BUILT:
            parts = parts[1:]
        stem = re.sub(r"(?:\.d)?\.[cm]?[jt]sx?$", "", "/".join(parts))
        places = (f"src/{stem}", stem) if stem else ()
        return next((one for place in places if (one := self._file(_joined(folder, place)))), None)


def _joined(folder: str, below: str) -> str:
    found = normpath(join(folder, below.lstrip("/") or "."))
    return "" if found == "." else found


def _paths(mapping: Mapping[str, Any], base: str, name: str) -> Iterator[str]:
    """What a name is mapped to: an exact key first, then the pattern with the longest part before its `*`."""
    keys = [key for key in mapping if key == name]
    patterns = [key for key in mapping if key.count("*") == 1 and _fits(key, name)]
    for key in keys + sorted(patterns, key=lambda one: -len(one.partition("*")[0])):
        before, star, after = key.partition("*")
        middle = name[len(before) : len(name) - len(after)] if star else ""
        for target in mapping[key] if isinstance(mapping[key], list) else ():
            if isinstance(target, str):
                yield _joined(base, target.replace("*", middle))


def _fits(key: str, name: str) -> bool:
    before, _, after = key.partition("*")
    return name.startswith(before) and name.endswith(after) and len(name) >= len(before) + len(after)


def _targets(value: Any, depth: int = 0) -> Iterator[str]:
    """The targets of an entry of `exports`, sources and types first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and depth < _MOST_EXTENDED:
        for one in value:
            yield from _targets(one, depth + 1)
    elif isinstance(value, dict) and depth < _MOST_EXTENDED:
        for key in sorted(value, key=lambda one: _CONDITIONS.index(one) if one in _CONDITIONS else -1):
            yield from _targets(value[key], depth + 1)


def _read(content: bytes) -> dict[str, Any]:
    """JSON that may have comments and commas before a closing bracket; empty where it is none."""
    text = content.decode("utf-8-sig", errors="replace")
    text = _STRING_OR_COMMENT.sub(lambda found: found.group() if found.group()[0] == '"' else " ", text)
    text = _STRING_OR_COMMA.sub(lambda found: found.group() if found.group()[0] == '"' else "", text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
