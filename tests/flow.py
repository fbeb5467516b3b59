"""The reading paths of ARCHITECTURE.md, compared with the files that a process enters.

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
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests import waiting
from tests.nursery import recorder

_PAGE = Path(__file__).resolve().parents[1] / "ARCHITECTURE.md"
_MOST = 8
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
    """The trace since `begin`: paths in the repository, each as often as a call entered it from another file."""
    return _signalled(pid, recorder.END, folder / recorder.ENDED).split()


def of_ended(folder: Path) -> list[str]:
    """The trace of a process that has ended by itself, from its first call."""
    return (folder / recorder.ENDED).read_text().split()


def agrees(flow: str, trace: Sequence[str]) -> None:
    """The process entered the files of that reading path in the page's order, and in all no more than the page says."""
    section = _PAGE.read_text().split(f"\n## The reading path of {flow}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[2] for line in section.splitlines() if line.startswith("|")]
    path = [file for row in rows for file in re.findall(r"`([\w/]+\.py)`", row)]
    entered = dict.fromkeys(trace)
    assert len(path) == _MOST
    most = int(re.findall(r"^At most (\d+) files of the product are entered", section, re.MULTILINE)[0])
    assert len(entered) <= most, sorted(entered)
    assert not (missed := _missed(path, trace)), f"{missed} is not entered after {path}, but {list(entered)}"


def _missed(path: Sequence[str], trace: Sequence[str]) -> str:
    """The first file of the path that the trace does not enter after the ones before it; empty if there is none."""
    steps: Iterator[str] = iter(trace)
    return next((file for file in path if file not in steps), "")


def _signalled(pid: int, number: signal.Signals, answer: Path) -> str:
    answer.unlink(missing_ok=True)
    os.kill(pid, number)
    waiting.until(answer.exists, f"process {pid} has written {answer.name}")
    return answer.read_text()
