"""The readings in progress: one asyncio task each, at most one per PendingTask."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator


class Readings:
    """Readings in progress, by uid: one asyncio task each. `monotonic` is the clock."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._running: dict[str, tuple[asyncio.Task[None], float]] = {}

    def __len__(self) -> int:
        return len(self._running)

    def __contains__(self, uid: str) -> bool:
        return uid in self._running

    def __iter__(self) -> Iterator[str]:
        return iter(self._running)

    def start(self, uid: str, reading: Coroutine[None, None, None]) -> None:
        """Start a reading; none of that uid may be in progress."""
        self._running[uid] = asyncio.create_task(reading, name=f"qualify {uid}"), self._monotonic()

    def end(self, uid: str) -> None:
        """Called by a reading at its end. A cancelled reading does not end its successor."""
        if uid in self._running and self._running[uid][0] is asyncio.current_task():
            del self._running[uid]

    def seconds(self, uid: str) -> float | None:
        """Seconds since its start; None if none is in progress."""
        return self._monotonic() - self._running[uid][1] if uid in self._running else None

    def cancel(self, uid: str) -> None:
        """Cancel the reading of a task that is gone."""
        if (running := self._running.pop(uid, None)) is not None:
            running[0].cancel()

    async def close(self) -> None:
        """Cancel all; they are repeated after the next start."""
        running = [one for one, _ in self._running.values()]
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)
