"""Each library that is imported is declared in pyproject.toml, and each that is declared is used."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from hack.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
RUNTIME = (*PACKAGES, "operator")
AROUND = ("tests", "hack", "bench", "examples")
# Programs that are run and stubs that are read: distribution -> (file, the text of its use).
RUN = {
    "ruff": ("Makefile", "$(BIN)/ruff check"),
    "mypy": ("Makefile", "$(BIN)/mypy"),
    "import-linter": ("Makefile", "$(BIN)/lint-imports"),
    "pytest-asyncio": ("pyproject.toml", "asyncio_mode"),
    "pytest-xdist": ("Makefile", "pytest -n auto"),
    "mdformat": ("Makefile", "$(BIN)/mdformat --check"),
    "mdformat-gfm": (".mdformat.toml", "[plugin.tables]"),
    "towncrier": ("pyproject.toml", "[tool.towncrier]"),
    "setuptools": ("pyproject.toml", 'build-backend = "setuptools.build_meta"'),
    "types-pyyaml": ("hack/chart/readme.py", "import yaml"),
    "types-protobuf": ("kb/vectors/weaviate/faults.py", "import grpc"),
}
LOADED = ROOT / "codegraph" / "parse" / "grammars.py"
"""Has the names of modules that are imported when they are needed."""


def normal(name: str) -> str:
    """As PyPA's name normalization has it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: Iterable[str]) -> set[str]:
    return {normal(re.match(r"[\w.-]+", requirement)[0]) for requirement in requirements}  # type: ignore[index]


@pytest.fixture(scope="module")
def owners() -> dict[str, str]:
    """Dotted module -> the distribution that installs it; of namespace packages only the modules below."""
    found = {}
    for distribution in metadata.distributions():
        for file in distribution.files or ():
            if file.suffix in (".py", ".so") and ".." not in file.parts:
                parts = [*file.parts[:-1], file.name.split(".")[0]]
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = normal(distribution.name)
    return found


def imported(folders: Iterable[str]) -> Iterator[tuple[str, Path]]:
    """Absolute imports in Python files, anywhere in them: `from a import b` as `a.b`."""
    for folder in folders:
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            # Expressions have no imports, and are most of a file.
            for node in ast.walk(tree) if path == LOADED else _statements(tree):
                if isinstance(node, ast.Import):
                    yield from ((alias.name, path) for alias in node.names)
                elif isinstance(node, ast.Constant) and path == LOADED and str(node.value).startswith("tree_sitter_"):
                    yield str(node.value), path
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    yield from ((f"{node.module}.{alias.name}", path) for alias in node.names)


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield node
            yield from _statements(node)


def used(folders: Iterable[str], owners: dict[str, str]) -> dict[str, Path]:
    """Distributions, each with a file that imports it."""
    ours = {*RUNTIME, *AROUND, "app"}  # the shop of examples/code
    found = {}
    for name, path in imported(folders):
        parts = name.split(".")
        if parts[0] in sys.stdlib_module_names | ours:
            continue
        prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
        found[next((owners[prefix] for prefix in prefixes if prefix in owners), normal(parts[0]))] = path
    return found


def test_runtime_imports_are_runtime_dependencies(owners: dict[str, str]) -> None:
    found = used(RUNTIME, owners)
    wanted = declared(PROJECT["dependencies"])
    # The pod that transcribes has an image of its own.
    more = declared(PROJECT["optional-dependencies"]["transcription"])
    assert {name: str(path) for name, path in found.items() if name not in wanted | more} == {}
    assert wanted - found.keys() == set()


def test_what_tests_and_tools_import_is_declared(owners: dict[str, str]) -> None:
    found = used((*AROUND, "orchestrator_job/transcribe"), owners)
    extras = {extra: declared(names) for extra, names in PROJECT["optional-dependencies"].items()}
    everything = declared(PROJECT["dependencies"]).union(*extras.values())
    assert {name: str(path) for name, path in found.items() if name not in everything} == {}
    run = {name for name, (file, use) in RUN.items() if use in (ROOT / file).read_text()}
    # It is imported when a model of pages is loaded, by names in a table.
    extras.pop("visual")
    assert set().union(*extras.values()) - found.keys() - run == set()
