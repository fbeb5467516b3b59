"""Beside the parsers of Python and Go: every declaration and import of real trees, with its name and line."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from codegraph.parse import extraction

Row = tuple[str, str, int]
GO = Path(__file__).parent / "reference" / "main.go"


def f1(ours: set[Row], theirs: set[Row]) -> float:
    return 2 * len(ours & theirs) / (len(ours) + len(theirs))


def rows(path: Path, language: str) -> set[Row]:
    facts = extraction.extract(str(path), path.read_bytes(), language)
    found = {(one.kind, one.qname, one.line) for one in facts.symbols}
    return found | {("import", one.module, one.line) for one in facts.imports}


def declared(node: ast.AST, around: str = "", *, in_class: bool = False) -> Iterator[Row]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{around}.{child.name}" if around else child.name
            is_class = isinstance(child, ast.ClassDef)
            yield "class" if is_class else "method" if in_class else "function", name, child.lineno
            yield from declared(child, name, in_class=is_class)
            continue
        if isinstance(child, ast.Import):
            yield from (("import", alias.name, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield "import", "." * child.level + (child.module or ""), child.lineno
        yield from declared(child, around, in_class=in_class)


def test_python_beside_ast() -> None:
    folder = Path(sysconfig.get_path("stdlib"))
    paths = sorted(
        [*(folder / "asyncio").glob("*.py"), *(folder / "test").glob("test_[a-d]*.py"), *folder.glob("*.py")]
    )
    ours, theirs = set[Row](), set[Row]()
    for path in paths[::10]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
        theirs |= {(kind, f"{path}:{name}", line) for kind, name, line in declared(tree)}
        ours |= {(kind, f"{path}:{name}", line) for kind, name, line in rows(path, "python")}
    assert len(theirs) > 2_000
    assert f1(ours, theirs) >= 0.999


@pytest.mark.skipif(not shutil.which("go"), reason="no Go toolchain")
def test_go_beside_its_own_parser(tmp_path: Path) -> None:
    root = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
    paths = sorted(path for name in ("net", "go", "sort", "sync") for path in (Path(root) / "src" / name).rglob("*.go"))
    paths = [path for path in paths if "testdata" not in path.parts][::5]
    program = tmp_path / "reference"
    subprocess.run(["go", "build", "-o", program, GO], check=True)
    done = subprocess.run([program], input="\n".join(map(str, paths)), check=True, capture_output=True, text=True)
    ours, theirs = set[Row](), set[Row]()
    for path, line in zip(paths, done.stdout.splitlines(), strict=True):
        theirs |= {(kind, f"{path}:{name}", at) for kind, name, at in json.loads(line) or ()}
        ours |= {(kind, f"{path}:{name}", at) for kind, name, at in rows(path, "go")}
    assert len(theirs) > 500
    assert f1(ours, theirs) >= 0.999
