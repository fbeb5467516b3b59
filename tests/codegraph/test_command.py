"""`python -m codegraph extract`: JSON on stdout, progress on stderr."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codegraph import __main__ as command


def test_it_prints_rows_by_file(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "a.py").write_text("import os\nclass A:\n    def f(self): pass\n")
    (tmp_path / "b.py").write_bytes(b"\0")
    assert command.main(["extract", str(tmp_path)]) == 0
    out, err = capfdbinary.readouterr()
    assert json.loads(out) == {
        "files": {"a.py": [["class", "A", 2], ["method", "A.f", 3], ["import", "os", 1]]},
        "calls": [],
        "skipped": [["b.py", "binary", "NUL bytes"]],
    }
    assert b"1 files in" in err


def test_its_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(["extract", "--help"])
    out = capsys.readouterr().out
    for option in (
        "--files",
        "--file-bytes",
        "--total-bytes",
        "--seconds",
        "--workers",
        "--vendored",
        "--no-generated",
    ):
        assert option in out
