"""Programs that not every machine has. A test without its program fails, or is skipped where the caller allows it.

`make test-fast` sets JERVIS_TEST_MAY_SKIP, so that it runs on a laptop; nothing else does. pytest's summary then has
one line per program, with the number of tests that did not run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from hack.cluster import binaries, errors, prerequisites, progress

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str:
    """The path of Chromium."""
    return next((found for name in _BROWSERS if (found := shutil.which(name))), None) or _absent(
        "no Chromium: make programs"
    )


def packages(*names: str) -> None:
    """Debian packages of the list for the tests."""
    if absent := prerequisites.missing({name: prerequisites.TESTS[name] for name in names}):
        _absent(f"no {', '.join(absent)}: make programs")


def ocr() -> None:
    """Tesseract with its languages and the font of the drawn images."""
    packages(*prerequisites.OCR)


def program(tool: binaries.Tool, name: str) -> Path:
    """A program that is built from its Go module, once."""
    try:
        return binaries.program(tool, name, progress.Progress())
    except errors.Missing as missing:
        _absent(f"no {name}: {missing}")


def mounting() -> list[str]:
    """The beginning of a command that may mount volumes, which nothing else sees."""
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode:
        _absent("no user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    return command


def _absent(reason: str) -> NoReturn:
    if os.environ.get("JERVIS_TEST_MAY_SKIP"):
        pytest.skip(reason)
    pytest.fail(f"{reason} (JERVIS_TEST_MAY_SKIP=1 skips the tests that need it)", pytrace=False)
