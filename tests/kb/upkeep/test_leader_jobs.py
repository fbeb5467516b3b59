"""One process at a time does the upkeep; the next one begins when it has ended or lost its turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kb import errors, metrics
from kb.ingest import document_locks
from kb.upkeep import leader_jobs
from tests import waiting


class Losable(document_locks.Turns):
    """Turns of which the one that is held can be taken away."""

    def __init__(self) -> None:
        super().__init__()
        self.lost = False

    @asynccontextmanager
    async def attempt(self, key: str) -> AsyncIterator[document_locks.Turn | None]:
        async with super().attempt(key) as turn:
            yield None if turn is None else _Turn(self)


class _Turn(document_locks.Turn):
    def __init__(self, owner: Losable) -> None:
        super().__init__(fence=1)
        self._owner = owner

    def check(self) -> None:
        if self._owner.lost:
            raise errors.Outrun("lost")


async def test_one_leads_and_another_follows(meters: metrics.Metrics) -> None:
    owners, working = Losable(), list[str]()

    async def work(name: str) -> None:
        working.append(name)
        try:
            await asyncio.Event().wait()
        finally:
            working.remove(name)

    first = asyncio.create_task(leader_jobs.LeaderJobs(owners, [lambda turn: work("first")], meters).run(interval=0.01))
    await waiting.eventually(lambda: working == ["first"])
    second = asyncio.create_task(
        leader_jobs.LeaderJobs(owners, [lambda turn: work("second")], meters).run(interval=0.01)
    )
    await asyncio.sleep(0.05)
    assert working == ["first"]
    first.cancel()
    await waiting.eventually(lambda: working == ["second"])
    owners.lost = True
    await waiting.eventually(lambda: working == [])
    owners.lost = False
    await waiting.eventually(lambda: working == ["second"])
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    assert working == []
