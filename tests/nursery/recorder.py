"""Records which files of the product a process enters, in which order (`tests/flow.py`).

A file stands in the trace each time that a call enters it from another one, in any thread (`sys.setprofile`).
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

VARIABLE = "RECORDED_FLOW"
"""The folder for the trace, in the environment of a child that records."""
BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
"""Forget the trace; write it. No program of ours and no library handles these two."""
BEGUN, ENDED = "begun", "ended"
"""The files that say so. A child that ends by itself writes its trace as well."""
_ROOT = f"{Path(__file__).resolve().parents[2]}/"
_NOT_PRODUCT = tuple(f"{_ROOT}{name}/" for name in ("tests", ".venv"))
_MOST = 1_000_000
"""Entries of a trace: more than a request or a task makes."""


def install() -> None:
    """In a child, before its program begins: record, if its environment says so."""
    if folder := os.environ.get(VARIABLE):
        recorder = _Recorder(Path(folder))
        signal.signal(BEGIN, recorder.begin)
        signal.signal(END, recorder.end)
        atexit.register(recorder.end)
        threading.setprofile(recorder.enter)
        sys.setprofile(recorder.enter)


class _Recorder:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._trace: list[str] = []
        self._last = ""

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event != "call" or path == self._last or frame.f_code.co_name == "<module>":
            return
        if path.startswith(_ROOT) and not path.startswith(_NOT_PRODUCT) and len(self._trace) < _MOST:
            self._last = path
            self._trace.append(path.removeprefix(_ROOT))

    def begin(self, *_: Any) -> None:
        self._trace, self._last = [], ""
        self._write(BEGUN, "")

    def end(self, *_: Any) -> None:
        self._write(ENDED, "\n".join(self._trace))

    def _write(self, name: str, text: str) -> None:
        """Whole, or not at all."""
        draft = self._folder / f"{name}.draft"
        draft.write_text(text)
        draft.rename(self._folder / name)
