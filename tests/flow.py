"""The reading paths of ARCHITECTURE.md, compared with what a process calls.

async def test_a_request(recording: Path) -> None:      # from tests.flow import recording
    ...                                                 # start the process by the nursery
    flow.begin(process.pid, recording)                  # what it has done until now is forgotten
    ...
    flow.agrees("a proxied request", flow.end(process.pid, recording))
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests import waiting
from tests.nursery import recorder

_PAGE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
_ROW = re.compile(r"^\| \w+ +\| `([\w/]+\.py)` +\| `([\w.]+)` +\|", re.MULTILINE)
_FILES = 8
"""Files that a stranger opens for a main flow."""


@pytest.fixture
def recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to which the processes that this test starts write which files they enter."""
    folder = tmp_path / "flow"
    folder.mkdir()
    monkeypatch.setenv(recorder.VARIABLE, str(folder))
    return folder


def begin(pid: int, folder: Path) -> None:
    """Return once the trace of this process is empty."""
    _signalled(pid, recorder.BEGIN, folder / recorder.BEGUN)


def end(pid: int, folder: Path) -> list[str]:
    """The functions that were called since `begin`, by their first calls: `router/priority.py:level`."""
    return _signalled(pid, recorder.END, folder / recorder.ENDED).splitlines()


def of_ended(folder: Path) -> list[str]:
    """Those of a process that has ended by itself, from its first call."""
    return (folder / recorder.ENDED).read_text().splitlines()


def agrees(flow: str, called: Sequence[str]) -> None:
    """What that reading path lists was called, in its order of first calls."""
    section = _PAGE.read_text().split(f"\n## The reading path of {flow}\n")[1].split("\n## ")[0]
    path = [f"{file}:{name}" for file, name in _ROW.findall(section)]
    assert len(path) == _FILES
    assert [place for place in called if place in path] == path


def _signalled(pid: int, number: signal.Signals, answer: Path) -> str:
    answer.unlink(missing_ok=True)
    os.kill(pid, number)
    waiting.until(answer.exists, f"process {pid} has written {answer.name}")
    return answer.read_text()
