"""`--check` of the commands that write files: they name what is out of date and change nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hack.packages import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
COPIED = (*PACKAGES, "charts", "docs", "hack", "tests/fakes")
_CASES = [
    ("crds", "crds/jervis.dev_connections.yaml"),
    ("crds", "docs/api.md"),
    ("hack.chart", "charts/jervis/templates/crds/jervis.dev_connections.yaml"),
    ("hack.chart", "charts/jervis/templates/admission/_rules.tpl"),
    ("hack.chart", "charts/jervis/values.schema.json"),
    ("hack.decisions", "docs/decisions/README.md"),
]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, apart from this checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for folder in COPIED:
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__", "tools"))
    (copy / "tests" / "__init__.py").touch()
    return copy


def check(checkout: Path, module: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, "--check"],
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": str(checkout)},
        capture_output=True,
        text=True,
    )


def _by_hand(schema: str) -> str:
    """The schema with another text for each setting."""
    return schema.replace('"description": "', '"description": "By hand: ')


@pytest.mark.parametrize(("module", "name"), _CASES)
def test_check_names_the_file_that_is_out_of_date(checkout: Path, module: str, name: str) -> None:
    assert check(checkout, module).returncode == 0
    file = checkout / name
    before = file.read_text()
    changed = _by_hand(before) if name.endswith(".json") else before + "# by hand\n"
    file.write_text(changed)
    try:
        found = check(checkout, module)
        assert found.returncode == 1
        assert f"{name} is out of date: python -m {module}" in found.stderr
        assert file.read_text() == changed
    finally:
        file.write_text(before)
