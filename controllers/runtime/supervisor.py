"""The coroutines that run as long as the process. One that ends by itself means that the process is not whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Supervisor:
    """`die` ends the process, with the reason."""

    def __init__(self, die: Callable[[str], object]) -> None:
        self._die = die
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` for ever."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    async def stop(self) -> None:
        """Cancel all; returns when they have ended."""
        tasks, self._tasks = self._tasks, []
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task in self._tasks:
            self._die(f"{task.get_name()} ended: {task.exception()!r}")
