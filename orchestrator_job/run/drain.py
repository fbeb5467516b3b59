"""Stop requests: on SIGTERM (preemption, eviction, node shutdown) or SIGINT the run drains, then is cancelled.

Only the standard library is imported here: as process 1 of a container Python ignores SIGTERM without a handler, so
this one is installed before the slow imports.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from types import FrameType


class Drained(Exception):  # noqa: N818 - not an error: the run stopped on request
    """The run stopped at a checkpoint on request; this is no failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Request:
    """The request to stop the process, and its listeners."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._listeners: list[Callable[[str], None]] = []

    def install(self, signals: tuple[signal.Signals, ...] = (signal.SIGTERM, signal.SIGINT)) -> None:
        """Handle the signals from now on, with or without an event loop."""
        for number in signals:
            signal.signal(number, self._on_signal)

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the signals wake the event loop; call it from the coroutine that runs on it."""
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask, number.name)

    def listen(self, listener: Callable[[str], None]) -> None:
        """Call `listener(reason)` when a stop is requested, or at once if it already was."""
        self._listeners.append(listener)
        if self.reason is not None:
            listener(self.reason)

    def ask(self, reason: str) -> None:
        """Request the run to stop; only the first reason counts."""
        if self.reason is None:
            self.reason = reason
            for listener in self._listeners:
                listener(reason)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.ask(signal.Signals(number).name)
