"""Lines to a pipe from a thread of its own: a reader that stops reading must not stop the event loop."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable
from typing import BinaryIO


class Lines:
    """`put` never waits. At most `most` lines wait for the reader; `dropped` is called for each one beyond that."""

    def __init__(self, to: BinaryIO, dropped: Callable[[], object], *, most: int = 10_000) -> None:
        self._to = to
        self._dropped = dropped
        self._waiting: queue.Queue[bytes | None] = queue.Queue(most)
        self._thread = threading.Thread(target=self._write, name="request-log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Write the line, with its end, some time later."""
        try:
            self._waiting.put_nowait(line)
        except queue.Full:
            self._dropped()

    def close(self, patience: float) -> None:
        """Write what waits, for at most `patience` seconds."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
            self._thread.join(patience)

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):  # a pipe without a reader: the lines are lost, the requests are not
                self._to.write(line)
                if self._waiting.empty():
                    self._to.flush()
        with contextlib.suppress(OSError):
            self._to.flush()
