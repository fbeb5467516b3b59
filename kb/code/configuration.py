"""Files that say how a project is put together: modules, workspaces, roots. They are read where names are resolved."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kb.code import calls

_NAMES = frozenset(
    {"go.mod", "go.work", "package.json", "pnpm-workspace.yaml", "jsconfig.json", "pyproject.toml", "setup.cfg"}
    | {"Cargo.toml", "settings.gradle", "settings.gradle.kts", "pom.xml"}
)
_COMPILER = re.compile(r"^tsconfig(?:\.[\w-]+)?\.json$")


@dataclass(frozen=True, slots=True)
class File:
    """One of them."""

    path: str
    content: bytes


def is_one(path: str) -> bool:
    """Whether a path is that of such a file."""
    name = path.rpartition("/")[2]
    return name in _NAMES or _COMPILER.match(name) is not None or calls.is_configuration(path)
