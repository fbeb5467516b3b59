"""Is every watch alive? What comes over the wire is the only proof; a bookmark, about one a minute, is one too."""

from __future__ import annotations

from collections.abc import Callable


class Beats:
    """When each watch last received data, in monotonic seconds, by the path of its URL."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: dict[str, float] = {}
        self._heard: dict[str, float] = {}

    def expect(self, path: str) -> None:
        """There is a watch of `path` from now on."""
        self._since.setdefault(path, self._clock())

    def drop(self, path: str) -> None:
        """The watch of `path` has ended for good."""
        self._since.pop(path, None)
        self._heard.pop(path, None)

    def beat(self, path: str) -> None:
        """The watch of `path` received data. One that is not expected does not count."""
        if path in self._since:
            self._heard[path] = self._clock()

    def restart(self) -> None:
        """The time in which a watch must receive data begins now for all that are expected."""
        now = self._clock()
        self._since = dict.fromkeys(self._since, now)

    def silent(self) -> list[str]:
        """Paths of expected watches that never received data."""
        return [path for path in self._since if path not in self._heard]

    def ages(self) -> dict[str, float]:
        """Seconds since each expected watch received data, or since it is expected."""
        now = self._clock()
        return {path: now - max(since, self._heard.get(path, since)) for path, since in self._since.items()}
