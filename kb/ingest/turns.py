"""One at a time per key, any number of keys at once; a key that nobody waits for takes no memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class _Turn:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    interested: int = 0


class Turns:
    """Mutual exclusion by key within one event loop."""

    def __init__(self) -> None:
        self._turns: dict[str, _Turn] = {}

    @asynccontextmanager
    async def take(self, key: str) -> AsyncIterator[None]:
        """Wait for the turn of `key` and hold it."""
        turn = self._turns.setdefault(key, _Turn())
        turn.interested += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.interested -= 1
            if turn.interested == 0:
                del self._turns[key]

    def taken(self, key: str) -> bool:
        """Whether somebody holds or waits for `key`."""
        return key in self._turns
