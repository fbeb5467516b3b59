"""What images may hold of a process's memory at once, over all of its documents.

An image is held several times while a model looks at it: its bytes, as base64, in the request. Without a bound a few
mails with large photos would end the process, and the next one, which resumes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

MOST_BYTES = 32 << 20


class ImageSlots:
    """`most` bytes at once; who asks first has them first. What is larger is held alone."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._held = 0
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def of(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, as soon as there is room for them."""
        size = min(size, self.most)
        async with self._turn:
            while self._held + size > self.most:
                self._freed.clear()
                await self._freed.wait()
            self._held += size
        try:
            yield
        finally:
            self._held -= size
            self._freed.set()
