"""Open-loop load: every task has its moment by the clock, whether or not the system keeps up.

A system that does not is found out by figures and not by the harness falling over: at most `AT_ONCE` requests are
under way, latencies count from the planned moment all the same, and what could not be sent `PATIENCE` seconds after its
moment is left out and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field

from crds import errors

AT_ONCE = 64
"""Requests under way: more would only queue in the apiserver, each with a connection of its own."""
PATIENCE = 30.0
"""Seconds behind its moment after which a task is not sent any more."""

Send = Callable[[str], Awaitable[None]]


@dataclass
class Sent:
    """`planned`: the moments (monotonic seconds) of what was sent, not the actual ones. The others were not sent."""

    planned: dict[str, float] = field(default_factory=dict)
    late: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def figures(self) -> dict[str, float | list[str]]:
        """What was sent of what was planned, and how fast."""
        return {
            "sent": len(self.planned),
            "not_sent": self.late + len(self.failures),
            "sent_per_second": round(len(self.planned) / self.seconds, 1) if self.seconds else 0.0,
            **({"failures": self.failures[:3]} if self.failures else {}),
        }


async def paced(names: Sequence[str], rate: float, send: Send) -> Sent:
    """Send each at its moment, `rate` per second."""
    loop, begun, made = asyncio.get_running_loop(), time.monotonic(), Sent()
    wait_for, under_way = asyncio.Semaphore(AT_ONCE), set[asyncio.Task[None]]()

    async def one(name: str, moment: float) -> None:
        try:
            await send(name)
            made.planned[name] = moment
        except errors.JervisError as error:
            made.failures.append(error.message)
        finally:
            wait_for.release()

    for number, name in enumerate(names):
        moment = begun + number / rate
        await asyncio.sleep(max(0.0, moment - time.monotonic()))
        await wait_for.acquire()
        if time.monotonic() > moment + PATIENCE:
            wait_for.release()
            made.late += 1
            continue
        task = loop.create_task(one(name, moment))
        under_way.add(task)
        task.add_done_callback(under_way.discard)
    await asyncio.gather(*under_way)
    made.seconds = time.monotonic() - begun
    return made


async def crowd(names: Iterable[str], at_once: int, send: Send) -> float:
    """As fast as `at_once` senders can; seconds."""
    waiting, begun = iter(names), time.monotonic()

    async def sender() -> None:
        for name in waiting:
            await send(name)

    await asyncio.gather(*(sender() for _ in range(at_once)))
    return time.monotonic() - begun
