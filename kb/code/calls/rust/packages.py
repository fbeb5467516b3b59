"""Packages of `Cargo.toml` files: names, the files of their crates, and which of them a name in a source means.

Source: https://doc.rust-lang.org/cargo/reference/cargo-targets.html, specifying-dependencies.html
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from posixpath import basename, dirname, join, normpath
from typing import Any

_TABLES = ("dependencies", "dev-dependencies", "build-dependencies")
_FOLDERS = ("tests", "benches", "examples", "src/bin")


@dataclass(slots=True)
class Package:
    """`roots` are files that crates begin with, the library first. `crates` are names of crates in sources with the
    files that they begin with, `outside` names of those that are not of the project."""

    directory: str
    name: str
    library: str = ""
    library_name: str = ""
    roots: list[str] = field(default_factory=list)
    crates: dict[str, str] = field(default_factory=dict)
    outside: set[str] = field(default_factory=set)


def read(configuration: Mapping[str, bytes], files: Collection[str]) -> list[Package]:
    """The packages, in the order of their paths."""
    said: dict[str, dict[str, Any]] = {}
    for path in sorted(configuration):
        if basename(path) == "Cargo.toml":
            try:
                said[dirname(path)] = tomllib.loads(configuration[path].decode(errors="replace"))
            except (tomllib.TOMLDecodeError, RecursionError):
                continue
    packages = {
        directory: found
        for directory, document in said.items()
        if (found := _package(directory, document, files)) is not None
    }
    shared = {
        directory: _table(_table(document.get("workspace")).get("dependencies")) for directory, document in said.items()
    }
    for directory, package in packages.items():
        document = said[directory]
        tables = [_table(document.get(name)) for name in _TABLES]
        for target in _table(document.get("target")).values():
            tables += [_table(_table(target).get(name)) for name in _TABLES]
        for table in tables:
            for name, wanted in table.items():
                _dependency(package, name, wanted, packages, shared)
        if package.library:
            package.crates.setdefault(package.library_name, package.library)
    return list(packages.values())


def _package(directory: str, document: dict[str, Any], files: Collection[str]) -> Package | None:
    name = _table(document.get("package")).get("name")
    if not isinstance(name, str):
        return None
    library = _table(document.get("lib"))
    found = Package(directory, name)
    found.library = _below(directory, library.get("path"), "src/lib.rs")
    said = library.get("name")
    found.library_name = said if isinstance(said, str) else name.replace("-", "_")
    if found.library not in files:
        found.library = ""
    wanted = [found.library, _below(directory, None, "src/main.rs"), _below(directory, None, "build.rs")]
    for kind in ("bin", "example", "test", "bench"):
        targets = document.get(kind)
        for target in targets if isinstance(targets, list) else ():
            wanted.append(_below(directory, _table(target).get("path"), ""))
    prefix = f"{directory}/" if directory else ""
    for path in sorted(files):
        if not path.startswith(prefix):
            continue
        below = path[len(prefix) :]
        for folder in _FOLDERS:
            rest = below.removeprefix(f"{folder}/")
            if rest != below and (rest.count("/") == 0 or (rest.count("/") == 1 and rest.endswith("/main.rs"))):
                wanted.append(path)
    found.roots = [path for path in dict.fromkeys(wanted) if path in files]
    return found


def _dependency(
    package: Package, name: str, wanted: object, packages: dict[str, Package], shared: dict[str, dict[str, Any]]
) -> None:
    alias, base = name.replace("-", "_"), package.directory
    table = _table(wanted)
    if table.get("workspace") is True:
        around = next((at for at in _around(base) if name in shared.get(at, {})), None)
        if around is not None:
            table, base = _table(shared[around][name]), around
    path = table.get("path")
    target = packages.get(_below(base, path, "")) if isinstance(path, str) else None
    if target is not None and target.library:
        plain = target.library_name if "package" not in table else alias
        package.crates.setdefault(plain, target.library)
    else:
        package.outside.add(alias)


def _around(directory: str) -> list[str]:
    found = [directory]
    while directory:
        directory = dirname(directory)
        found.append(directory)
    return found


def _below(directory: str, path: object, otherwise: str) -> str:
    whole = normpath(join(directory, path if isinstance(path, str) else otherwise))
    return "" if whole == "." else whole


def _table(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}
