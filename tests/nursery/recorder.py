"""Records which functions of the product a process calls, in the order of their first calls (`tests/flow.py`).

Functions of all threads (`sys.setprofile`), as `controllers/pendingtask/decide.py:decide`.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

VARIABLE = "RECORDED_FLOW"
"""The folder for the trace, in the environment of a child that records."""
BEGIN, END = signal.SIGUSR1, signal.SIGUSR2
"""Forget the trace; write it. No program of ours and no library handles these two."""
BEGUN, ENDED = "begun", "ended"
"""The files that say so. A child that ends by itself writes its trace as well."""
_ROOT = f"{Path(__file__).resolve().parents[2]}/"
_NOT_PRODUCT = tuple(f"{_ROOT}{name}/" for name in ("tests", ".venv"))


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
        self._called: dict[CodeType, None] = {}

    def enter(self, frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_ROOT):
            self._called.setdefault(frame.f_code)

    def begin(self, *_: Any) -> None:
        self._called = {}
        self._write(BEGUN, "")

    def end(self, *_: Any) -> None:
        ours = (code for code in list(self._called) if not code.co_filename.startswith(_NOT_PRODUCT))
        lines = (f"{code.co_filename.removeprefix(_ROOT)}:{code.co_qualname}" for code in ours)
        self._write(ENDED, "\n".join(line for line in lines if not line.endswith(":<module>")))

    def _write(self, name: str, text: str) -> None:
        """Whole, or not at all."""
        draft = self._folder / f"{name}.draft"
        draft.write_text(text)
        draft.rename(self._folder / name)
