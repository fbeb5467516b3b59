"""Which packages a lock file pins. Pure.

Read are requirements*.txt (lines with `==`), poetry.lock, uv.lock, package-lock.json, go.sum and Cargo.lock.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

NAMES = ("requirements*.txt", "poetry.lock", "uv.lock", "package-lock.json", "go.sum", "Cargo.lock")
_REQUIREMENTS = re.compile(r"requirements[^/]*\.txt", re.IGNORECASE)
_PINNED = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*===?\s*([A-Za-z0-9][A-Za-z0-9.!+_-]*)")
_MOST = 50_000


class Unreadable(Exception):  # noqa: N818  # what is answered
    """It is not what its name says."""


@dataclass(frozen=True, slots=True)
class Package:
    """A pinned version; `ecosystem` as OSV calls it: PyPI, npm, Go, crates.io. Names of PyPI are normalised."""

    ecosystem: str
    name: str
    version: str


def reader(path: str) -> Callable[[str], list[Package]] | None:
    """How the file at `path` is read, None for another file."""
    name = path.rpartition("/")[2]
    return _requirements if _REQUIREMENTS.fullmatch(name) else _READERS.get(name)


def read(path: str, text: str) -> list[Package]:
    """What it pins, each once. Raises Unreadable."""
    how = reader(path)
    assert how is not None
    try:
        return list(dict.fromkeys(how(text)))[:_MOST]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}"[:200]) from error


def pypi(name: str) -> str:
    """PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements(text: str) -> list[Package]:
    found = (_PINNED.match(line.strip()) for line in text.splitlines())
    return [Package("PyPI", pypi(one[1]), one[2]) for one in found if one is not None]


def _toml(ecosystem: str) -> Callable[[str], list[Package]]:
    def parse(text: str) -> list[Package]:
        packages = tomllib.loads(text).get("package", [])
        named = pypi if ecosystem == "PyPI" else str
        return [Package(ecosystem, named(one["name"]), one["version"]) for one in packages if "version" in one]

    return parse


def _npm(text: str) -> list[Package]:
    lock = json.loads(text)
    found = [
        Package("npm", one.get("name") or path.rpartition("node_modules/")[2], one["version"])
        for path, one in lock.get("packages", {}).items()
        if path and "version" in one and not one.get("link")
    ]
    waiting: list[Mapping[str, Any]] = [lock] if "packages" not in lock else []
    while waiting:  # version 1: dependencies of dependencies
        for name, one in waiting.pop().get("dependencies", {}).items():
            found.append(Package("npm", name, one["version"]))
            waiting.append(one)
    return found


def _go(text: str) -> list[Package]:
    found = [line.split() for line in text.splitlines() if line.strip()]
    if any(len(one) != 3 for one in found):
        raise ValueError("a line has not three words")
    return [
        Package("Go", name, version.removeprefix("v")) for name, version, _ in found if not version.endswith("/go.mod")
    ]


_READERS: Mapping[str, Callable[[str], list[Package]]] = {
    "poetry.lock": _toml("PyPI"),
    "uv.lock": _toml("PyPI"),
    "Cargo.lock": _toml("crates.io"),
    "package-lock.json": _npm,
    "go.sum": _go,
}
