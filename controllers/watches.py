"""Is every watch alive? What comes over the wire is the only proof; a bookmark, about one a minute, is one too."""

from __future__ import annotations

from collections.abc import Callable


class Beats:
    """When each watch was last heard, in monotonic seconds, by the path of its URL."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}

    def beat(self, path: str) -> None:
        """The watch of `path` was heard."""
        self._last[path] = self._clock()

    def ages(self) -> dict[str, float]:
        """Seconds since each watch was heard."""
        now = self._clock()
        return {path: now - last for path, last in self._last.items()}
