"""How much SQLite does for a store, in instructions of its machine: they grow with the rows looked at, and no clock
is read."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

_connect = sqlite3.connect


class Counter:
    """Counts on every connection that `connect` opens, in whichever thread."""

    def __init__(self) -> None:
        self._run = itertools.count()

    def connect(self, *args: Any, **more: Any) -> sqlite3.Connection:
        """Stands for `sqlite3.connect`."""
        made: sqlite3.Connection = _connect(*args, **more)
        made.set_progress_handler(lambda: next(self._run) < 0, 1)
        return made

    async def least(self, work: Callable[[], Awaitable[object]]) -> int:
        """The least that `work` takes of four times.

        A store has three reading threads at most. Each opens its connection when it first reads, which is not counted
        so: it happens in three of the four at most.
        """
        taken = []
        for _ in range(4):
            before = next(self._run)
            await work()
            taken.append(next(self._run) - before - 1)
        return min(taken)
