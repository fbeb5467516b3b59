"""Which file an import of a Python project means: packages, namespace packages, src layouts, relative imports."""

from __future__ import annotations

import collections
import sys
from collections.abc import Collection, Iterable
from posixpath import dirname

_LAYOUTS = ("src", "lib", "python")
_PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")


class Modules:
    """The modules of a project, by path: a file, or a directory that ends with `/` for a namespace package."""

    def __init__(self, files: Collection[str], configuration: Collection[str]) -> None:
        self._files = frozenset(files)
        self._directories = {""}
        for path in sorted(files):
            while (path := dirname(path)) not in self._directories:
                self._directories.add(path)
        self._roots = self._search_path(configuration)
        self._found: dict[tuple[str, str], str | None] = {}
        self._own: dict[str, tuple[str, ...]] = {}
        self.root_package = ""

    def name_root(self, imports: Iterable[str]) -> None:
        """Where the project's root is a package itself, its name is what most absolute imports of its modules say."""
        if not self._is_package(""):
            return
        counts: collections.Counter[str] = collections.Counter()
        for module in imports:
            top, _, rest = module.partition(".")
            if rest and self._in("", top) is None and self._below("", rest) is not None:
                counts[top] += 1
        self.root_package = min(counts, key=lambda name: (-counts[name], name), default="")

    def package(self, path: str) -> str:
        """The directory of the package that a module belongs to, or is."""
        return path[:-1] if path.endswith("/") else dirname(path)

    def child(self, module: str, name: str) -> str | None:
        """The submodule `name` of a package."""
        if module.endswith("/") or module.rpartition("/")[2] in ("__init__.py", "__init__.pyi"):
            return self._in(self.package(module), name)
        return None

    def find(self, path: str, module: str, level: int) -> str | None:
        """The file that the import of `module` in the file `path` means; none for one outside of the project.

        `level` is the number of leading dots.
        """
        if level:
            directory = dirname(path)
            for _ in range(level - 1):
                directory = dirname(directory)
            return self._below(directory, module) if module else self._of(directory)
        key = (dirname(path), module)
        if key not in self._found:
            self._found[key] = self._absolute(key[0], module)
        return self._found[key]

    def _absolute(self, directory: str, module: str) -> str | None:
        top = module.split(".")[0]
        for root in self._near(directory):
            first = self._in(root, top)
            if first is not None and not (first.endswith("/") and root == "" and top in _LAYOUTS):
                found = self._below(root, module)
                if found is not None and not (found.endswith("/") and self._elsewhere(root, module, directory)):
                    return found
        if self.root_package == top and self._of("") is not None:
            return self._below("", module.partition(".")[2]) if "." in module else self._of("")
        if top not in sys.stdlib_module_names and directory and not self._is_package(directory):
            return self._below(directory, module)  # a script's own directory
        return None

    def _elsewhere(self, root: str, module: str, directory: str) -> bool:
        """Whether another root has a file for what is a bare directory in this one."""
        found = (self._below(other, module) for other in self._near(directory) if other != root)
        return any(path is not None and not path.endswith("/") for path in found)

    def _near(self, directory: str) -> tuple[str, ...]:
        """The roots, those around the importing file first."""
        if directory not in self._own:
            around = [root for root in self._roots if not root or f"{directory}/".startswith(f"{root}/")]
            others = [root for root in self._roots if root not in around]
            self._own[directory] = (*sorted(around, key=len, reverse=True), *others)
        return self._own[directory]

    def _below(self, directory: str, module: str) -> str | None:
        parts = module.split(".")
        for part in parts[:-1]:
            directory = f"{directory}/{part}" if directory else part
            if directory not in self._directories:
                return None
        return self._in(directory, parts[-1])

    def _in(self, directory: str, name: str) -> str | None:
        path = f"{directory}/{name}" if directory else name
        if path in self._directories and (found := self._of(path)) is not None and not found.endswith("/"):
            return found
        for ending in (".py", ".pyi"):
            if path + ending in self._files:
                return path + ending
        return path + "/" if path in self._directories and name else None

    def _of(self, directory: str) -> str | None:
        for name in ("__init__.py", "__init__.pyi"):
            path = f"{directory}/{name}" if directory else name
            if path in self._files:
                return path
        return directory + "/" if directory and directory in self._directories else None

    def _is_package(self, directory: str) -> bool:
        found = self._of(directory)
        return found is not None and not found.endswith("/")

    def _search_path(self, configuration: Collection[str]) -> tuple[str, ...]:
        roots = {""}
        for directory in self._directories:
            if directory and self._is_package(directory) and not self._is_package(dirname(directory)):
                roots.add(dirname(directory))
        for path in configuration:
            if path.rpartition("/")[2] in _PROJECTS:
                roots.add(dirname(path))
        for root in list(roots):
            for name in _LAYOUTS[:1]:
                below = f"{root}/{name}" if root else name
                if below in self._directories and not self._is_package(below):
                    roots.add(below)
        return tuple(sorted(roots, key=lambda root: (root.count("/") if root else -1, root)))
