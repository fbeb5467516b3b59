"""Prints how many modules of ours can be imported here: `python tests/hack/imports.py PACKAGE,PACKAGE [NAME ...]`.

Modules of the NAMEs, and below them, are refused as if they were not installed. It needs nothing but the packages, so
that it runs in the image as well.
"""

from __future__ import annotations

import importlib
import pkgutil
import runpy
import sys
from pathlib import Path


class _Refusing:
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if any(f"{name}.".startswith(f"{refused}.") for refused in self._names):
            raise ModuleNotFoundError(f"{name} is refused", name=name)


def main(packages: list[str], refused: list[str]) -> int:
    sys.meta_path.insert(0, _Refusing(refused))  # asked before all others, finds nothing
    count = 0
    for package in packages:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            importlib.import_module(found.name)
            count += 1
    # A file, as kopf takes it: its folder has the name of a module of the standard library.
    runpy.run_path(str(Path(sys.modules["kb"].__file__ or "").parents[1] / "operator" / "main.py"))
    return count


if __name__ == "__main__":
    print(main(sys.argv[1].split(","), sys.argv[2:]))
