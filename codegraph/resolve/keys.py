"""What a declaration of a branch is called in the graph: qualified names, and the keys of seed 001. Pure.

A qualified name is the package, or the module of the path (`src/app/user.py` is `app.user`), and the names around the
declaration in its file. Where two files of a branch say the same name of a class or of a function, each has its path
before it, so that no two declarations meet in one node; overloads of one class do.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

from codegraph.parse.facts import FileFacts, Symbol
from contracts import repository_keys

_PACKAGED = frozenset({"java", "kotlin", "scala"})
_ROOTS = re.compile(r"^(?:src|lib)/")
_ENDING = re.compile(r"(?:\.d)?\.[^./]+$")


def module(file: FileFacts) -> str:
    """The package that a file declares, or the dotted path of its module."""
    if file.language in _PACKAGED:
        return file.package
    path = _ENDING.sub("", _ROOTS.sub("", file.path) if file.language == "python" else file.path)
    if file.language == "python":
        path = re.sub(r"(?:^|/)__init__$", "", path)
    elif file.language == "go":
        path = path.rpartition("/")[0]
    return path.replace("/", ".")


class Keys:
    """Of one branch of a project."""

    def __init__(self, files: Mapping[str, FileFacts], branch: str, project_id: str) -> None:
        self._branch, self._project = branch, project_id
        self._modules = {path: module(file) for path, file in files.items()}
        said: dict[str, set[str]] = defaultdict(set)
        for path, file in files.items():
            for one in file.symbols:
                if not one.container or one.kind == "class":
                    said[_dotted(self._modules[path], one.qname)].add(path)
        self._twice = frozenset(name for name, paths in said.items() if len(paths) > 1)
        # Nested declarations go with the one around them.
        self._symbols = {(path, one.qname): one for path, file in files.items() for one in file.symbols}

    def qualified(self, path: str, qname: str) -> str:
        """The qualified name of a declaration; of the file's module for ''."""
        whole, around = _dotted(self._modules[path], qname), qname
        while around:
            if _dotted(self._modules[path], around) in self._twice:
                return f"{path}:{qname}"
            around = around.rpartition(".")[0]
        return whole

    def of(self, path: str, qname: str) -> str:
        """The key of a declaration, or of the file for '' and for a name that it does not declare."""
        one = self._symbols.get((path, qname))
        return self.file(path) if one is None else self.symbol(path, one)

    def symbol(self, path: str, one: Symbol) -> str:
        """The key of a declaration."""
        if one.kind == "class":
            return repository_keys.class_(self.qualified(path, one.qname), self._branch, self._project)
        container = self.qualified(path, one.qname.removesuffix(one.name).removesuffix("."))
        if self.qualified(path, one.qname).startswith(f"{path}:"):
            container = container if container.startswith(f"{path}:") else f"{path}:{container}"
        return repository_keys.method(container, one.name, self._branch, self._project)

    def file(self, path: str) -> str:
        """The key of a file."""
        return repository_keys.file(path, self._branch, self._project)


def _dotted(*parts: str) -> str:
    return ".".join(part for part in parts if part)
