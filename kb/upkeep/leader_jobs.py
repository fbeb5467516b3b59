"""What one writing process at a time does, for all of them: comparing the stores, erasing, resuming merges, sweeping.

The process that holds the turn of the leader works; the others ask every few seconds for it. Lost turns end
the work; every piece of it may be begun again, by this process or another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from kb import errors, metrics
from kb.ingest import document_locks

log = structlog.get_logger(__name__)
KEY = "duty:upkeep"
_LOOK = 5.0

Work = Callable[[document_locks.Turn], Coroutine[Any, Any, None]]


class LeaderJobs:
    """`works` are given the turn and run until they are cancelled; an error that leaves one of them is a bug and ends
    the process."""

    def __init__(self, owners: document_locks.Port, works: Sequence[Work], meters: metrics.Metrics) -> None:
        self._turns = owners
        self._works = works
        self._meters = meters

    async def run(self, *, interval: float = _LOOK) -> None:
        """Work whenever it is this process's turn, until cancelled."""
        while True:
            try:
                async with self._turns.attempt(KEY) as turn:
                    if turn is not None:
                        await self._lead(turn, interval)
            except errors.Away as error:
                log.warning("the turn of the leader cannot be asked for", reason=error.message)
            await asyncio.sleep(interval)

    async def _lead(self, turn: document_locks.Turn, interval: float) -> None:
        log.info("leading")
        self._meters.leading.set(1)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work(turn)) for work in self._works]
                try:
                    while True:
                        await asyncio.sleep(interval)
                        turn.check()
                except errors.Outrun as error:
                    log.warning("no longer leading", reason=error.message)
                    for task in tasks:
                        task.cancel()
        finally:
            self._meters.leading.set(0)
