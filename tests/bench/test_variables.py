"""A benchmark without the data services says what is missing and what to do, in place of a traceback."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench import variables

_ROOT = Path(__file__).resolve().parents[2]


def test_a_variable_that_is_missing_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JERVIS_TEST_MONGODB_URI", "mongodb://somewhere")
    assert variables.required("JERVIS_TEST_MONGODB_URI") == "mongodb://somewhere"
    monkeypatch.setenv("JERVIS_TEST_MONGODB_URI", "")
    with pytest.raises(SystemExit, match=r"(?s)JERVIS_TEST_MONGODB_URI is not set.*make services-up.*hack\.cluster"):
        variables.required("JERVIS_TEST_MONGODB_URI")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("bench.qualify", "JERVIS_TEST_WEAVIATE_URL"),
        ("bench.real --model smollm2", "JERVIS_TEST_WEAVIATE_URL"),
        ("bench.agent_search first-line", "JERVIS_TEST_MONGODB_URI"),
        ("bench.codegraph edits", "JERVIS_TEST_MONGODB_URI"),
    ],
)
def test_a_benchmark_ends_with_that_line(command: str, name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=_ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(_ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"{name} is not set: start the data services")
    assert "Traceback" not in done.stderr


def test_no_benchmark_reads_such_a_variable_without_a_remedy() -> None:
    found = [
        path.relative_to(_ROOT)
        for path in sorted((_ROOT / "bench").rglob("*.py"))
        if re.search(r"environ\[\s*[\"']JERVIS_TEST_", path.read_text())
    ]
    assert found == []
