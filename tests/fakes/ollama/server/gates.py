"""Named gates: requests wait at one until a test opens it, so that tests decide the order instead of the clock."""

from __future__ import annotations

import asyncio


class Gates:
    """Closed until opened; an opened gate stays open until closed again."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}
        self._waiting: dict[str, int] = {}

    async def wait(self, name: str) -> None:
        """Return when the gate is open."""
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            await self._event(name).wait()
        finally:
            self._waiting[name] -= 1

    def open(self, name: str) -> None:
        """Let everybody through, also those who come later."""
        self._event(name).set()

    def shut(self, name: str) -> None:
        """Close it again."""
        self._event(name).clear()

    def waiting(self) -> dict[str, int]:
        """How many requests stand at each gate."""
        return {name: count for name, count in self._waiting.items() if count}

    def _event(self, name: str) -> asyncio.Event:
        return self._events.setdefault(name, asyncio.Event())
