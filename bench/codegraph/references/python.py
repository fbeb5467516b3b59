"""Python by `ast`: `python python.py FOLDER < paths`."""

from __future__ import annotations

import ast
import json
import sys
import warnings
from pathlib import Path


def declarations(source: bytes) -> list[tuple[str, str, int]]:
    """(kind, qualified name, line of the name). Raises SyntaxError or ValueError."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    found: list[tuple[str, str, int]] = []

    def walk(node: ast.AST, names: tuple[str, ...], in_class: bool) -> None:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.ClassDef():
                    inner = (*names, child.name)
                    found.append(("class", ".".join(inner), child.lineno))
                    walk(child, inner, True)
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    inner = (*names, child.name)
                    found.append(("method" if in_class else "function", ".".join(inner), child.lineno))
                    walk(child, inner, False)
                case ast.Import():
                    found.extend(("import", one.name, one.lineno) for one in child.names)
                case ast.ImportFrom():
                    found.append(("import", "." * child.level + (child.module or ""), child.lineno))
                case _:
                    walk(child, names, in_class)

    walk(tree, (), False)
    return found


def main() -> None:
    """Prints one JSON document."""
    root, files, rejected = Path(sys.argv[1]), {}, {}
    sys.setrecursionlimit(20_000)
    for path in sys.stdin.read().splitlines():
        try:
            files[path] = declarations((root / path).read_bytes())
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            rejected[path] = str(error)
    json.dump({"files": files, "rejected": rejected}, sys.stdout)


if __name__ == "__main__":
    main()
