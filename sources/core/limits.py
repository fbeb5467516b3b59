"""What polls may use at once: requests to one source by a token bucket, bytes of a process by a budget."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager


class Bucket:
    """`reserve(now)` takes a place and answers the seconds until it is due."""

    def __init__(self, per_minute: int, burst: int) -> None:
        self._every = 60.0 / per_minute
        self._burst = burst
        self._free_at = float("-inf")
        """When the bucket would be empty of debts: one more request costs `every` seconds."""

    def reserve(self, now: float) -> float:
        """Seconds to wait before the next request, 0 within the burst."""
        self._free_at = max(self._free_at, now - self._burst * self._every) + self._every
        return max(0.0, self._free_at - now)


class Budget:
    """`most` bytes for all polls of a process, in the order in which they ask; one that wants more takes all."""

    def __init__(self, most: int) -> None:
        self._most = self._free = most
        self._turn, self._freed = asyncio.Lock(), asyncio.Event()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Wait until `size` bytes are free and keep them until the end of the block."""
        size = min(size, self._most)
        async with self._turn:
            while self._free < size:
                self._freed.clear()
                await self._freed.wait()
            self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._freed.set()


def full(holders: Iterable[str], width: int) -> list[str]:
    """Of those who hold places, each named once per place, who may take no other one of `width` now.

    These are the ones with at least twice as many as are free. One alone gets about two thirds, and the next finds a
    place, however long those last.

    Source: Choudhury, Hahne: "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches" (1998).
    """
    held = Counter(holders)
    free = width - held.total()
    return [name for name, count in held.items() if count >= 2 * free]
