"""Loops that run as long as the process does, and outlive an error that was not foreseen.

What may fail by itself (a store that is away) each loop catches where it knows what to do. Anything else is a bug that
one object or one answer brings out: it is logged with its traceback and counted, and the loop begins again after a
pause (decision 0075). Ending the process instead would take the API away too, and meet the same object again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from kb import metrics

log = structlog.get_logger(__name__)


async def keep(
    name: str,
    run: Callable[[], Awaitable[None]],
    meters: metrics.Metrics,
    *,
    pause: float,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run `run` until it returns, or this task is cancelled; after an error again, `pause` seconds later."""
    while True:
        try:
            await run()
        except asyncio.CancelledError:
            # A driver that closes its channel cancels the calls on it; this task itself was not cancelled then.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            failed(name, meters)
        except Exception:  # noqa: BLE001 -- the edge of a loop; `failed` logs it
            failed(name, meters)
        else:
            return
        await sleep(pause)


def failed(name: str, meters: metrics.Metrics, **about: str) -> None:
    """Count and log the error that is being handled: the loop `name` goes on. `about` names what it was doing."""
    meters.loop_errors.labels(name).inc()
    log.exception("an unexpected error; the loop goes on", loop=name, **about)
