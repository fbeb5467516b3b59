"""Lines on the terminal, each with the seconds since the command started."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

_Clock = time.monotonic


class Progress:
    """Says on stderr what takes long; stdout stays for results."""

    def __init__(self) -> None:
        self._began = _Clock()

    def say(self, text: str) -> None:
        print(f"[{_Clock() - self._began:6.1f}s] {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Announce a step and, when it is over, how long it took."""
        self.say(f"{text} ...")
        began = _Clock()
        yield
        self.say(f"{text}: done in {_Clock() - began:.1f} s")
