"""Lines on the terminal, each with the seconds since the command started, and the steps that are under way."""

from __future__ import annotations

import contextlib
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

_QUIET_SECONDS = 30.0
"""A log gets a line about a running step that often."""
_REDRAW_SECONDS = 1.0


@dataclass(eq=False, frozen=True)
class _Running:
    text: str
    expected: float
    began: float

    def line(self, now: float) -> str:
        """Such as `building weaviate: 42 s of about 140 s`."""
        return f"{self.text}: {now - self.began:.0f} s{f' of about {self.expected:.0f} s' if self.expected else ''}"


class Progress:
    """Says on `stream` what takes long; stdout stays for results. Steps may run beside each other, in threads.

    On a terminal each running step has a line of its own at the bottom, redrawn every second. Elsewhere it has a line
    at its start, one at its end, and one every `every` seconds between.
    """

    def __init__(self, stream: TextIO | None = None, every: float | None = None) -> None:
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()
        self._every = every or (_REDRAW_SECONDS if self._live else _QUIET_SECONDS)
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._running: list[_Running] = []
        self._drawn = 0

    def say(self, text: str) -> None:
        """One line."""
        with self._lock:
            self._write(text)

    @contextlib.contextmanager
    def step(self, text: str, expected: float = 0) -> Iterator[None]:
        """Announce a step, what it takes and, when it is over, how long it took; `expected` seconds, 0 for unknown."""
        running = _Running(text, expected, time.monotonic())
        over = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(running, over), daemon=True)
        with self._lock:
            self._running.append(running)
            self._write("" if self._live else f"{text} ...{f' (about {expected:.0f} s)' if expected else ''}")
        ticker.start()
        end = "failed after"
        try:
            yield
            end = "done in"
        finally:
            over.set()
            ticker.join()
            with self._lock:
                self._running.remove(running)
                self._write(f"{text}: {end} {time.monotonic() - running.began:.1f} s")

    def _tick(self, running: _Running, over: threading.Event) -> None:
        while not over.wait(self._every):
            with self._lock:
                self._write("" if self._live else running.line(time.monotonic()))

    def _write(self, text: str) -> None:
        """The line, above those of the running steps on a terminal. The caller holds the lock."""
        now = time.monotonic()
        parts = [f"\x1b[{self._drawn}A\x1b[J" if self._drawn else ""]
        if text:
            parts.append(f"[{now - self._began:6.1f}s] {text}\n")
        if self._live:
            width = shutil.get_terminal_size().columns - 1
            parts += [f"{f'          {one.line(now)}'[:width]}\n" for one in self._running]
            self._drawn = len(self._running)
        self._stream.write("".join(parts))
        self._stream.flush()
