"""Open-loop load: every task has its moment by the clock, whether or not the system keeps up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

Send = Callable[[str], Awaitable[None]]


async def paced(names: Sequence[str], rate: float, send: Send) -> dict[str, float]:
    """Send each at its moment, `rate` per second; the planned moments (monotonic seconds), not the actual ones."""
    loop, begun = asyncio.get_running_loop(), time.monotonic()
    planned = {name: begun + number / rate for number, name in enumerate(names)}
    under_way: set[asyncio.Task[None]] = set()
    for name, moment in planned.items():
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        one = loop.create_task(_await(send(name)))
        under_way.add(one)
        one.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    return planned


async def crowd(names: Iterable[str], at_once: int, send: Send) -> float:
    """As fast as `at_once` senders can; seconds."""
    waiting, begun = iter(names), time.monotonic()

    async def sender() -> None:
        for name in waiting:
            await send(name)

    await asyncio.gather(*(sender() for _ in range(at_once)))
    return time.monotonic() - begun


async def _await(sent: Awaitable[None]) -> None:
    await sent
