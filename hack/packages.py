"""The packages of the product, as pyproject.toml lists them for a wheel: one list for tools and tests."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def names(document: dict[str, Any]) -> tuple[str, ...]:
    """The top-level packages of a pyproject.toml, in its order."""
    include: list[str] = document["tool"]["setuptools"]["packages"]["find"]["include"]
    return tuple(pattern.removesuffix("*") for pattern in include)


PACKAGES = names(tomllib.loads(PYPROJECT.read_text(encoding="utf-8")))
