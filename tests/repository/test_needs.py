"""A program that is missing is an error, but for `make test-fast`, which skips the tests that need it and says so."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from hack.cluster import binaries
from tests import needs

MAKEFILE = Path(__file__).resolve().parents[2] / "Makefile"
_CASES: list[tuple[Callable[[], object], str]] = [
    (needs.browser, "no Chromium: make programs"),
    (needs.ocr, "no tesseract-ocr: make programs"),
    (lambda: needs.packages("curl"), "no curl: make programs"),
    (lambda: needs.program(binaries.HELM, "helm"), "no helm: Go is missing: install Go 1.26"),
]


@pytest.fixture(autouse=True)
def empty_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(("ask", "reason"), _CASES)
def test_a_missing_program_fails_the_test(
    ask: Callable[[], object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("JERVIS_TEST_MAY_SKIP", raising=False)
    with pytest.raises(pytest.fail.Exception, match=re.escape(reason)):
        ask()


@pytest.mark.parametrize(("ask", "reason"), _CASES)
def test_it_skips_the_test_where_that_is_allowed(
    ask: Callable[[], object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JERVIS_TEST_MAY_SKIP", "1")
    with pytest.raises(pytest.skip.Exception, match=re.escape(reason)):
        ask()


@pytest.mark.parametrize(("target", "installs"), [("test", True), ("contract", True), ("test-fast", False)])
def test_make_installs_programs_where_it_may(target: str, installs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    done = subprocess.run(["make", "-n", target], cwd=MAKEFILE.parent, capture_output=True, text=True, check=True)
    before = done.stdout.partition("bin/pytest")[0]
    assert ("-m hack.cluster programs" in before) is installs


def test_make_test_leaves_no_phase_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test belongs to one of the runs of pytest, by its marker and its folder."""
    monkeypatch.undo()
    done = subprocess.run(["make", "-n", "test"], cwd=MAKEFILE.parent, capture_output=True, text=True, check=True)
    for check in ("ruff check", "ruff format --check", "mdformat --check", "mypy", "lint-imports"):
        assert f"bin/{check}" in done.stdout
    runs = [line for line in done.stdout.splitlines() if "bin/pytest" in line]
    either, neither = "apiserver or services", "not apiserver and not services and not e2e"
    selected = sorted(re.findall(r'-m (e2e|"[^"]*")', " ".join(runs)))
    assert selected == [f'"({either}) and not e2e"', f'"{either}"', f'"{neither}"', "e2e"]


def test_make_contract_runs_every_file_with_a_marked_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    done = subprocess.run(["make", "-n", "contract"], cwd=MAKEFILE.parent, capture_output=True, text=True, check=True)
    [contract] = [line for line in done.stdout.splitlines() if "bin/pytest" in line]
    assert '-m "(apiserver or services) and not e2e"' in contract
    marked = {path for path in (MAKEFILE.parent / "tests").rglob("test_*.py") if "mark.services" in path.read_text()}
    left = {path for path in marked if path.relative_to(MAKEFILE.parent).as_posix() not in contract}
    assert {path.parent.name for path in left} == {"faults"}


def test_only_test_fast_allows_it() -> None:
    text = MAKEFILE.read_text()
    assert re.findall(r"^(.*)JERVIS_TEST_MAY_SKIP", text, flags=re.MULTILINE) == ["test-fast: export "]
    # A variable of a target holds for its prerequisites too, so no other target may reach its tests through it.
    assert not re.findall(r"^[a-z0-9-]+:.*\btest-fast\b", text, flags=re.MULTILINE)
