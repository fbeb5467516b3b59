"""The coroutines that run as long as the process. If one ends by itself, the process ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Supervisor:
    """`die` ends the process with a reason."""

    def __init__(self, die: Callable[[str], object]) -> None:
        self._die = die
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` until `stop`."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel all coroutines; returns when they have ended."""
        tasks, self._tasks = self._tasks, []
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task in self._tasks:
            self._die(f"{task.get_name()} ended: {task.exception()!r}")
