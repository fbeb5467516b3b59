"""Waiting for another process to get somewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_LIMIT = 90.0


async def until(happened: Callable[[], bool]) -> None:
    """Ask again and again, off the event loop; TimeoutError after a while that no working process needs."""
    async with asyncio.timeout(_LIMIT):
        while not await asyncio.to_thread(happened):  # noqa: ASYNC110 -- the event happens in another process
            await asyncio.sleep(0.01)
