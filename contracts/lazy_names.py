"""Names of a package that are imported when they are used first (PEP 562).

A process needs few of the wire models of an API, and each costs its construction. The package's `__init__` imports all
of them `if TYPE_CHECKING`, for type checkers; these imports are the list of what is looked up at run time:

    _names = lazy_names.Names(__name__, __file__)
    if not TYPE_CHECKING:
        __getattr__ = _names.get
"""

from __future__ import annotations

import ast
import functools
import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class Names:
    """The names of `package`, whose `__init__` is `file`."""

    def __init__(self, package: str, file: str) -> None:
        self._package, self._file = package, Path(file)

    @functools.cache  # noqa: B019  # one for each package, as long as the process
    def modules(self) -> Mapping[str, tuple[str, str]]:
        """The names that callers may use, each with its module and its name there."""
        blocks = (node for node in ast.parse(self._file.read_text(encoding="utf-8")).body if isinstance(node, ast.If))
        imports = (node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom))
        return {alias.asname or alias.name: (str(node.module), alias.name) for node in imports for alias in node.names}

    def get(self, name: str) -> Any:
        """What the name stands for, and from now on an attribute of the package."""
        if name.startswith("__") or name not in self.modules():
            raise AttributeError(f"module {self._package!r} has no attribute {name!r}")
        module, inner = self.modules()[name]
        value = getattr(importlib.import_module(module), inner)
        setattr(sys.modules[self._package], name, value)
        return value
