"""The coroutines that run as long as the process. One that ends by itself means that the process is not whole."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Crew:
    """`die` ends the process, with the reason."""

    def __init__(self, die: Callable[[str], object]) -> None:
        self._die = die
        self._hired: list[asyncio.Task[None]] = []

    def hire(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work` for ever."""
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        self._hired.append(task)

    async def dismiss(self) -> None:
        """Cancel all; returns when they have ended."""
        hired, self._hired = self._hired, []
        for one in hired:
            one.cancel()
        await asyncio.gather(*hired, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task in self._hired:
            self._die(f"{task.get_name()} ended: {task.exception()!r}")
