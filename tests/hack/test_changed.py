"""Which tests a change can break: what is found without running anything, against what Python imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from hack import changed
from tests import thorough

ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    "shop/__init__.py": "",
    "shop/__main__.py": "from shop import till",
    "shop/till.py": "def total():\n    from shop.parts import price",
    "shop/parts/__init__.py": "from . import price",
    "shop/parts/price.py": "",
    "shop/late.py": "",
    "shop/lazy.py": "NAMES = ['shop.late']",
    "tests/conftest.py": "ORDER = ['tests/test_price.py']",
    "tests/starting.py": "from tests.nursery import children\nchildren.of('shop')",
    "tests/whole/conftest.py": "from tests import starting",
    "tests/whole/test_program.py": "",
    "tests/chart/test_rendered.py": "",
    "tests/test_price.py": "import shop.parts.price",
    "tests/test_lazy.py": "from shop import lazy",
    "tests/test_yaml.py": "from tests import yaml_files",
    "tests/yaml_files.py": "FOLDER = ROOT / \"examples\"",
}  # fmt: skip
PROGRAM, CHART, PRICE, LAZY, YAML = (
    "tests/whole/test_program.py",
    "tests/chart/test_rendered.py",
    "tests/test_price.py",
    "tests/test_lazy.py",
    "tests/test_yaml.py",
)


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("shop/parts/price.py", {PROGRAM, PRICE}),
        ("shop/till.py", {PROGRAM}),
        ("shop/__init__.py", {PROGRAM, PRICE, LAZY}),
        ("shop/late.py", {LAZY}),
        ("shop/parts/prices.json", {PROGRAM, PRICE}),
        ("tests/starting.py", {PROGRAM}),
        (LAZY, {LAZY}),
        ("README.md", {CHART}),
        ("examples/task.yaml", {CHART, YAML}),
        ("requirements/dev.txt", {PROGRAM, CHART, PRICE, LAZY, YAML}),
        ("tests/conftest.py", {PROGRAM, CHART, PRICE, LAZY, YAML}),
    ],
)
def test_what_a_change_can_break(path: str, tests: set[str]) -> None:
    assert set(changed.Tree(SOURCES).breakable([path])) == tests


def test_a_module_that_was_removed_can_break_who_imported_it() -> None:
    left = {path: source for path, source in SOURCES.items() if path != "shop/late.py"}
    assert changed.Tree(left, ["shop/late.py"]).breakable(["shop/late.py"]) == [LAZY]


_IMPORT = """
import importlib, json, os, sys
import pytest  # rewrites nothing here: only what is imported counts
names = []
for module in sys.argv[1:]:
    reading, writing = os.pipe()
    if not os.fork():
        importlib.import_module(module)
        os.write(writing, json.dumps(sorted(sys.modules)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:
        print(pipe.read())
    os.wait()
"""
_REAL = ("tests/router/test_scheduler.py", "tests/kb/agent/test_streams.py", "tests/cli/test_submit.py")


@thorough.only  # `make test` checks the cases above.
def test_nothing_that_python_imports_is_overlooked() -> None:
    paths = changed._git("ls-files", "*.py")
    sources = {path: (ROOT / path).read_text() for path in paths if (ROOT / path).is_file()}
    tree = changed.Tree(sources)
    paths_of = {name: path for path, name in changed.modules(sources).items()}
    command = [sys.executable, "-c", _IMPORT, *(changed.modules([test])[test] for test in _REAL)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(loaded) == len(_REAL)
    checked = 0
    for test, names in zip(_REAL, loaded, strict=True):
        ours = [paths_of[name] for name in names if name in paths_of]
        for path in ours[:: max(1, len(ours) // 12)]:
            assert test in tree.breakable([path]), path
            checked += 1
    assert checked >= 30
